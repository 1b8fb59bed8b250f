"""Do the tables of a group have each record once, and as many as their ledger says?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from pyroaring import BitMap64

from frazil.model.progress import Counts, GroupPartition, GroupState, PartitionProgress, TableState
from frazil.model.routes import are_shapes
from frazil.model.spelling import plural
from frazil.proof.sources import progress_by_source
from frazil.proof.tally import TopicPartition
from frazil.proof.verification import Check, Discrepancy, FindingKind, first_named, listed_offsets


@dataclass(frozen=True, slots=True)
class GroupTable:
    """A table of a group: its name in the ledger, its own state, and the offsets of its rows as far as they are known.

    `takes_part` is false if it does not have the ledger's batch, because its route was added since.
    """

    name: str
    state: TableState
    seen: Mapping[TopicPartition, BitMap64]
    takes_part: bool = True


def group_progress(group: GroupState) -> dict[TopicPartition, GroupPartition]:
    return {(topic, number): each for topic, parts in group.partitions.items() for number, each in parts.items()}


def rows_elsewhere(group: GroupState, tables: Collection[str]) -> dict[TopicPartition, int]:
    """Return how many rows of each partition are in other tables than these, whose routes were removed."""
    others = [line.read for line in group.lines if line.table not in tables]
    return {at: sum(read.get(at[0], {}).get(at[1], 0) for read in others) for at in group_progress(group)}


def check_group(ledger: TableState, group: GroupState, tables: Sequence[GroupTable]) -> Check:
    """Compare what the ledger knows of the group with each table's own state, and the rows of all tables."""
    pairs = () if are_shapes(group.routes) else combinations(tables, 2)
    findings = [
        *_partitions(ledger, group),
        *(finding for table in tables for finding in _against_line(ledger, group, table)),
        *(finding for one, other in pairs for finding in _in_both(one, other)),
    ]
    taken = ", ".join(f"{line.table} {_total(line.read):,}" for line in group.lines)
    says = (
        f"{group.total().formula()}, in each of {plural(len(group_progress(group)), 'partition')}; taken by {taken};"
        f" each table agrees at epoch {ledger.epoch}, and"
        f" {'each has every record' if are_shapes(group.routes) else 'no offset is in two tables'}"
    )
    return Check("group", says, tuple(findings), tuple(_notes(group, tables)))


def _total(read: Mapping[str, Mapping[int, int]]) -> int:
    return sum(count for partitions in read.values() for count in partitions.values())


def _partitions(ledger: TableState, group: GroupState) -> Iterator[Discrepancy]:
    known, progress = group_progress(group), progress_by_source(ledger)
    for at in sorted({*known, *progress}):
        name = f"{at[0]}-{at[1]}"
        if at not in known or at not in progress:
            where = "the group's counts" if at in known else "the ledger's offsets"
            yield Discrepancy(FindingKind.UNBALANCED, name, f"the partition is in {where} only")
            continue
        for what in _of_partition(progress[at], known[at].counts, _taken(group, at)):
            yield Discrepancy(FindingKind.UNBALANCED, name, what)


def _of_partition(progress: PartitionProgress, counts: Counts, taken: Sequence[tuple[str, int]]) -> Iterator[str]:
    if not counts.balanced:
        yield f"the formula of the group does not hold: {counts.formula()}"
    for who, records in taken:
        if counts.rows != records:
            yield f"{plural(counts.rows, 'row')} of the group, but {who} took {plural(records, 'record')}"
    if counts.read > progress.next - progress.origin:
        yield f"{plural(counts.read, 'record')} read of {plural(progress.next - progress.origin, 'offset')}"


def _taken(group: GroupState, at: TopicPartition) -> Sequence[tuple[str, int]]:
    """Return what has to be as many records as the group counts: all tables together, or with shapes each of them."""
    taken = [(line.table, line.read.get(at[0], {}).get(at[1], 0)) for line in group.lines]
    return taken if are_shapes(group.routes) else [("its tables", sum(count for _, count in taken))]


def _against_line(ledger: TableState, group: GroupState, table: GroupTable) -> Iterator[Discrepancy]:
    """Compare a table's own state with its line in the ledger, and with the offsets of the group."""
    own, line = progress_by_source(table.state), group.line_of(table.name)
    if line is None and table.takes_part:
        yield Discrepancy(FindingKind.LEDGER_LINE, table.name, "the ledger has no line of the table, which has a route")
    lines = {} if line is None else {(t, n): count for t, parts in line.read.items() for n, count in parts.items()}
    for at in sorted({*own, *lines}):
        read = own[at].counts.read if at in own else 0
        if read != lines.get(at, 0):
            says = "the ledger says" if line is not None else "the ledger has no line for the table, expected"
            what = f"{plural(read, 'record')} taken by {table.name}, {says} {lines.get(at, 0):,}"
            yield Discrepancy(FindingKind.LEDGER_LINE, f"{at[0]}-{at[1]}", what)
    ends = {at: each.next for at, each in progress_by_source(ledger).items()}
    if table.takes_part and ends != {at: each.next for at, each in own.items()}:
        what = "its next offsets are not those of the ledger, though both are at the same batch"
        yield Discrepancy(FindingKind.LEDGER_LINE, table.name, what)


def _in_both(one: GroupTable, other: GroupTable) -> Iterator[Discrepancy]:
    for at in sorted({*one.seen} & {*other.seen}):
        both = one.seen[at] & other.seen[at]
        if both:
            offsets = first_named(both)
            what = f"in both {one.name} and {other.name}: {listed_offsets(offsets, len(both))}"
            yield Discrepancy(FindingKind.ROW_IN_TWO_TABLES, f"{at[0]}-{at[1]}", what, offsets)


def _notes(group: GroupState, tables: Sequence[GroupTable]) -> Iterator[str]:
    known = {table.name for table in tables}
    for line in group.lines:
        if line.table not in known:
            yield f"{line.table} took {plural(_total(line.read), 'record')}, and its route was removed: not verified"
    for table in tables:
        if not table.takes_part:
            yield f"{table.name} has no batch of the group yet, or none since its route was added again"
