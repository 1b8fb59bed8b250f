"""How much does a scan waste while files are rewritten between batches, and how many rows are copied? A simulation.

Only the places of keys are simulated: batches update random keys of one table, and what Frazil chooses is rewritten.

Usage: python -m bench.rewrites [--share S]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from frazil.maintain.rewriting import COPIES, PASS_BYTES, ScanCost, to_rewrite
from frazil.materialize.rewrite_files import task_shares
from frazil.model.probe import DeleteFile, StoredFile

Keys = npt.NDArray[np.int64]
ROW_BYTES = 76
TASKS = 2


@dataclass(slots=True)
class SimulatedTable:
    """The file of each key, and the rows of each file: all, and those that are left. Keys are divided evenly."""

    keys: int
    partitions: int
    file_of: Keys = field(init=False)
    rows: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    partition: list[int] = field(default_factory=list)
    copied: int = 0
    updated: int = 0

    def __post_init__(self) -> None:
        self.file_of = np.zeros(self.keys, np.int64)
        for number in range(self.partitions):
            of_partition = np.arange(number, self.keys, self.partitions)
            count = -(-len(of_partition) * ROW_BYTES // (4 * PASS_BYTES))
            for part in np.array_split(of_partition, count):
                self.file_of[part] = self._new_file(len(part), number)

    def _new_file(self, rows: int, partition: int) -> int:
        self.rows.append(rows)
        self.left.append(rows)
        self.partition.append(partition)
        return len(self.rows) - 1

    def update(self, keys: Keys) -> None:
        for number, count in zip(*np.unique(self.file_of[keys], return_counts=True), strict=True):
            self.left[number] -= int(count)
        for share in np.array_split(keys, TASKS):
            for number in np.unique(share % self.partitions).tolist():
                part = share[share % self.partitions == number]
                self.file_of[part] = self._new_file(len(part), number)
        self.updated += len(keys)

    def files(self) -> list[StoredFile]:
        return [
            StoredFile(
                str(number), rows, (DeleteFile("", "", rows - left, True),), rows * ROW_BYTES, (self.partition[number],)
            )
            for number, (rows, left) in enumerate(zip(self.rows, self.left, strict=True))
            if left
        ]

    def rewrite(self, files: Sequence[StoredFile]) -> None:
        for share in task_shares(files, at_most=TASKS):
            for partition in {each.partition for each in share}:
                self._merge([int(each.path) for each in share if each.partition == partition])

    def _merge(self, numbers: Sequence[int]) -> None:
        keys = np.flatnonzero(np.isin(self.file_of, numbers))
        for part in np.array_split(keys, max(1, -(-len(keys) * ROW_BYTES // PASS_BYTES))):
            self.file_of[part] = self._new_file(len(part), self.partition[numbers[0]])
        for number in numbers:
            self.left[number] = 0
        self.copied += len(keys)


def wasted_after(table: SimulatedTable, batches: Iterator[Keys], share: float) -> Iterator[float]:
    """Yield what a scan wastes after each batch and its rewrite, as a share of a scan of the compacted table."""
    allowed = table.keys
    for batch in batches:
        table.update(batch)
        allowed = min(allowed + COPIES * len(batch), sum(table.rows[int(each.path)] for each in table.files()))
        copied = table.copied
        table.rewrite(to_rewrite(table.files(), share, full=PASS_BYTES, copies=allowed))
        allowed -= table.copied - copied
        cost = ScanCost.of(table.files(), PASS_BYTES)
        yield cost.wasted / cost.needed


def uniform(keys: int, size: int, rng: np.random.Generator) -> Keys:
    return rng.permutation(np.unique(rng.integers(0, keys, size)))


def skewed(keys: int, size: int, rng: np.random.Generator) -> Keys:
    """Return keys of which nine in ten are in a tenth of all."""
    hot = rng.integers(0, keys // 10, size * 9 // 10)
    return rng.permutation(np.unique(np.concatenate([hot, rng.integers(0, keys, size // 10)])))


CASES: Sequence[tuple[str, int, int, int, int, Callable[[int, int, np.random.Generator], Keys]]] = (
    ("random keys", 1_000_000, 1, 20_000, 200, uniform),
    ("nine in ten of a tenth", 1_000_000, 1, 20_000, 200, skewed),
    ("small batches", 1_000_000, 1, 2_000, 300, uniform),
    ("10 partitions", 1_000_000, 10, 20_000, 100, uniform),
    ("100 partitions", 1_000_000, 100, 20_000, 100, uniform),
    ("random keys", 10_000_000, 1, 200_000, 60, uniform),
    ("nine in ten of a tenth", 10_000_000, 1, 200_000, 60, skewed),
    ("10 partitions", 10_000_000, 10, 200_000, 60, uniform),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rewrites", description=__doc__)
    parser.add_argument("--share", type=float, default=0.25, help="maintain.rewrite_deleted")
    share = parser.parse_args().share
    print("| updates | rows | of a batch | batches | waste, mean of the last half | greatest | copies per update |")
    print("|---|---|---|---|---|---|---|")
    for name, rows, partitions, size, count, choose in CASES:
        rng = np.random.default_rng(1)
        table = SimulatedTable(rows, partitions)
        found = list(wasted_after(table, (choose(rows, size, rng) for _ in range(count)), share))[count // 2 :]
        print(
            f"| {name} | {rows:,} | {size:,} | {count} | {statistics.mean(found):.0%} | {max(found):.0%}"
            f" | {table.copied / table.updated:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
