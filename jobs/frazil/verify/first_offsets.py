"""The records that offsets order, in a table that timestamps order since partitions were added (decision 0036)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from frazil.modes.order import Flags
from frazil.modes.wanted import Numbers


@dataclass(frozen=True, slots=True)
class OffsetsFirst:
    """Up to these offsets, by the number of the partition, offsets order the records of a key; timestamps all others.

    Without any, one of the two orders all of them.
    """

    ends: Mapping[int, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.ends)

    def has(self, partition: Numbers, offset: Numbers) -> Flags:
        """Return which records offsets order, in such a table."""
        has = np.zeros(len(offset), np.bool_)
        for number, end in self.ends.items():
            has |= (partition == number) & (offset < end)
        return has
