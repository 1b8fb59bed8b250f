"""Column types as Arrow types, and rows of one schema made to fit another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pyarrow as pa

from frazil.formats.families import is_list
from frazil.formats.placement import ColumnSources, homeless, join, place_by_name
from frazil.model.columns import Column, ColumnType, Decimal, Fixed, ListOf, MapOf, Scalar, ScalarName, Struct
from frazil.model.errors import IncompatibleSchemaError

_SCALARS: dict[ScalarName, pa.DataType] = {
    "unknown": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.large_string(),
    "binary": pa.large_binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "uuid": pa.uuid(),
}
_OF_SCALARS = {pa.string(): Scalar("string"), pa.binary(): Scalar("binary")} | {
    arrow: Scalar(name) for name, arrow in _SCALARS.items()
}
_PROMOTIONS = {
    *((small, wide) for small in (pa.int8(), pa.int16()) for wide in (pa.int32(), pa.int64())),
    (pa.int32(), pa.int64()),
    (pa.float32(), pa.float64()),
    (pa.string(), pa.large_string()),
    (pa.binary(), pa.large_binary()),
}
"""Safe promotions. Queries have integers of 8 and 16 bits, tables have none.

The last two widen offsets, not values: texts and bytes are read from files with 32-bit offsets.
"""


VALUE = "value"
"""The path of a single column that is not part of a batch."""


def arrow_type(column_type: ColumnType) -> pa.DataType:
    """Return the Arrow type of a decoded column. It is the one that files are written from, so nothing is cast."""
    match column_type:
        case Scalar(name):
            return _SCALARS[name]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Fixed(length):
            return pa.binary(length)
        case ListOf(element):
            return pa.large_list(arrow_type(element))
        case MapOf(key, value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case Struct(columns):
            return pa.struct(arrow_fields(columns))


def arrow_fields(columns: tuple[Column, ...]) -> list[pa.Field]:
    return [pa.field(column.name, arrow_type(column.type)) for column in columns]


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Return the Arrow schema of decoded rows with these columns. Every column is nullable."""
    return pa.schema(arrow_fields(columns))


def type_of(arrow: pa.DataType) -> ColumnType:
    """Return the type of a column of a table with this Arrow type. Raises KeyError for one that no column has."""
    if pa.types.is_decimal(arrow):
        return Decimal(arrow.precision, arrow.scale)
    if pa.types.is_fixed_size_binary(arrow):
        return Fixed(arrow.byte_width)
    if pa.types.is_struct(arrow):
        return Struct(tuple(Column(field.name, type_of(field.type)) for field in arrow))
    if pa.types.is_map(arrow):
        return MapOf(type_of(arrow.key_type), type_of(arrow.item_type))
    if is_list(arrow):
        return ListOf(type_of(arrow.value_type))
    return _OF_SCALARS[arrow]


def array_of(values: list[object], column_type: ColumnType) -> pa.Array:
    """Return Python values as an Arrow array. Times are integers, maps are lists of pairs, UUIDs are 16 bytes.

    Arrow does not convert a UUID from Python inside a list, map or struct, so the array is built from bytes and cast.
    """
    stored, wanted = _stored_as(column_type), arrow_type(column_type)
    array = pa.array(values, stored)
    if stored.equals(wanted):
        return array
    sources = place_by_name(pa.schema([(VALUE, stored)]), pa.schema([(VALUE, wanted)]), {})
    return _fit(array, wanted, VALUE, sources)


def _stored_as(column_type: ColumnType) -> pa.DataType:
    match column_type:
        case Scalar("uuid"):
            return pa.binary(16)
        case ListOf(element):
            return pa.large_list(_stored_as(element))
        case MapOf(key, value):
            return pa.map_(_stored_as(key), _stored_as(value))
        case Struct(columns):
            return pa.struct([pa.field(column.name, _stored_as(column.type)) for column in columns])
        case _:
            return arrow_type(column_type)


def project(
    batch: pa.RecordBatch, target: pa.Schema, former_names: Mapping[str, tuple[str, ...]] | None = None
) -> pa.RecordBatch:
    """Return the batch with exactly the columns, types and field metadata of `target`.

    Columns match by name at every level, or else by one of `former_names`, which maps a column's dotted path (as in
    `columns.walk`) to its earlier names. Columns that the batch lacks are null. Raises IncompatibleSchemaError if the
    target lacks a column of the batch, or if a type would need more than a safe promotion.
    """
    sources = place_by_name(batch.schema, target, former_names or {})
    lost = homeless(batch.schema, target, sources)
    if lost:
        raise no_destination(lost)
    return fit(batch, target, sources)


