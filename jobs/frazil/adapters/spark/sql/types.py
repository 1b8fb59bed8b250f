"""Column types as Spark's, and back; and the Arrow types in which Spark takes rows and gives them.

Spark has no fixed and no uuid: they are binary and text there. It has no time of day either that it can exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import pyarrow as pa

from frazil.model.columns import Column, ColumnType, Decimal, Fixed, ListOf, MapOf, Scalar, ScalarName, Struct

_SPARK: dict[ScalarName, str] = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "uuid": "string",
}
_ARROW: dict[ScalarName, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "uuid": pa.string(),
}
_OURS: dict[str, ScalarName] = {
    **{spark: ours for ours, spark in _SPARK.items() if ours != "uuid"},
    "byte": "int",
    "short": "int",
}


class NoSparkTypeError(ValueError):
    """A type that one of the two sides does not have. The message names it."""


def spark_schema(columns: Sequence[Column]) -> dict[str, Any]:
    """Return Spark's JSON of a struct with these columns, all nullable. Raises NoSparkTypeError."""
    fields = [
        {"name": column.name, "type": _to_spark(column.type, column.name), "nullable": True, "metadata": {}}
        for column in columns
    ]
    return {"type": "struct", "fields": fields}


def _to_spark(kind: ColumnType, path: str) -> Any:
    match kind:
        case Scalar("time"):
            raise NoSparkTypeError(f"{path} is a time of day, which Spark has no type for")
        case Scalar(name):
            return _SPARK[name]
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Fixed():
            return "binary"
        case ListOf(element):
            return {"type": "array", "elementType": _to_spark(element, path), "containsNull": True}
        case MapOf(key, value):
            types = {"keyType": _to_spark(key, path), "valueType": _to_spark(value, path)}
            return {"type": "map", **types, "valueContainsNull": True}
        case Struct(columns):
            return spark_schema(columns)
        case _:
            assert_never(kind)


def ddl_of(kind: Any) -> str:
    """Return a type, in Spark's JSON, as SQL writes it."""
    match kind:
        case {"type": "struct", "fields": fields}:
            return "struct<" + ",".join(f"`{each['name']}`:{ddl_of(each['type'])}" for each in fields) + ">"
        case {"type": "array", "elementType": element}:
            return f"array<{ddl_of(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{ddl_of(key)},{ddl_of(value)}>"
        case "integer" | "long":
            return "int" if kind == "integer" else "bigint"
        case _:
            return str(kind)


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema in which Spark exchanges rows with these columns."""
    return pa.schema([pa.field(column.name, _to_arrow(column.type)) for column in columns])


def _to_arrow(kind: ColumnType) -> pa.DataType:
    match kind:
        case Scalar(name):
            return _ARROW[name]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Fixed():
            return pa.binary()
        case ListOf(element):
            return pa.list_(pa.field("element", _to_arrow(element)))
        case MapOf(key, value):
            return pa.map_(_to_arrow(key), _to_arrow(value))
        case Struct(columns):
            return pa.struct(list(arrow_schema(columns)))
        case _:
            assert_never(kind)


def columns_of(schema: dict[str, Any]) -> tuple[Column, ...]:
    """Return the columns for Spark's JSON of a struct. Raises NoSparkTypeError for a type that tables do not have."""
    return tuple(Column(field["name"], _from_spark(field["type"], field["name"])) for field in schema["fields"])


def _from_spark(kind: Any, path: str) -> ColumnType:
    match kind:
        case {"type": "struct"}:
            return Struct(columns_of(kind))
        case {"type": "array", "elementType": element}:
            return ListOf(_from_spark(element, path))
        case {"type": "map", "keyType": key, "valueType": value}:
            return MapOf(_from_spark(key, path), _from_spark(value, path))
        case str() if kind in _OURS:
            return Scalar(_OURS[kind])
        case str() if kind.startswith("decimal("):
            precision, scale = kind[8:-1].split(",")
            return Decimal(int(precision), int(scale))
        case _:
            raise NoSparkTypeError(f"{path} has the type {kind}")
