"""A write mode: how a batch changes its table, and how the table proves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyroaring import BitMap64

from frazil.model.ingested import Deletion, FollowedRecords, FollowedRows, IncompleteRecords, WrittenFile
from frazil.model.probe import FoundRows
from frazil.model.spec import WriteMode
from frazil.model.updates import RowUpdates
from frazil.modes.memory import Deletes, Memory
from frazil.modes.truncation import OutOfTable, Truncation
from frazil.modes.wanted import Numbers
from frazil.proof.rows import Expected, ProvenRows
from frazil.proof.tally import Tallies, TopicPartition


@dataclass(frozen=True, slots=True)
class Written:
    """What the tasks of a batch wrote: data files with `rows` rows in all.

    Of a table that follows keys, `followed` is about each row, and `deletes` about each record that deletes an
    identity; `incomplete` are those of the rows that take values from the row before them. `memory` has the deletes of
    earlier batches that are remembered.
    """

    files: Sequence[WrittenFile]
    rows: int
    followed: Sequence[FollowedRows] = ()
    deletes: Sequence[FollowedRecords] = ()
    incomplete: Sequence[IncompleteRecords] = ()
    memory: Memory = field(default_factory=Memory)
    truncation: Truncation | None = None


Find = Callable[[Numbers, Numbers], Sequence[FoundRows]]
"""Finds the rows at the head of the table that have one of these distinct identities, given as their two halves."""


def find_none(first: Numbers, second: Numbers) -> Sequence[FoundRows]:
    """Raise AssertionError: for places where rows are added only."""
    raise AssertionError(f"{len(first)} identities of a table to which rows are added only")


class KeyInTwoPartitionsError(Exception):
    """Records of one key are in two partitions, here each as partition and offset, and of `keys` keys in all."""

    def __init__(self, one: tuple[int, int], other: tuple[int, int], *, keys: int) -> None:
        super().__init__(f"partition {one[0]} at offset {one[1]} and partition {other[0]} at offset {other[1]}")
        self.keys = keys


@dataclass(frozen=True, slots=True)
class Late:
    """Records of one partition of a batch that were older than a stored row: rows, and deletes."""

    rows: OutOfTable
    deletes: int


@dataclass(frozen=True, slots=True)
class BatchChange:
    """The changes that a batch makes to its table, on one head of `main`.

    `files` are added, and `deletes` take rows out of these and of other files. `updates` are rows among them that are
    written anew into further files; `figures` counts these rows as added. By partition, `late` are
    records of the batch that are duplicates, and `replaced` are rows, of the batch or of the table, that are not there
    any more. `unkept` are events that keep a row which is not there: they are no rows, and are skipped. `copies` are
    rows that another engine had copied, and that are taken out with the row that is replaced.

    `remembered` are the deletes to remember from then on; None if they are the same as before. `lacking` is how many
    change events have null for missing values, because no row had them.

    `figures` must be in the summary of the staged snapshot before it becomes visible: counts by their key (Iceberg
    specification, "Optional Snapshot Summary Fields"). A key that the summary lacks counts as 0.
    """

    files: Sequence[WrittenFile]
    figures: Mapping[str, int]
    deletes: Sequence[Deletion] = ()
    updates: RowUpdates | None = None
    late: Mapping[int, Late] = field(default_factory=dict)
    replaced: Mapping[int, OutOfTable] = field(default_factory=dict)
    unkept: Mapping[int, OutOfTable] = field(default_factory=dict)
    copies: int = 0
    remembered: Deletes | None = None
    lacking: int = 0


@dataclass(frozen=True, slots=True)
class Mode:
    """One value of `write` in a table spec.

    `change` shapes what the tasks of a batch wrote for the table as it is, in which it finds rows. It is called again
    for each head that the batch is staged on. `prove_rows` compares the rows that were counted in the table with what
    its state says; the bitmaps are the offsets of its dead letters.
    """

    name: WriteMode
    change: Callable[[Written, Find], BatchChange]
    prove_rows: Callable[[Expected, Tallies, Mapping[TopicPartition, BitMap64]], ProvenRows]
