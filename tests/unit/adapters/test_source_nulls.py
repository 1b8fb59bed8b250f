"""Columns of a file by their field ids, which the file or the table's name mapping has."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.table.name_mapping import MappedField, NameMapping

from frazil.adapters.iceberg.source_nulls import FIELD_ID, names_of


def _field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={FIELD_ID: str(number)})


def test_a_column_in_a_struct_is_found_by_its_own_id() -> None:
    inside = pa.struct([_field("a", pa.int64(), 3), _field("b", pa.int64(), 4)])
    schema = pa.schema([_field("a", pa.int64(), 1), _field("key", inside, 2)])

    assert names_of(schema, None, {1, 4, 9}) == {1: "a", 4: "key.b"}


def test_a_column_in_a_struct_is_found_by_the_name_mapping() -> None:
    schema = pa.schema([("old", pa.struct([("b", pa.int64())])), ("c", pa.int64())])
    inside = [MappedField.model_validate({"field-id": 4, "names": ["b"]})]
    key = MappedField.model_validate({"field-id": 2, "names": ["key", "old"], "fields": inside})

    assert names_of(schema, NameMapping([key]), {2, 4}) == {2: "old", 4: "old.b"}
