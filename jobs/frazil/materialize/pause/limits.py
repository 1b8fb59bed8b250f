"""The limit of bad records above which a batch is not published, and the batch that `resume` accepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from frazil.materialize.account import Ingested
from frazil.materialize.ingest.decode import TOMBSTONE
from frazil.materialize.ingest.decoders import LOOKUPS_PER_TASK
from frazil.materialize.pause.pausing import Accepted
from frazil.model.dead_letter import Reason
from frazil.model.errors import BadRecordLimitError
from frazil.model.ingested import RangeResult
from frazil.model.spec import BadRecordLimit, TableSpec
from frazil.model.spelling import plural


def through(ranges: Sequence[RangeResult]) -> Accepted:
    ends: dict[str, dict[int, int]] = {}
    for each in ranges:
        ends.setdefault(each.topic, {})[each.partition] = each.end
    return ends


def check_limits(spec: TableSpec, got: Ingested, *, accepted: Accepted) -> None:
    """Judge the ranges that `resume` has not accepted. Raises BadRecordLimitError where nothing may be published."""
    limit = spec.bad_record_limit
    judged = [each for each in got.ranges if not _accepted(each, accepted)]
    if limit == BadRecordLimit.off() or not judged:
        return
    reasons = _reasons(judged)
    named = reasons[Reason.UNKNOWN_SCHEMA_ID] + reasons[Reason.BAD_KEY]
    if named and len(got.unknown_schema_ids) >= LOOKUPS_PER_TASK:
        raise BadRecordLimitError(
            f"{spec.identifier}: the batch names {plural(len(got.unknown_schema_ids), 'schema id')}"
            " that the registry does not have; nothing was published",
            hint=f"check that `schema_registry` in frazil.yaml is the right registry; if it is, {_how_to_go_on(spec)}",
        )
    bad, read = reasons.total(), sum(each.counts.read for each in judged)
    if limit.exceeded_by(bad=bad, read=read):
        raise BadRecordLimitError(
            f"{spec.identifier}: {bad:,} of the batch's {read:,} records could not become rows ({_listed(reasons)}),"
            f" more than bad_record_limit allows ({limit.share:.1%} and at least {limit.at_least:,});"
            f" nothing was published",
            hint=_how_to_go_on(spec),
        )


def _how_to_go_on(spec: TableSpec) -> str:
    look = (
        f"inspect them with `frazil dead-letters list {spec.identifier} --pending`"
        if spec.on_bad_record == "dead_letter"
        else "set `on_bad_record: dead_letter` to inspect them"
    )
    fix = "fix the producer or the spec"
    if spec.value_settings.fields:
        fix = f"fix the producer, or `fields` in {spec.source_file} (a field can change while it is null in every row)"
    return f"{look}; then {fix}, or accept them with `frazil resume {spec.identifier}`"


def _accepted(each: RangeResult, accepted: Accepted) -> bool:
    return each.end <= accepted.get(each.topic, {}).get(each.partition, -1)


def _reasons(ranges: Sequence[RangeResult]) -> Counter[str]:
    """Dead letters and skipped records by reason, without those that were decided on: tombstones, refused schemas."""
    reasons: Counter[str] = Counter()
    for each in ranges:
        reasons.update(each.dead_letters_by_reason)
        reasons.update(each.skipped_by_reason)
    for fine in (TOMBSTONE, Reason.NULL_VALUE, Reason.REFUSED_SCHEMA):
        del reasons[fine]
    return reasons


def _listed(reasons: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in reasons.most_common())
