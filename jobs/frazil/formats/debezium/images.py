"""The rows that envelopes have: before a change, and after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.formats.debezium.converted import Flags, flags

Indexes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Images:
    """The rows of those envelopes that have one, in their order. `at` is which row each envelope has, -1 for none."""

    columns: tuple[pa.Array, ...]
    at: Indexes

    @property
    def has(self) -> Flags:
        return self.at >= 0

    def chosen(self, envelopes: Indexes) -> list[pa.Array]:
        """Return the columns of these envelopes' rows, with nulls for an envelope without a row."""
        wanted = self.at[envelopes]
        if np.array_equal(wanted, np.arange(len(self.columns[0]))):
            return list(self.columns)
        places = pa.array(wanted, mask=wanted < 0)
        return [column.take(places) for column in self.columns]

    def with_others(self, others: Images, envelopes: Flags) -> Images:
        """Return these images, but for the given envelopes those of `others`."""
        count = len(self.columns[0])
        columns = tuple(pa.concat_arrays(both) for both in zip(self.columns, others.columns, strict=True))
        theirs = np.where(others.has, others.at + count, -1)
        return Images(columns, np.where(envelopes, theirs, self.at))


def images_of(field: pa.Array) -> Images:
    """Return the images in a field of envelopes: lists of no or one row, rows of which some are null, or documents."""
    has = flags(field.is_valid())
    at = np.where(has, np.cumsum(has) - 1, -1)
    if pa.types.is_large_list(field.type):
        return Images(tuple(_elements(field, int(has.sum())).flatten()), at)
    present = field if field.null_count == 0 else field.filter(pa.array(has))
    return Images(tuple(present.flatten()) if pa.types.is_struct(field.type) else (present,), at)


def _elements(lists: pa.LargeListArray, count: int) -> pa.Array:
    """Return the elements of lists, `count` of which are not null. Arrow's own `flatten` copies each run of these."""
    first, last = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    return lists.values.slice(first, count) if last - first == count else lists.flatten()
