"""The identity of a row, in tables that follow keys (docs/decisions/0036).

Two rows are the same thing if the values of their identity are equal, however a schema spells the types. The values are
encoded as bytes that depend on nothing else, and the first half of the SHA-256 (FIPS 180-4) of these bytes is kept in
two columns of longs. Integers are big-endian and signed, lengths and counts are not.

| Type | Bytes |
|---|---|
| int, long, decimal | 1; an exponent of ten in 2 bytes; the digits without zeros at the end, as a number of 16 bytes |
| string, also of an enum | 2; the length in 8 bytes; the text in UTF-8 |
| binary, fixed | 3; the length in 8 bytes; the bytes |
| boolean | 4; 1 or 0 in a byte |
| uuid | 5; the 16 bytes |
| date | 6; the days since 1970 in 4 bytes |
| time, timestamp, timestamptz | 7, 8 or 9; the microseconds since midnight or 1970 in 8 bytes |
| struct, several columns | 10; the number of parts in 4 bytes; each part |

`_extra` beside other fields of a struct is a part only if it is not null: it has the undeclared fields of a key of JSON
Schema, which few keys have.

Floats, lists and maps have no identity: equal values of these have several encodings, or none that lasts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from decimal import Context
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.arrow import arrow_schema, type_of
from frazil.formats.native import native_available
from frazil.model.columns import Column, ColumnType, Decimal, ListOf, MapOf, Scalar, Struct
from frazil.model.declared import EXTRA
from frazil.model.identity_columns import HALVES

FIRST, SECOND = HALVES
COLUMNS = (
    Column(FIRST, Scalar("long"), doc="The first half of the hash of the row's identity."),
    Column(SECOND, Scalar("long"), doc="The second half of the hash of the row's identity."),
)

_NUMBER, _TEXT, _BYTES, _BOOLEAN, _UUID, _DATE, _TIME, _TIMESTAMP, _TIMESTAMPTZ, _STRUCT = range(1, 11)
_EXACT = Context(prec=38)
_OF_INTEGERS = {
    "boolean": (_BOOLEAN, 1),
    "date": (_DATE, 4),
    "time": (_TIME, 8),
    "timestamp": (_TIMESTAMP, 8),
    "timestamptz": (_TIMESTAMPTZ, 8),
}


def without_identity(column: Column, path: str = "") -> Iterator[tuple[str, ColumnType]]:
    """Yield the dotted path and the type of each value in a column that cannot be part of an identity."""
    here = f"{path}.{column.name}" if path else column.name
    match column.type:
        case Struct(columns):
            for each in columns:
                yield from without_identity(each, here)
        case Scalar("float" | "double") | ListOf() | MapOf():
            yield here, column.type


def identities(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns `FIRST` and `SECOND` of rows that have these columns only; both are null if any value is null.

    No column may have a type of `without_identity`.
    """
    has_extra = [_has_extra(array) for array in rows.columns]
    if all(each is None for each in has_extra):
        return _identities(rows)
    arrays = [a if has is None else _without_extra(a) for a, has in zip(rows.columns, has_extra, strict=True)]
    found = _identities(pa.RecordBatch.from_arrays(arrays, names=rows.schema.names))
    undeclared = reduce(pc.or_, [each for each in has_extra if each is not None])
    if not undeclared.true_count:
        return found
    whole = _identities(rows.filter(undeclared))
    halves = [pc.replace_with_mask(each, undeclared, whole.column(n)) for n, each in enumerate(found.columns)]
    return pa.RecordBatch.from_arrays(halves, schema=found.schema)


def _has_extra(array: pa.Array) -> pa.BooleanArray | None:
    """Return which structs have undeclared fields; None if the column has no others, or no structs."""
    may_have = pa.types.is_struct(array.type) and array.type.num_fields > 1 and array.type.get_field_index(EXTRA) >= 0
    return pc.struct_field(array, EXTRA).is_valid() if may_have else None


