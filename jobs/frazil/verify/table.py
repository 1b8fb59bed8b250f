"""The proof from the table alone: no record is missing, none is double. It holds after any expiry of snapshots."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frazil.materialize.changed_spec.applied_spec import as_applied
from frazil.materialize.foreign import count_foreign
from frazil.materialize.hash_key import with_keys_read
from frazil.materialize.layout import metadata_columns
from frazil.materialize.state import Standing, standing
from frazil.model.errors import TableError
from frazil.model.progress import Counts, ForeignChanges, PartitionProgress
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.modes.open import open_mode
from frazil.ports import Lake
from frazil.proof.rows import Expected
from frazil.proof.sources import progress_by_source, source_columns
from frazil.proof.tally import TopicPartition
from frazil.proof.verification import Check, Discrepancy, FindingKind, Verification
from frazil.verify.changed_columns import columns_made_again, columns_of_other_types
from frazil.verify.dead import DeadLetters, check_dead_letters, tally_dead_letters
from frazil.verify.files import CheckedFiles, check_files
from frazil.verify.scan import Watch, tally_rows

if TYPE_CHECKING:
    from frazil.verify.against_kafka import KafkaSide

NOT_READABLE = (FindingKind.MISSING_FILE, FindingKind.UNREADABLE_FILE, FindingKind.UNPROVABLE)


def unwatched(what: str, done: int, total: int) -> None:
    """Ignore progress."""


def verify_table(
    lake: Lake, spec: TableSpec, *, kafka: KafkaSide | None = None, watch: Watch = unwatched
) -> Verification:
    """Verify the table and return the findings; with `kafka`, also compare it record by record.

    A table that was not made yet has no checks. The table's own names of its metadata columns are used, since a
    changed spec takes effect with the next batch only.

    Raises ServiceError where catalog, storage, broker or registry do not answer.
    """
    view, dead_view = lake.load(spec.identifier), lake.load(spec.dead_letters_identifier)
    if view is None and dead_view is None:
        return Verification(spec.identifier, None, None, None, Counts(), ())
    if view is None:
        what = "the table was dropped, but its dead letters exist"
        return _without_state(spec, None, FindingKind.NO_TABLE, what)
    try:
        at = standing(view, pipeline=spec.pipeline)
    except TableError as error:
        return _without_state(spec, view.head, FindingKind.NO_STATE, error.what)
    spec = as_applied(spec, view.properties)
    foreign = count_foreign(at)
    proven = _prove(spec, at, dead_view, foreign, watch)
    checks = list(proven.checks)
    if kafka is not None and dead_view is not None:
        checks.append(_compare(with_keys_read(spec, view.properties), at, dead_view, kafka, proven, watch))
    return Verification(
        table=spec.identifier,
        snapshot_id=view.head,
        epoch=at.state.epoch,
        complete_through=at.state.complete_through,
        counts=at.state.total(),
        checks=tuple(checks),
        foreign=foreign,
    )


@dataclass(frozen=True, slots=True)
class _Proven:
    """The proof from the table alone: the checks, the partitions whose sums hold, and how many rows each lacks."""

    checks: tuple[Check, ...]
    sums_hold: frozenset[TopicPartition] = frozenset()
    lost: Mapping[TopicPartition, int] = field(default_factory=dict)


def _compare(
    spec: TableSpec, at: Standing, dead_view: TableView, kafka: KafkaSide, proven: _Proven, watch: Watch
) -> Check:
    from frazil.verify.against_kafka import TableProof, check_against_kafka  # noqa: PLC0415 - decoders take time to load

    if any(finding.kind in NOT_READABLE for check in proven.checks for finding in check.findings):
        what = "not compared with Kafka, because some of the table's rows cannot be read"
        return Check("kafka", "", (Discrepancy(FindingKind.UNPROVABLE, spec.identifier, what),))
    clean = all(check.passed for check in proven.checks)
    proof = TableProof(clean, proven.sums_hold, proven.lost)
    return check_against_kafka(spec, at, dead_view, kafka, proof=proof, watch=watch)


def _without_state(spec: TableSpec, head: int | None, kind: FindingKind, what: str) -> Verification:
    check = Check("state", "the state was read", (Discrepancy(kind, spec.identifier, what),))
    return Verification(spec.identifier, head, None, None, Counts(), (check,))


def _prove(
    spec: TableSpec, at: Standing, dead_view: TableView | None, foreign: ForeignChanges, watch: Watch
) -> _Proven:
    head = at.view.head_snapshot() or at.carrier
    files = check_files(at.view, head, name="files", watch=watch)
    checks = [_check_state(at), files.check]
    dead = None if dead_view is None else tally_dead_letters(dead_view, at, watch=watch)
    unprovable = tuple(_unprovable(spec, at, files))
    if unprovable:
        return _Proven((*checks, Check("rows", "", unprovable), *_checked_files(dead)))
    rows = tally_rows(at.view, spec, at.state, without=files.unreadable, watch=watch)
    untraced = tuple(_untraced(spec, at, head, files.unreadable)) if rows.unsourced else ()
    if untraced:
        return _Proven((*checks, Check("rows", "", untraced), *_checked_files(dead)))
    progress = progress_by_source(at.state)
    offsets = {} if dead is None else dead.offsets
    proven = open_mode(spec.write).prove_rows(Expected(progress, foreign), rows, offsets)
    checks.append(proven.check)
    if dead is None:
        checks.append(_no_dead_letters(spec, at))
    else:
        checks += [*dead.checks, check_dead_letters(at, dead, rows, others_removed=foreign.sourced_removed > 0)]
    return _Proven(tuple(checks), proven.sums_hold, proven.lost)


def _checked_files(dead: DeadLetters | None) -> tuple[Check, ...]:
    """Return what was checked of the dead letters without the rows."""
    return () if dead is None else dead.checks


def _unprovable(spec: TableSpec, at: Standing, files: CheckedFiles) -> Iterator[Discrepancy]:
    view, names = at.view, source_columns(spec, at.state).names
    present = {column.name for column in view.columns}
    lacking = [name for name in names if name not in present]
    if lacking:
        what = f"the table has no column {' and no column '.join(lacking)}: rows cannot be traced to their records"
        yield Discrepancy(FindingKind.UNPROVABLE, view.identifier, what)
    traced = [column for column in metadata_columns(spec, None) if column.name in names]
    yield from columns_of_other_types(view, traced)
    if files.unprovable:
        what = "the rows were not counted, because Frazil cannot look through all files of other writers"
        yield Discrepancy(FindingKind.UNPROVABLE, view.identifier, what)


def _untraced(spec: TableSpec, at: Standing, head: Snapshot, unreadable: Collection[str]) -> Iterator[Discrepancy]:
    effect = "earlier rows are null in it and cannot be traced to their records"
    names = source_columns(spec, at.state).names
    return columns_made_again(at.view, head.id, names, effect, without=unreadable)


def _no_dead_letters(spec: TableSpec, at: Standing) -> Check:
    counted = at.state.total().dead_letters
    if not at.state.epoch:
        return Check("dead letters", "0 dead letters: nothing has been read yet")
    what = f"the dead letters table is missing, with {plural(counted, 'dead letter')}"
    return Check("dead letters", "", (Discrepancy(FindingKind.NO_TABLE, spec.dead_letters_identifier, what),))


def _check_state(at: Standing) -> Check:
    findings = [
        finding
        for (topic, number), progress in progress_by_source(at.state).items()
        for finding in _of_progress(f"{topic}-{number}", progress)
    ]
    says = (
        f"epoch {at.state.epoch} in snapshot {at.carrier.id}; {at.state.total().formula()},"
        f" in each of {plural(len(progress_by_source(at.state)), 'partition')}"
    )
    return Check("state", says, tuple(findings), tuple(_rolled_back(at)))


def _rolled_back(at: Standing) -> Iterator[str]:
    if at.rolled_back:
        yield "the table was rolled back, with its offsets: the next run continues from there"


def _of_progress(name: str, progress: PartitionProgress) -> Iterator[Discrepancy]:
    counts = progress.counts
    if not counts.balanced:
        yield Discrepancy(FindingKind.UNBALANCED, name, f"the formula does not hold: {counts.formula()}")
    if not progress.origin <= progress.start <= progress.next:
        what = f"began at {progress.origin}, last batch at {progress.start}, read to {progress.next}: not in order"
        yield Discrepancy(FindingKind.UNBALANCED, name, what)
    if counts.read > progress.next - progress.origin:
        what = f"{plural(counts.read, 'record')} read of {plural(progress.next - progress.origin, 'offset')}"
        yield Discrepancy(FindingKind.UNBALANCED, name, what)
