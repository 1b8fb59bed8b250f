"""A null list of structs, and a null map to structs, stay null where PyIceberg reads them.

Its projection puts them together again from offsets and values and forgets which of them were null, so that they come
out empty (apache/iceberg-python#3833). It does so wherever it reads rows: for `frazil verify`, which then found them to
differ from Kafka's; and where it rewrites a file without some of its rows, as it does with dead letters, whose null
headers were lost. PyIceberg takes no projection as an argument, so this one replaces its own.
"""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.io import pyarrow as library
from pyiceberg.io.pyarrow import ArrowProjectionVisitor
from pyiceberg.types import ListType, MapType


class NullKeepingVisitor(ArrowProjectionVisitor):
    """The library's projection, and null again what was null."""

    def list(self, list_type: ListType, list_array: pa.Array | None, value_array: pa.Array | None) -> pa.Array | None:
        made = super().list(list_type, list_array, value_array)
        if made is None or list_array is None or made.null_count == list_array.null_count:
            return made
        return type(made).from_arrays(_offsets(made), made.values, type=made.type, mask=list_array.is_null())

    def map(
        self,
        map_type: MapType,
        map_array: pa.Array | None,
        key_result: pa.Array | None,
        value_result: pa.Array | None,
    ) -> pa.Array | None:
        made = super().map(map_type, map_array, key_result, value_result)
        if made is None or map_array is None or made.null_count == map_array.null_count:
            return made
        nulls = map_array.is_null()
        return pa.MapArray.from_arrays(_offsets(made), made.keys, made.items, type=made.type, mask=nulls)


def keep_nulls() -> None:
    """Patch PyIceberg in this process to keep null lists. Idempotent."""
    library.ArrowProjectionVisitor = NullKeepingVisitor  # type: ignore[misc]


def _offsets(array: pa.Array) -> pa.Array:
    """Arrow refuses a mask together with offsets that do not start at the beginning of their buffer."""
    return pa.concat_arrays([array.offsets])
