"""Which shard and which partition a record is in: the same ones whenever its epoch is sent again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.outputs.native import partition_hashes
from frazil.outputs.ports import Encoded

Numbers = npt.NDArray[np.int64]

TOGETHER = 1_000
"""Records without a key that follow each other in one partition: small batches cost the brokers more."""


@dataclass(frozen=True, slots=True)
class Placing:
    """The shards of an output and the partitions of its topic.

    The shard of a record depends on its key, or on its place in the epoch, and not on the number of partitions. So a
    record is in one shard also if partitions are added between two shards' transactions of its epoch.
    """

    shards: int
    partitions: int

    def divided(self, batches: Iterator[tuple[pa.Array | None, pa.Array]]) -> Iterator[list[Encoded]]:
        """Yield the records of each shard, by its number, of the keys and values of all records of an epoch."""
        before = 0
        for keys, values in batches:
            numbers = self._numbers(keys, before, len(values))
            before += len(values)
            yield [self._chosen(keys, values, numbers, shard) for shard in range(self.shards)]

    def _chosen(self, keys: pa.Array | None, values: pa.Array, numbers: Numbers, shard: int) -> Encoded:
        if self.shards > 1:
            mine = np.flatnonzero(numbers % self.shards == shard)
            numbers, at = numbers[mine], pa.array(mine)
            keys, values = None if keys is None else keys.take(at), values.take(at)
        return Encoded(keys, values, pa.array((numbers % self.partitions).astype(np.int32)))

    def _numbers(self, keys: pa.Array | None, before: int, count: int) -> Numbers:
        """Return a number for each record: the hash of its key, or which thousand of the epoch's records it is in."""
        places: Numbers = (before + np.arange(count)) // TOGETHER
        if keys is None:
            return places
        hashes = partition_hashes(keys)
        found = hashes.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return np.where(found < 0, places, found)
