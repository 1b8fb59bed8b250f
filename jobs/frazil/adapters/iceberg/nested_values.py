"""Lists and maps come out of PyIceberg's projection with their nulls, and with the values that their fields have.

Its projection puts a list of structs together again from offsets and values and forgets which lists were null, so that
they come out empty (apache/iceberg-python#3833). It casts a list of lists or of maps from what is in the file instead,
by names: a renamed field in the inner one is null in files from before, and exchanged names exchange values. It does so
wherever it reads rows: for `frazil verify`, which then found them to differ from Kafka's; and where it rewrites a file
without some of its rows, whose values were lost. PyIceberg takes no projection as an argument, so this one replaces
its own.
"""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.io import pyarrow as library
from pyiceberg.io.pyarrow import ArrowProjectionVisitor
from pyiceberg.types import ListType, MapType

_NESTED = (pa.StructArray, pa.ListArray, pa.LargeListArray)
"""Values whose fields are found by id, so that no cast may look for them by name. A map is a list."""


class NestedValuesVisitor(ArrowProjectionVisitor):
    """The library's projection, with the nulls of lists and with what was found of the values in them."""

    def list(self, list_type: ListType, list_array: pa.Array | None, value_array: pa.Array | None) -> pa.Array | None:
        if not isinstance(list_array, pa.ListArray | pa.LargeListArray) or not isinstance(value_array, _NESTED):
            return super().list(list_type, list_array, value_array)
        is_large = isinstance(list_array, pa.LargeListArray)
        array, kind = (pa.LargeListArray, pa.large_list) if is_large else (pa.ListArray, pa.list_)
        whole = kind(self._construct_field(list_type.element_field, value_array.type))
        return array.from_arrays(_offsets(list_array), value_array, type=whole, mask=list_array.is_null())

    def map(
        self,
        map_type: MapType,
        map_array: pa.Array | None,
        key_result: pa.Array | None,
        value_result: pa.Array | None,
    ) -> pa.Array | None:
        if not isinstance(map_array, pa.MapArray) or key_result is None or not isinstance(value_result, _NESTED):
            return super().map(map_type, map_array, key_result, value_result)
        keys = self._cast_if_needed(map_type.key_field, key_result)
        whole = pa.map_(
            self._construct_field(map_type.key_field, keys.type),
            self._construct_field(map_type.value_field, value_result.type),
        )
        nulls = map_array.is_null()
        return pa.MapArray.from_arrays(_offsets(map_array), keys, value_result, type=whole, mask=nulls)


def keep_nested_values() -> None:
    """Patch PyIceberg in this process to keep null lists, and values in lists of lists. Idempotent."""
    library.ArrowProjectionVisitor = NestedValuesVisitor  # type: ignore[misc]


def _offsets(array: pa.Array) -> pa.Array:
    """Arrow refuses a mask together with offsets that do not start at the beginning of their buffer."""
    return pa.concat_arrays([array.offsets])
