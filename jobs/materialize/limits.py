"""When a batch is not published because too much of it is bad, and what `resume` then lets through."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.materialize.account import Ingested
from jobs.materialize.ingest.decode import TOMBSTONE
from jobs.materialize.ingest.writers import LOOKUPS_PER_TASK
from jobs.materialize.pausing import Accepted
from jobs.model.dead_letter import Reason
from jobs.model.errors import BadRecordLimitError
from jobs.model.ingested import RangeResult
from jobs.model.spec import BadRecordLimit, TableSpec


def through(ranges: Sequence[RangeResult]) -> Accepted:
    ends: dict[str, dict[int, int]] = {}
    for each in ranges:
        ends.setdefault(each.topic, {})[each.partition] = each.end
    return ends


def check_limits(spec: TableSpec, got: Ingested, *, accepted: Accepted) -> None:
    """Raises BadRecordLimitError where the batch must not be published."""
    limit = spec.bad_record_limit
    if limit == BadRecordLimit.off() or all(_accepted(each, accepted) for each in got.ranges):
        return
    if len(got.unknown_schema_ids) >= LOOKUPS_PER_TASK:
        raise BadRecordLimitError(
            f"{spec.identifier}: the batch names {len(got.unknown_schema_ids)} schema ids that the registry does not"
            f" have; nothing was published",
            hint="is this the right registry? Mend `schema_registry` in frazil.yaml, or accept them as dead letters:"
            f" `frazil resume {spec.identifier}`",
        )
    bad = _bad(got)
    if limit.exceeded_by(bad=bad, read=got.counts.read):
        raise BadRecordLimitError(
            f"{spec.identifier}: {bad:,} of the batch's {got.counts.read:,} records could not become rows"
            f" ({_listed(got)}), more than bad_record_limit allows ({limit.share:.1%} and at least"
            f" {limit.at_least:,}); nothing was published",
            hint=f"mend the producer or the spec, or accept them as they are: `frazil resume {spec.identifier}`",
        )


def _accepted(each: RangeResult, accepted: Accepted) -> bool:
    return each.end <= accepted.get(each.topic, {}).get(each.partition, -1)


def _bad(got: Ingested) -> int:
    """Dead letters and skipped records, tombstones aside: what happens to those is a setting, not a fault."""
    fine = sum(r.skipped_by_reason.get(TOMBSTONE, 0) for r in got.ranges)
    fine += sum(r.dead_letters_by_reason.get(Reason.NULL_VALUE, 0) for r in got.ranges)
    return got.counts.dead_letters + got.counts.skipped - fine


def _listed(got: Ingested) -> str:
    reasons: dict[str, int] = {}
    for each in got.ranges:
        for name, count in (*each.dead_letters_by_reason.items(), *each.skipped_by_reason.items()):
            reasons[name] = reasons.get(name, 0) + count
    return ", ".join(f"{name} {count:,}" for name, count in sorted(reasons.items(), key=lambda item: -item[1]))
