"""Rows become Avro payloads in the Confluent wire format."""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc

from frazil.model.columns import Column, ColumnType, ListOf, MapOf, Scalar, Struct
from frazil.outputs.native import native_encodes, native_payloads


@dataclass(slots=True)
class AvroEncoder:
    """Encodes rows by one registered schema, whose fields are `columns`."""

    schema: str
    schema_id: int
    columns: Sequence[Column]
    _parsed: Any = field(init=False)

    def __post_init__(self) -> None:
        self._parsed = fastavro.parse_schema(json.loads(self.schema))

    def payloads(self, rows: pa.RecordBatch) -> pa.Array:
        """Return a payload for each row."""
        prefix = struct.pack(">bI", 0, self.schema_id)
        names = [column.name for column in self.columns]
        if native_encodes():
            return native_payloads(rows.select(names), prefix)
        values = [self._values(rows, column) for column in self.columns]
        records = (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))
        return pa.array([prefix + self._encoded(record) for record in records], pa.binary())

    def _values(self, rows: pa.RecordBatch, column: Column) -> list[Any]:
        found = _with_raw_times(rows.column(column.name)).to_pylist()
        return [_plain(column.type, value) for value in found]

    def _encoded(self, record: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._parsed, record)
        return out.getvalue()


def _with_raw_times(column: pa.Array) -> pa.Array:
    """Return the column with times as numbers, at any depth: Python's datetimes end with the year 9999."""
    raw = _raw_type(column.type)
    return column if raw == column.type else column.cast(raw)


def _raw_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_raw_type(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_raw_type(kind.key_type)), kind.item_field.with_type(_raw_type(kind.item_type))
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = kind.value_field.with_type(_raw_type(kind.value_type))
        return pa.list_(item) if pa.types.is_list(kind) else pa.large_list(item)
    return kind


def _plain(kind: ColumnType, value: Any) -> Any:
    """Return a value as fastavro takes it."""
    if value is None:
        return None
    match kind:
        case Scalar("uuid"):
            return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else value)
        case ListOf(element):
            return [_plain(element, each) for each in value]
        case MapOf():
            return _plain_map(kind, value)
        case Struct(columns):
            return {column.name: _plain(column.type, value[column.name]) for column in columns}
        case _:
            return value


def _plain_map(kind: MapOf, entries: Any) -> Any:
    if kind.key == Scalar("string"):
        return {key: _plain(kind.value, each) for key, each in entries}
    return [{"key": _plain(kind.key, key), "value": _plain(kind.value, each)} for key, each in entries]


def as_bytes(column: pa.Array) -> pa.Array:
    """Return texts or bytes as the bytes of keys."""
    return pc.cast(column, pa.binary())
