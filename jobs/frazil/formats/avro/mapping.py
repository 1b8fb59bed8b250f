"""Map a writer schema to columns: `verdicts.py` says which column each type becomes."""

from __future__ import annotations

from dataclasses import replace

from frazil.formats.avro.memo import Memo
from frazil.formats.avro.shape import Choice, Cut, Empty, Entries, Items, Leaf, Member, Members, Shape, Skipped, expand
from frazil.formats.avro.types import AvroSchema, Enum, Fixed, Logical, Primitive, Record
from frazil.formats.mapped import PRESENCE, Mapped, judged_columns
from frazil.model.columns import Column, ColumnType, Decimal, ListOf, MapOf, Scalar, ScalarName, Struct
from frazil.model.columns import Fixed as FixedColumn

_COLUMNS: Memo[Member, Column] = Memo()

_PRIMITIVES: dict[str, ScalarName] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
}
_LOGICAL: dict[str, ScalarName] = {
    "date": "date",
    "time-millis": "time",
    "time-micros": "time",
    "timestamp-millis": "timestamptz",
    "timestamp-micros": "timestamptz",
    "timestamp-nanos": "timestamptz",
    "local-timestamp-millis": "timestamp",
    "local-timestamp-micros": "timestamp",
    "local-timestamp-nanos": "timestamp",
}


def map_schema(schema: AvroSchema) -> Mapped:
    """Return the columns of rows with this writer schema, and every finding."""
    expanded = expand(schema)
    columns = columns_of(expanded.row)
    if expanded.findings:
        columns = judged_columns(columns, expanded.unmapped)
    root = schema.resolve(schema.root)
    record = root.name if isinstance(root, Record) else None
    tags = (*root.tags, *schema.tags) if isinstance(root, Record) else ()
    if tags:
        columns = tuple(replace(each, tags=(*each.tags, *tags)) for each in columns)
    return Mapped(columns, expanded.findings, schema.ignored + expanded.notes, record)


def columns_of(shape: Members) -> tuple[Column, ...]:
    return tuple(_column(field) for field in shape.with_data())


def _column(member: Member) -> Column:
    known = _COLUMNS.get(member) if member.is_shared else None
    if known is not None:
        return known
    kind, is_json = column_type(member.shape), _has_text(member.shape)
    column = Column(
        member.name,
        kind,
        member.aliases,
        member.doc,
        required=_is_required(member.shape),
        tags=member.tags,
        is_json=is_json,
        spellings=member.spellings,
        has_default=member.has_default,
    )
    return _COLUMNS.put(member, column) if member.is_shared else column


def _has_text(shape: Shape) -> bool:
    """Return whether values, or the items or values directly in them, become JSON text."""
    match shape:
        case Items(inner) | Entries(inner):
            return _has_text(inner)
        case Choice():
            return len(shape.values()) == 1 and _has_text(shape.values()[0].shape)
        case _:
            return isinstance(shape, Cut)


def _branch(member: Member) -> Column:
    """Return the column of a branch of a union: most values have another branch."""
    return replace(_column(member), required=False)


def _is_required(shape: Shape) -> bool:
    """Return whether a field always has a value."""
    return not isinstance(shape, Choice) or None not in shape.branches


def column_type(shape: Shape) -> ColumnType:
    match shape:
        case Leaf(leaf):
            return _leaf_type(leaf)
        case Items(element):
            return ListOf(column_type(element))
        case Entries(value):
            return MapOf(Scalar("string"), column_type(value))
        case Members() | Empty():
            return Struct(columns_of(shape)) if isinstance(shape, Members) else PRESENCE
        case Choice():
            values = shape.values()
            return (
                column_type(values[0].shape) if len(values) == 1 else Struct(tuple(map(_branch, values)), is_union=True)
            )
        case Cut():
            return Scalar("string")
        case Skipped():
            raise AssertionError("a value that is skipped has no column")


def _leaf_type(leaf: Primitive | Fixed | Enum) -> ColumnType:
    if isinstance(leaf, Enum):
        return Scalar("string")
    if leaf.logical and leaf.logical.name == "decimal":
        return Decimal(leaf.logical.precision, leaf.logical.scale)
    if isinstance(leaf, Fixed):
        return Scalar("uuid") if leaf.logical == Logical("uuid") else FixedColumn(leaf.size)
    if leaf.logical and leaf.logical.name in _LOGICAL:
        return Scalar(_LOGICAL[leaf.logical.name])
    return Scalar(_PRIMITIVES[leaf.name])
