"""Our column types as PyIceberg's, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import Transform, parse_transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from frazil.model.columns import Column, ColumnType, Decimal, Fixed, ListOf, MapOf, Scalar, ScalarName, Struct
from frazil.model.errors import SpecError
from frazil.model.partitioning import PartitionField as Wanted
from frazil.model.partitioning import partition_field
from frazil.model.sort_order import sort_field

_SCALARS: dict[ScalarName, PrimitiveType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestamptzType(),
    "uuid": UUIDType(),
}
_NAMES: dict[PrimitiveType, ScalarName] = {iceberg: name for name, iceberg in _SCALARS.items()}


ACTS = {"partition_by": "partition", "sort_by": "sort", "maintain.z_order": "sort"}


def to_schema(columns: Sequence[Column]) -> Schema:
    """A schema with placeholder ids: the catalog assigns the real ones when it makes the table."""
    return Schema(*_Ids().fields(columns))


def to_type(column_type: ColumnType) -> IcebergType:
    return _Ids().type(column_type)


class _Ids:
    """Hands out placeholder field ids while a type is built."""

    def __init__(self) -> None:
        self._last = 0

    def _next(self) -> int:
        self._last += 1
        return self._last

    def fields(self, columns: Sequence[Column]) -> list[NestedField]:
        return [
            NestedField(field_id=self._next(), name=c.name, field_type=self.type(c.type), required=False, doc=c.doc)
            for c in columns
        ]

    def type(self, column_type: ColumnType) -> IcebergType:
        match column_type:
            case Scalar(name):
                return _SCALARS[name]
            case Decimal(precision, scale):
                return DecimalType(precision, scale)
            case Fixed(length):
                return FixedType(length)
            case ListOf(element):
                return ListType(self._next(), self.type(element), element_required=False)
            case MapOf(key, value):
                return MapType(self._next(), self.type(key), self._next(), self.type(value), value_required=False)
            case Struct(columns):
                return StructType(*self.fields(columns))
            case _:
                assert_never(column_type)


def from_schema(schema: Schema) -> tuple[Column, ...]:
    return _columns(schema.fields)


def _columns(fields: Sequence[NestedField]) -> tuple[Column, ...]:
    return tuple(Column(field.name, from_type(field.field_type), doc=field.doc) for field in fields)


def from_type(iceberg: IcebergType) -> ColumnType:
    """Return the column type. Raises ValueError for a type of Iceberg that no Avro type becomes."""
    match iceberg:
        case DecimalType():
            return Decimal(iceberg.precision, iceberg.scale)
        case FixedType():
            return Fixed(len(iceberg))
        case ListType():
            return ListOf(from_type(iceberg.element_type))
        case MapType():
            return MapOf(from_type(iceberg.key_type), from_type(iceberg.value_type))
        case StructType():
            return Struct(_columns(iceberg.fields))
        case PrimitiveType() if iceberg in _NAMES:
            return Scalar(_NAMES[iceberg])
        case _:
            raise ValueError(f"Frazil has no column type for Iceberg's {iceberg}")


def to_partition_spec(schema: Schema, partition_by: Sequence[str]) -> PartitionSpec:
    """Return Iceberg's partition fields for `day(ts)`, `bucket(16, account)`, `truncate(4, symbol)` or a column's name.

    Raises SpecError if the table has no such column.
    """
    fields = [_partition_field(schema, text, 1000 + n) for n, text in enumerate(partition_by)]
    return PartitionSpec(*fields)


def _partition_field(schema: Schema, text: str, field_id: int) -> PartitionField:
    wanted = partition_field(text)
    source, transform = _transformed(schema, wanted, "partition_by")
    return PartitionField(source_id=source.field_id, field_id=field_id, transform=transform, name=wanted.name)


def to_sort_order(schema: Schema, sort_by: Sequence[str], *, key: str = "sort_by") -> SortOrder:
    """Return Iceberg's sort order for fields such as `symbol` or `day(ts) desc nulls last`, with a placeholder id.

    Raises SpecError, which names the `key` of the spec, if the table has no such column.
    """
    return SortOrder(*(_sort_field(schema, text, key) for text in sort_by)) if sort_by else UNSORTED_SORT_ORDER


def _sort_field(schema: Schema, text: str, key: str) -> SortField:
    wanted = sort_field(text)
    source, transform = _transformed(schema, wanted.of, key)
    return SortField(
        source_id=source.field_id,
        transform=transform,
        direction=SortDirection.DESC if wanted.descending else SortDirection.ASC,
        null_order=NullOrder.NULLS_FIRST if wanted.nulls_first else NullOrder.NULLS_LAST,
    )


def _transformed(schema: Schema, wanted: Wanted, key: str) -> tuple[NestedField, Transform[object, object]]:
    """Return the column and the transform of a field of a layout key."""
    try:
        source = schema.find_field(wanted.column)
    except ValueError as missing:
        raise SpecError(
            f"{key}: {wanted} names the column {wanted.column}, which the table does not have",
            hint=f"the table's columns are: {', '.join(f.name for f in schema.fields)}",
        ) from missing
    width = "" if wanted.parameter is None else f"[{wanted.parameter}]"
    parsed = _parse_transform(f"{wanted.transform}{width}", wanted, key)
    if not source.field_type.is_primitive or not parsed.can_transform(source.field_type):
        raise SpecError(
            f"{key}: {wanted} cannot {ACTS[key]} by a column of type {source.field_type}",
            hint="see Partition Transforms in the Iceberg specification for the types that each transform accepts",
        )
    return source, parsed


def _parse_transform(transform: str, wanted: Wanted, key: str) -> Transform[object, object]:
    try:
        return parse_transform(transform)
    except ValueError as unknown:
        raise SpecError(
            f"{key}: {wanted} is not an Iceberg partition transform",
            hint="use year, month, day, hour, bucket(n, column), truncate(n, column), or a column's name",
        ) from unknown