def no_destination(paths: tuple[str, ...]) -> IncompatibleSchemaError:
    return IncompatibleSchemaError(
        f"the table has no column for the writer's fields {', '.join(paths)}",
        hint="run again, which compares the table with every schema; if it fails again, report this as a defect",
    )


def fit(batch: pa.RecordBatch, target: pa.Schema, sources: ColumnSources) -> pa.RecordBatch:
    """Return the batch with exactly the columns, types and field metadata of `target`, each from its source or null.

    Values that already have the right type are not copied. Raises IncompatibleSchemaError for an unsafe promotion.
    """
    given = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays = _fit_fields(given, list(target), "", sources, len(batch))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _fit_fields(
    given: Mapping[str, pa.Array], wanted: list[pa.Field], path: str, sources: ColumnSources, rows: int
) -> list[pa.Array]:
    fitted = []
    for field in wanted:
        here = join(path, field.name)
        source = sources.get(here)
        fitted.append(pa.nulls(rows, field.type) if source is None else _fit(given[source], field.type, here, sources))
    return fitted


def _fit(array: pa.Array, wanted: pa.DataType, path: str, sources: ColumnSources) -> pa.Array:
    given = array.type
    if given.equals(wanted, check_metadata=True):
        return array
    types = pa.types
    if types.is_struct(given) and types.is_struct(wanted):
        return _fit_struct(array, wanted, path, sources)
    if types.is_map(given) and types.is_map(wanted):
        return _fit_map(array, wanted, path, sources)
    if is_list(given) and is_list(wanted):
        return _fit_list(array, wanted, path, sources)
    if given == pa.binary(16) and wanted == pa.uuid():
        return pa.ExtensionArray.from_storage(wanted, array)
    if (given, wanted) in _PROMOTIONS or _widens(given, wanted):
        return array.cast(wanted)
    raise IncompatibleSchemaError(
        f"{path}: the table has {wanted}, the writer's schema {given}",
        hint="register a schema with a safe change: see docs/operate.md, IncompatibleSchemaError",
    )


def _widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    both = pa.types.is_decimal128(given) and pa.types.is_decimal128(wanted)
    return bool(both and given.scale == wanted.scale and given.precision <= wanted.precision)


def _fit_struct(array: pa.Array, wanted: pa.DataType, path: str, sources: ColumnSources) -> pa.StructArray:
    if wanted.num_fields == 0:
        return pa.StructArray.from_buffers(wanted, len(array), [array.is_valid().buffers()[1]], children=[])
    children = {field.name: array.field(index) for index, field in enumerate(array.type)}
    fitted = _fit_fields(children, list(wanted), path, sources, len(array))
    return pa.StructArray.from_arrays(fitted, fields=list(wanted), mask=null_mask(array))


def _fit_list(array: pa.Array, wanted: pa.DataType, path: str, sources: ColumnSources) -> pa.Array:
    whole = unsliced(array)
    values = _fit(whole.values, wanted.value_type, path + "[]", sources)
    large = pa.types.is_large_list(wanted)
    kind = pa.LargeListArray if large else pa.ListArray
    offsets = whole.offsets.cast(pa.int64() if large else pa.int32())
    return kind.from_arrays(offsets, values, type=wanted, mask=null_mask(whole))


def _fit_map(array: pa.Array, wanted: pa.DataType, path: str, sources: ColumnSources) -> pa.MapArray:
    whole = unsliced(array)
    keys = _fit(whole.keys, wanted.key_type, path, sources)
    values = _fit(whole.items, wanted.item_type, path + "{}", sources)
    return pa.MapArray.from_arrays(whole.offsets, keys, values, type=wanted, mask=null_mask(whole))


def unsliced(array: pa.Array) -> pa.Array:
    """Return the array without an offset: Arrow refuses a mask together with a sliced array."""
    return pa.concat_arrays([array]) if array.offset else array


def null_mask(array: pa.Array) -> pa.Array | None:
    """Return where the array is null, or None if it never is, as constructors of arrays take it."""
    return cast("pa.Array", array.is_null()) if array.null_count else None
