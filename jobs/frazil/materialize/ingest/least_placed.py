"""Decimals that have no partition: Iceberg's `truncate` takes them below the least number of their type.

Iceberg specification, "Truncate Transform Details": the width counts units of the decimal's last digit, and the result
is the next multiple below. A manifest has no room for one digit more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.decoder import Indexes
from frazil.model.partitioning import partition_field

_EXACT = Context(prec=76)


def least_placed(partition_by: Iterable[str], columns: pa.Schema) -> dict[str, pa.Scalar]:
    """Return the least value that has a partition, of each decimal column that `partition_by` truncates."""
    return dict(_least(partition_by, columns))


def _least(partition_by: Iterable[str], columns: pa.Schema) -> Iterator[tuple[str, pa.Scalar]]:
    for field in map(partition_field, partition_by):
        kind = columns.field(field.column).type if field.column in columns.names else pa.null()
        if field.transform == "truncate" and field.parameter is not None and pa.types.is_decimal(kind):
            multiples = (10**kind.precision - 1) // field.parameter
            least = Decimal(-multiples * field.parameter).scaleb(-kind.scale, _EXACT)
            yield field.column, pa.scalar(least, kind)


def below(column: pa.Array, least: pa.Scalar) -> Indexes:
    """Return the places of the values that have no partition."""
    return np.flatnonzero(pc.fill_null(pc.less(column, least), False).to_numpy(zero_copy_only=False))
