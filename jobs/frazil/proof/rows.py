"""Are the rows in the table those that were written: number, sums, bounds, and each once?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyroaring import BitMap64

from frazil.model.progress import ForeignChanges, PartitionProgress
from frazil.model.spelling import plural
from frazil.proof.tally import Tallies, Tally, TopicPartition, absent, missing_one
from frazil.proof.verification import Check, Discrepancy, FindingKind, first_named, listed_offsets

TAKEN_OUT_BY = "`frazil forget` or `retain_rows`"
"""What takes out rows that the state then counts as `forgotten`."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The rows that the state expects, and what other writers changed."""

    progress: Mapping[TopicPartition, PartitionProgress]
    foreign: ForeignChanges

    @property
    def ours(self) -> int:
        return sum(progress.live_rows for progress in self.progress.values())

    @property
    def rows(self) -> int:
        return self.ours + self.foreign.rows_added - self.foreign.rows_removed

    @property
    def forgotten(self) -> int:
        """The number of rows that were erased on request."""
        return sum(progress.forgotten for progress in self.progress.values())

    @property
    def foreign_removals(self) -> bool:
        """Return whether another writer removed rows of ours, or their source. Sums may then differ."""
        return self.foreign.sourced_removed > 0

    def has_unsourced(self, found: Tallies) -> bool:
        """Return whether others openly added as many rows without a source as there are."""
        return found.unsourced <= max(self.foreign.unsourced_added, 0)


@dataclass(frozen=True, slots=True)
class ProvenRows:
    """What the table alone proves of its rows.

    `sums_hold` are the partitions whose offset sums are as written; `lost` is how many rows each partition lacks.
    """

    check: Check
    sums_hold: frozenset[TopicPartition]
    lost: Mapping[TopicPartition, int]


def prove_rows(expected: Expected, found: Tallies, dead: Mapping[TopicPartition, BitMap64]) -> ProvenRows:
    """Return the proof of a table in which every row stays: `dead` are the offsets of its dead letters."""
    progress = expected.progress
    sums_hold = frozenset(source for source, each in progress.items() if found.by_source[source].sums == each.sums)
    return ProvenRows(check_rows(expected, found, dead), sums_hold, lost_rows(progress, found))


def check_rows(expected: Expected, found: Tallies, dead: Mapping[TopicPartition, BitMap64]) -> Check:
    """Compare the rows with the counts. If others removed rows and the counts explain it, missing rows are notes."""
    counted = [*_row_count(expected, found), *_beyond_others(expected, found), *_partly_sourced(expected, found)]
    explained = expected.foreign_removals and not counted
    findings = counted + list(_strangers(found))
    notes: list[str] = list(_notes(expected, found))
    for at, progress in expected.progress.items():
        judged = _Judged(at, progress, found.by_source[at], dead.get(at, BitMap64()))
        findings += judged.surplus()
        if explained:
            notes += judged.unproven()
        else:
            findings += judged.losses()
    says = (
        f"{plural(found.rows, 'row')}: count, offset sums and offset bounds match what was read,"
        f" and no offset occurs twice, in {plural(len(expected.progress), 'partition')}"
    )
    return Check("rows", says, tuple(findings), tuple(notes))


def _row_count(expected: Expected, found: Tallies) -> Iterator[Discrepancy]:
    if found.rows != expected.rows:
        foreign = expected.foreign
        yield Discrepancy(
            FindingKind.ROW_COUNT,
            "table",
            f"{plural(found.rows, 'row')}, expected {expected.rows:,} ({expected.ours:,} written"
            f" + {foreign.rows_added:,} and - {foreign.rows_removed:,} by other writers)",
        )


def _beyond_others(expected: Expected, found: Tallies) -> Iterator[Discrepancy]:
    """Yield discrepancies that other writers' commits do not explain: rows added without a source, or rows removed."""
    added, removed = max(expected.foreign.unsourced_added, 0), expected.foreign.sourced_removed
    if not expected.has_unsourced(found):
        without = f"{plural(found.unsourced, 'row')} without a partition or offset"
        what = f"{without}, but other writers added only {added:,} of them"
        yield Discrepancy(FindingKind.ROW_COUNT, "table", what)
    gone = sum(lost_rows(expected.progress, found).values())
    if 0 < removed < gone:
        what = f"missing: {plural(gone, 'row')} that Frazil wrote, but other writers removed only {removed:,} of them"
        yield Discrepancy(FindingKind.ROW_COUNT, "table", what)


def lost_rows(progress: Mapping[TopicPartition, PartitionProgress], found: Tallies) -> dict[TopicPartition, int]:
    """Return how many of the rows that should be there each partition lacks."""
    return {at: max(each.live_rows - len(found.by_source[at].seen), 0) for at, each in progress.items()}


