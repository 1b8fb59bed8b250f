"""The scalar types of Protobuf: how they are written, and which columns they become."""

from __future__ import annotations

from typing import Literal, get_args

from frazil.model.columns import ColumnType, Decimal, Scalar

ScalarName = Literal[
    "int32", "sint32", "sfixed32", "uint32", "fixed32", "int64", "sint64", "sfixed64", "uint64", "fixed64",
    "float", "double", "bool", "string", "bytes",
]  # fmt: skip
SCALAR_NAMES: tuple[ScalarName, ...] = get_args(ScalarName)

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

_WIRE: dict[ScalarName, int] = {
    "string": LENGTH, "bytes": LENGTH, "float": FIXED32, "fixed32": FIXED32, "sfixed32": FIXED32,
    "double": FIXED64, "fixed64": FIXED64, "sfixed64": FIXED64,
}  # fmt: skip
_COLUMNS: dict[ScalarName, ColumnType] = {
    "int32": Scalar("int"),
    "sint32": Scalar("int"),
    "sfixed32": Scalar("int"),
    "uint32": Scalar("long"),
    "fixed32": Scalar("long"),
    "int64": Scalar("long"),
    "sint64": Scalar("long"),
    "sfixed64": Scalar("long"),
    "uint64": Decimal(20, 0),
    "fixed64": Decimal(20, 0),
    "float": Scalar("float"),
    "double": Scalar("double"),
    "bool": Scalar("boolean"),
    "string": Scalar("string"),
    "bytes": Scalar("binary"),
}


def wire_type(scalar: ScalarName) -> int:
    return _WIRE.get(scalar, VARINT)


def column_of(scalar: ScalarName) -> ColumnType:
    return _COLUMNS[scalar]
