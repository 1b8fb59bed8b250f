"""Families of types: a column holds the values of one family, however wide, and nothing else.

Two types are of one family if a column of one of them can hold, or be widened to hold, values of the other one. A
family is the same whether it is found from a column's type or from the type in Arrow of the values for the column. All
records are of one family, since their fields are columns of their own, and so are unions, which Arrow cannot tell from
records.
"""

from __future__ import annotations

import pyarrow as pa

from frazil.model.columns import ColumnType, Decimal, Fixed, ListOf, MapOf, Scalar, Struct

_WIDER = {"int": "long", "float": "double", "uuid": "fixed(16)"}
"""The families that are named after their widest type. UUIDs are decoded as 16 bytes."""

_ARROW = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.time64("us"): "time",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
    pa.uuid(): "uuid",
}


def family_of(column_type: ColumnType) -> str:
    """Return the name of a column type's family."""
    match column_type:
        case Scalar(name):
            return _WIDER.get(name, name)
        case Decimal(_, scale):
            return f"decimal of scale {scale}"
        case Fixed():
            return str(column_type)
        case ListOf(element):
            return f"list<{family_of(element)}>"
        case MapOf(key, value):
            return f"map<{key}, {family_of(value)}>"
        case Struct():
            return "record"


def arrow_family_of(data_type: pa.DataType) -> str:
    """Return the name of the family of a type in Arrow; the type's own name if no column has the type."""
    types = pa.types
    if types.is_struct(data_type):
        return "record"
    if types.is_map(data_type):
        return f"map<{_name(data_type.key_type)}, {arrow_family_of(data_type.item_type)}>"
    if is_list(data_type):
        return f"list<{arrow_family_of(data_type.value_type)}>"
    if types.is_decimal(data_type):
        return f"decimal of scale {data_type.scale}"
    name = _name(data_type)
    return _WIDER.get(name, name)


def _name(data_type: pa.DataType) -> str:
    if pa.types.is_fixed_size_binary(data_type):
        return f"fixed({data_type.byte_width})"
    return _ARROW.get(data_type, str(data_type))


def is_list(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))
