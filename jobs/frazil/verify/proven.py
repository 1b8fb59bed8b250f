"""What a table proves of its rows: its state, its files, and the offsets that they have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from pyroaring import BitMap64

from frazil.materialize.foreign import count_foreign
from frazil.materialize.layout import metadata_columns
from frazil.materialize.state import Standing
from frazil.model.progress import ForeignChanges, PartitionProgress
from frazil.model.snapshot import Snapshot
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.modes.open import open_mode
from frazil.proof.rows import Expected
from frazil.proof.sources import progress_by_source, source_columns
from frazil.proof.tally import Tallies, TopicPartition
from frazil.proof.verification import Check, Discrepancy, FindingKind
from frazil.verify.changed_columns import columns_made_again, columns_of_other_types
from frazil.verify.files import CheckedFiles, check_files
from frazil.verify.identities import check_identities
from frazil.verify.intervals import check_intervals
from frazil.verify.scan import Watch, tally_rows


@dataclass(frozen=True, slots=True)
class ProvenTable:
    """What the table alone proves of its rows, which are None if they could not be counted.

    `sums_hold` are the partitions whose sums are as written, and `lost` is how many rows each partition lacks.
    """

    checks: tuple[Check, ...]
    foreign: ForeignChanges
    rows: Tallies | None = None
    sums_hold: frozenset[TopicPartition] = frozenset()
    lost: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def others_removed(self) -> bool:
        return self.foreign.sourced_removed > 0

    @property
    def seen(self) -> dict[TopicPartition, BitMap64]:
        """The offsets of the rows."""
        return {} if self.rows is None else {at: tally.seen for at, tally in self.rows.by_source.items()}


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """A table that is compared with Kafka."""

    spec: TableSpec
    at: Standing
    proven: ProvenTable


@dataclass(frozen=True, slots=True)
class CountedTable:
    """A table whose files were checked and whose rows were counted; `rows` are None if that was not possible."""

    spec: TableSpec
    at: Standing
    checks: tuple[Check, ...]
    foreign: ForeignChanges
    rows: Tallies | None = None

    @property
    def seen(self) -> dict[TopicPartition, BitMap64]:
        """The offsets of the rows."""
        return {} if self.rows is None else {at: tally.seen for at, tally in self.rows.by_source.items()}

    def proven(self, elsewhere: Mapping[TopicPartition, BitMap64]) -> ProvenTable:
        """Return the proof of the rows. `elsewhere` are offsets whose records are no rows of this table."""
        if self.rows is None:
            return ProvenTable(self.checks, self.foreign)
        expected = Expected(progress_by_source(self.at.state), self.foreign)
        proven = open_mode(self.spec).prove_rows(expected, self.rows, elsewhere)
        return ProvenTable((*self.checks, proven.check), self.foreign, self.rows, proven.sums_hold, proven.lost)


def count_table(spec: TableSpec, at: Standing, *, watch: Watch) -> CountedTable:
    """Check the state and the files of a table, and count its rows."""
    foreign, head = count_foreign(at), at.view.head_snapshot() or at.carrier
    files = check_files(at.view, head, name="files", watch=watch)
    checks: tuple[Check, ...] = (_check_state(at), files.check)
    unprovable = tuple(_unprovable(spec, at, files))
    if unprovable:
        return CountedTable(spec, at, (*checks, Check("rows", "", unprovable)), foreign)
    rows = tally_rows(at.view, spec, at.state, without=files.unreadable, watch=watch)
    untraced = tuple(_untraced(spec, at, head, files.unreadable)) if rows.unsourced else ()
    if untraced:
        return CountedTable(spec, at, (*checks, Check("rows", "", untraced)), foreign)
    if spec.follows_keys:
        checks = (*checks, check_identities(spec, at, without=files.unreadable, watch=watch))
    if spec.keeps_history:
        checks = (*checks, check_intervals(spec, at, without=files.unreadable))
    return CountedTable(spec, at, checks, foreign, rows)


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
