"""A write mode: how a batch changes its table, and how the table proves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from frazil.model.ingested import WrittenFile
from frazil.model.progress import Counts
from frazil.model.snapshot import TableView
from frazil.model.spec import WriteMode
from frazil.proof.rows import Expected, ProvenRows
from frazil.proof.tally import Tallies, TopicPartition


@dataclass(frozen=True, slots=True)
class BatchChange:
    """The changes that a batch makes to its table, on one head of `main`: the files that it adds.

    `figures` must be in the summary of the staged snapshot before it becomes visible: counts by their key (Iceberg
    specification, "Optional Snapshot Summary Fields"). A key that the summary lacks counts as 0.
    """

    files: Sequence[WrittenFile]
    figures: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Mode:
    """One value of `write` in a table spec.

    `change` shapes what the tasks of a batch returned, their data files and their counts, for the table as it is. It is
    called again for each head that the batch is staged on. `prove_rows` compares the rows that were counted in the
    table with what its state says; the bitmaps are the offsets of its dead letters.
    """

    name: WriteMode
    change: Callable[[Sequence[WrittenFile], Counts, TableView], BatchChange]
    prove_rows: Callable[[Expected, Tallies, Mapping[TopicPartition, BitMap64]], ProvenRows]
