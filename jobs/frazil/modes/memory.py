"""Deletes that a table remembers, so that a record that is older cannot bring its identity back (decision 0036).

They are columns of longs: each identity once, but in a history once for each delete. A blob has their number, then one
after the other, little-endian: the halves of the identity, what orders the delete, the most significant column first,
its partition, its offset, and the time of the batch that read it, in microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from frazil.modes.wanted import Numbers, Wanted

MOST = 2_000_000
"""So many deletes take 96 MB on the driver, and 42 MB in storage, which each batch with a delete writes again."""

_HEADER = 8


@dataclass(frozen=True, slots=True)
class Deletes:
    """Deletes by column. `order` ends with the partition and the offset; `at` is the time of their batch."""

    first: Numbers
    second: Numbers
    order: tuple[Numbers, ...]
    at: Numbers

    def __len__(self) -> int:
        return len(self.at)

    def take(self, which: Numbers) -> Deletes:
        return Deletes(self.first[which], self.second[which], tuple(c[which] for c in self.order), self.at[which])

    def of(self, first: Numbers, second: Numbers) -> tuple[Numbers, Deletes]:
        """Return the deletes of these distinct identities, with the place of each among them."""
        places = Wanted(first, second).find(self.first, self.second)
        here = np.flatnonzero(places >= 0)
        return places[here], self.take(here)

    def since(self, earliest: int) -> Deletes:
        """Return those of batches from this time on."""
        return self.take(np.flatnonzero(self.at >= earliest))

    def latest(self, most: int) -> Deletes:
        """Return those of the latest batches: so many that no more than `most` are left."""
        return self if len(self) <= most else self.take(np.sort(np.argsort(self.at, kind="stable")[-most:]))


NO_DELETES = Deletes(*(np.empty(0, np.int64),) * 2, (), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class Memory:
    """What a table remembers when a batch begins, and the time of the batch, in microseconds since 1970.

    `forgotten_until` is the time of the last batch with a delete that is left out because it is old.
    """

    deletes: Deletes = NO_DELETES
    at: int = 0
    forgotten_until: int | None = None

    def renewed(self, first: Numbers, second: Numbers) -> Memory:
        """Return the memory in which the deletes of these distinct identities are of the present batch, if any are."""
        is_renewed = Wanted(first, second).find(self.deletes.first, self.deletes.second) >= 0
        if not is_renewed.any():
            return self
        return replace(self, deletes=replace(self.deletes, at=np.where(is_renewed, self.at, self.deletes.at)))

    def with_newest(self, first: Numbers, second: Numbers, order: Sequence[Numbers]) -> Deletes:
        """Return the deletes with newer ones of distinct identities, whose earlier ones are not needed any more."""
        stays = np.flatnonzero(Wanted(first, second).find(self.deletes.first, self.deletes.second) < 0)
        return Memory(self.deletes.take(stays), self.at).with_all(first, second, order)

    def with_all(self, first: Numbers, second: Numbers, order: Sequence[Numbers]) -> Deletes:
        """Return the deletes with further ones, also of the same identities."""
        before, new = self.deletes, Deletes(first, second, tuple(order), np.full(len(first), self.at, np.int64))
        if not len(before):
            return new
        return Deletes(
            np.concatenate([before.first, new.first]),
            np.concatenate([before.second, new.second]),
            tuple(np.concatenate(pair) for pair in zip(before.order, new.order, strict=True)),
            np.concatenate([before.at, new.at]),
        )


def packed(deletes: Deletes) -> bytes:
    """Return the content of a blob."""
    columns = (deletes.first, deletes.second, *deletes.order, deletes.at)
    return len(columns).to_bytes(_HEADER, "little") + b"".join(c.astype("<i8", copy=False).tobytes() for c in columns)


def unpacked(blob: bytes) -> Deletes:
    """Return the deletes of a blob, whose checksum is right."""
    columns = np.frombuffer(blob, "<i8", offset=_HEADER).astype(np.int64)
    first, second, *order, at = columns.reshape(int.from_bytes(blob[:_HEADER], "little"), -1)
    return Deletes(first, second, tuple(order), at)
