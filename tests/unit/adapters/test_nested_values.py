"""Lists and maps inside others, read from files that were written before their fields had their present names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, LongType, MapType, NestedField, StringType, StructType

from frazil.adapters.iceberg.nested_values import keep_nested_values
from frazil.adapters.iceberg.rows_at import rows_without


def a_list(field_id: int, of: IcebergType) -> ListType:
    return ListType(field_id, of, element_required=False)


def a_map(field_id: int, of: IcebergType) -> MapType:
    return MapType(field_id, StringType(), field_id + 1, of, value_required=False)


KINDS: dict[str, tuple[Any, Any]] = {"list": (a_list, lambda value: [value]), "map": (a_map, lambda v: [("k", v)])}


def schema_of(outer: str, inner: str, *names: str) -> Schema:
    """Return the schema of a column of lists or maps of others, of structs with fields of these names."""
    fields = (NestedField(10 + index, name, LongType(), required=False) for index, name in enumerate(names))
    inside = KINDS[inner][0](4, StructType(*fields))
    return Schema(NestedField(1, "a", KINDS[outer][0](2, inside), required=False))


@pytest.mark.parametrize("outer", KINDS)
@pytest.mark.parametrize("inner", KINDS)
def test_renamed_and_exchanged_fields_keep_their_values(outer: str, inner: str, tmp_path: Path) -> None:
    keep_nested_values()
    (_, around), (_, within) = KINDS[outer], KINDS[inner]
    rows = [around(within({"x": 1, "y": 2, "z": 3})), None, [], around(None), around([]), around(within(None))]
    before, path = schema_of(outer, inner, "x", "y", "z"), tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": pa.array(rows, schema_to_pyarrow(before).field("a").type)},
                            schema=schema_to_pyarrow(before)), path)  # fmt: skip

    now = schema_of(outer, inner, "y", "x", "renamed", "z")
    found = rows_without(PyArrowFileIO(), str(path), np.array([], dtype=np.int64), now, None)

    assert [row for batch in found for row in batch["a"].to_pylist()] == [
        around(within({"y": 1, "x": 2, "renamed": 3, "z": None})), *rows[1:]
    ]  # fmt: skip