def _partly_sourced(expected: Expected, found: Tallies) -> Iterator[Discrepancy]:
    """Yield a discrepancy for rows with an incomplete source, unless other writers added them."""
    if found.partly_sourced and not expected.has_unsourced(found):
        what = (
            f"{plural(found.partly_sourced, 'row')} without a part of topic, partition and offset: changed by another"
            " writer"
        )
        yield Discrepancy(FindingKind.LOST_ROWS, "table", what)


def _strangers(found: Tallies) -> Iterator[Discrepancy]:
    for (topic, partition), count in sorted(found.strangers.items()):
        yield Discrepancy(
            FindingKind.OUT_OF_BOUNDS,
            f"{topic}-{partition}",
            f"{plural(count, 'row')} of a partition that was never read",
        )


def _notes(expected: Expected, found: Tallies) -> Iterator[str]:
    foreign = expected.foreign
    if expected.forgotten:
        yield f"{plural(expected.forgotten, 'row was', 'rows were')} taken out by {TAKEN_OUT_BY}"
    if found.unsourced and expected.has_unsourced(found):
        yield f"{plural(found.unsourced, 'row')} without a partition or offset, inserted by another writer"
    if foreign.snapshots:
        yield (
            f"other writers committed {plural(foreign.snapshots, 'snapshot')}, adding"
            f" {plural(foreign.rows_added, 'row')} and removing {foreign.rows_removed:,}; the last ones:"
            f" {', '.join(foreign.names)}"
        )


@dataclass(frozen=True, slots=True)
class _Judged:
    """One partition: what the state says, what the table has, and which records are dead letters."""

    at: TopicPartition
    progress: PartitionProgress
    tally: Tally
    dead: BitMap64

    @property
    def name(self) -> str:
        return f"{self.at[0]}-{self.at[1]}"

    @property
    def lost(self) -> int:
        """Rows that should be there and are not; negative where there are more."""
        return self.progress.live_rows - len(self.tally.seen)

    def surplus(self) -> list[Discrepancy]:
        """Return findings that foreign removals never explain: doubled, foreign, surplus and altered offsets."""
        return [*self._doubled(), *self._outside(), *self._extra(), *self._altered()]

    def losses(self) -> list[Discrepancy]:
        return [self._lost()] if self.lost > 0 else []

    def unproven(self) -> Iterator[str]:
        if self.lost > 0:
            yield (
                f"{self.name}: missing: {plural(self.lost, 'row')} that Frazil wrote; removals by other writers"
                " explain the number, but the table alone cannot prove which rows"
            )

    def _doubled(self) -> Iterator[Discrepancy]:
        tally = self.tally
        if tally.doubled:
            offsets = first_named(tally.doubled)
            what = f"{tally.surplus:,} duplicate rows: {listed_offsets(offsets, len(tally.doubled))}"
            yield Discrepancy(FindingKind.DOUBLED_ROWS, self.name, what, offsets)

    def _outside(self) -> Iterator[Discrepancy]:
        tally = self.tally
        if tally.outside:
            offsets = tuple(tally.named_outside)
            what = (
                f"{plural(tally.outside, 'row')} with {listed_offsets(offsets, tally.outside)},"
                f" expected all in [{tally.origin}, {tally.next})"
            )
            yield Discrepancy(FindingKind.OUT_OF_BOUNDS, self.name, what, offsets)

    def _extra(self) -> Iterator[Discrepancy]:
        if self.lost < 0:
            what = f"{-self.lost:,} rows more than were written ({self.progress.live_rows:,})"
            yield Discrepancy(FindingKind.EXTRA_ROWS, self.name, what)

    def _lost(self) -> Discrepancy:
        offsets, all_of, certain = self._which()
        what = f"missing: {self.lost:,} of {plural(self.progress.live_rows, 'row')}: "
        if certain:
            return Discrepancy(FindingKind.LOST_ROWS, self.name, what + listed_offsets(offsets, self.lost), offsets)
        what += f"among {listed_offsets(offsets, all_of)}, which are neither rows nor dead letters"
        return Discrepancy(FindingKind.LOST_ROWS, self.name, what, offsets)

    def _which(self) -> tuple[tuple[int, ...], int, bool]:
        """Offsets that are gone, how many come into question, and whether they are exactly those.

        Compaction, control records and skipped records leave offsets empty as well, so absence alone proves nothing.
        """
        gone = absent(self.tally, self.dead)
        if len(gone) == self.lost:
            return first_named(gone), len(gone), True
        if self.lost == 1:
            offset = missing_one(self.progress.sums, self.tally.sums)
            if offset is not None and offset in gone:
                return (offset,), 1, True
        return first_named(gone), len(gone), False

    def _altered(self) -> Iterator[Discrepancy]:
        if self.lost or self.tally.sums == self.progress.sums:
            return
        gone = absent(self.tally, self.dead)
        offsets = first_named(gone)
        what = "the row count is right, but the offset sums are not: some rows were changed or replaced"
        if gone:
            what += f"; neither rows nor dead letters are {listed_offsets(offsets, len(gone))}"
        yield Discrepancy(FindingKind.ALTERED_OFFSETS, self.name, what, offsets)
