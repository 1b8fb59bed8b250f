"""Values that have no partition: Iceberg's `truncate` and `hour` take them out of the type of the partition.

Iceberg specification, "Truncate Transform Details": the width counts units of a decimal's last digit, and the result is
the next multiple below. A manifest has no room for one digit more. Numbers and hours would wrap around, so that a query
with a condition on the column would not find the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.decoder import Indexes
from frazil.model.partitioning import PartitionField, partition_field

_EXACT = Context(prec=76)
_MICROS_AN_HOUR = 3_600_000_000
_HOURS = range(-(2**31), 2**31)
"""The hours since 1970 that a partition can name."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest value of a column that have a partition, None for the least and greatest of its type.

    `transform` is what takes others out of the type.
    """

    transform: str
    least: pa.Scalar
    greatest: pa.Scalar | None = None

    def outside(self, column: pa.Array) -> Indexes:
        """Return the places of the values that have no partition."""
        found = pc.less(column, self.least)
        if self.greatest is not None:
            found = pc.or_(found, pc.greater(column, self.greatest))
        return np.flatnonzero(pc.fill_null(found, False).to_numpy(zero_copy_only=False))

    def __str__(self) -> str:
        """Say which values those are."""
        if self.greatest is None:
            return f"{self.transform} takes values below {self.least} out of the column's type"
        return f"{self.transform} has room for {len(_HOURS):,} hours around 1970"


def partition_bounds(partition_by: Iterable[str], columns: pa.Schema) -> dict[str, Bounds]:
    """Return the bounds of each column that has values without a partition."""
    fields = map(partition_field, partition_by)
    return dict(each for field in fields if field.column in columns.names for each in _bounds(field, columns))


def _bounds(field: PartitionField, columns: pa.Schema) -> Iterator[tuple[str, Bounds]]:
    kind = columns.field(field.column).type
    if field.transform == "hour" and pa.types.is_timestamp(kind):
        ends = (_HOURS.start * _MICROS_AN_HOUR, _HOURS.stop * _MICROS_AN_HOUR - 1)
        least, greatest = (pa.scalar(end, pa.int64()).cast(kind) for end in ends)
        yield field.column, Bounds(field.transform, least, greatest)
    if field.transform == "truncate" and field.parameter is not None:
        if pa.types.is_decimal(kind):
            multiples = (10**kind.precision - 1) // field.parameter
            least = Decimal(-multiples * field.parameter).scaleb(-kind.scale, _EXACT)
            yield field.column, Bounds(field.transform, pa.scalar(least, kind))
        if pa.types.is_signed_integer(kind):
            multiples = 2 ** (kind.bit_width - 1) // field.parameter
            yield field.column, Bounds(field.transform, pa.scalar(-multiples * field.parameter, kind))