def _without_extra(structs: pa.StructArray) -> pa.StructArray:
    parts = [(field, part) for field, part in zip(structs.type, structs.flatten(), strict=True) if field.name != EXTRA]
    fields, arrays = [field for field, _ in parts], [part for _, part in parts]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=structs.is_null())


def _identities(rows: pa.RecordBatch) -> pa.RecordBatch:
    if not native_available():
        return identities_in_python(rows)
    import frazil_native  # noqa: PLC0415 - it may not be built

    return frazil_native.identities(rows, (FIRST, SECOND))


def identities_in_python(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return what the native module returns."""
    types = [type_of(field.type) for field in rows.schema]
    values = zip(*(_listed(array, type_) for array, type_ in zip(rows.columns, types, strict=True)), strict=True)
    halves = [_halves(_encoded_row(row, types)) for row in values]
    arrays = [pa.array(half, pa.int64()) for half in zip(*halves, strict=True)] or [pa.array([], pa.int64())] * 2
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(COLUMNS))


def _halves(encoded: bytes | None) -> tuple[int | None, int | None]:
    if encoded is None:
        return None, None
    digest = hashlib.sha256(encoded).digest()
    return int.from_bytes(digest[:8], signed=True), int.from_bytes(digest[8:16], signed=True)


def _encoded_row(values: Sequence[object], types: Sequence[ColumnType]) -> bytes | None:
    return _encoded(values[0], types[0]) if len(types) == 1 else _encoded_struct(zip(values, types, strict=True))


def _encoded_struct(parts: Iterable[tuple[object, ColumnType]]) -> bytes | None:
    encoded = [_encoded(value, type_) for value, type_ in parts]
    whole = [part for part in encoded if part is not None]
    if len(whole) < len(encoded):
        return None
    return bytes([_STRUCT]) + len(whole).to_bytes(4) + b"".join(whole)


def _encoded(value: object, type_: ColumnType) -> bytes | None:
    """Return a value's bytes. A time is an integer, a decimal one of its last place, and a struct a tuple."""
    match value, type_:
        case None, _:
            return None
        case tuple(), Struct(columns):
            return _encoded_struct(zip(value, (column.type for column in columns), strict=True))
        case int(), Decimal(_, scale):
            return _number(value, -scale)
        case int(), Scalar("int" | "long"):
            return _number(value, 0)
        case int(), Scalar(name):
            tag, width = _OF_INTEGERS[name]
            return bytes([tag]) + value.to_bytes(width, signed=name != "boolean")
        case _:
            return _encoded_bytes(value, type_)


def _encoded_bytes(value: object, type_: ColumnType) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    if not isinstance(content, bytes):
        raise TypeError(f"no identity has a value of the type {type_}")
    if type_ == Scalar("uuid"):
        return bytes([_UUID]) + content
    tag = _TEXT if type_ == Scalar("string") else _BYTES
    return bytes([tag]) + len(content).to_bytes(8) + content


def _number(digits: int, exponent: int) -> bytes:
    if digits == 0:
        exponent = 0
    while digits and digits % 10 == 0:
        digits, exponent = digits // 10, exponent + 1
    return bytes([_NUMBER]) + exponent.to_bytes(2, signed=True) + digits.to_bytes(16, signed=True)


def _listed(array: pa.Array, type_: ColumnType) -> list[object]:
    """Return an array's values as `_encoded` takes them."""
    match type_:
        case Struct(columns):
            valid = array.is_valid().to_pylist()
            children = [_listed(array.field(index), column.type) for index, column in enumerate(columns)]
            rows = zip(*children, strict=True) if children else [()] * len(array)
            return [row if is_there else None for is_there, row in zip(valid, rows, strict=True)]
        case Decimal(_, scale):
            return [None if each is None else int(each.scaleb(scale, _EXACT)) for each in array.to_pylist()]
        case Scalar("uuid"):
            return list(array.storage.to_pylist())
        case Scalar("date"):
            return list(array.cast(pa.int32()).to_pylist())
        case Scalar("time" | "timestamp" | "timestamptz"):
            return list(array.cast(pa.int64()).to_pylist())
        case _:
            return list(array.to_pylist())
