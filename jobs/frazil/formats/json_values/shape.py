"""The shape of a JSON value: which columns it becomes, and which JSON each of them takes.

A shape comes from a schema or from a list of columns; decoders need nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from frazil.model.columns import Column, ColumnType, Decimal, ListOf, MapOf, Scalar, ScalarName, Struct

EXTRA = "_extra"
"""The column of undeclared fields: a JSON object of their values by their path in the record."""

LeafKind = Literal[
    "boolean", "int", "long", "whole-int", "whole-long", "float", "double", "string", "base64",
    "date", "time", "timestamp", "date-days", "time-millis", "timestamp-millis", "json",
]  # fmt: skip
"""How one value is written.

| Kind | JSON | Column |
|---|---|---|
| int, long | an integer without a fraction or an exponent, of at most 32 or 64 bits | the same |
| whole-int, whole-long | the same, or a number such as 1.0 or 1e2 whose fraction is zero | int, long |
| base64 | a text of RFC 4648, section 4, with padding | binary |
| date, time, timestamp | a text of RFC 3339: full-date, full-time, date-time | date, time (UTC), timestamptz |
| date-days, time-millis, timestamp-millis | a whole number: days, or milliseconds, since 1970 or midnight | as above |
| json | any value but null | string: the text, without white space between its tokens |
"""

_COLUMNS: dict[LeafKind, ScalarName] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "whole-int": "int",
    "whole-long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "base64": "binary",
    "date": "date",
    "time": "time",
    "timestamp": "timestamptz",
    "date-days": "date",
    "time-millis": "time",
    "timestamp-millis": "timestamptz",
    "json": "string",
}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without parts, or one that is kept as JSON text."""

    kind: LeafKind


@dataclass(frozen=True, slots=True)
class Money:
    """A decimal: a number.

    With `takes_base64` it may also be a text, the base64 of its unscaled value in two's complement (big-endian), as
    Kafka Connect writes it. A text such as "1234" is base64 too.
    """

    precision: int
    scale: int
    takes_base64: bool = False


@dataclass(frozen=True, slots=True)
class Nothing:
    """A property that is always null. It has no column."""


@dataclass(frozen=True, slots=True)
class Items:
    """An array."""

    element: Shape


@dataclass(frozen=True, slots=True)
class Entries:
    """An object whose names are data."""

    value: Shape


@dataclass(frozen=True, slots=True)
class Member:
    """A declared property: `key` is its name in JSON, `name` that of its column, `index` its place, if it has one."""

    key: str
    name: str
    shape: Shape
    doc: str | None = None
    tags: tuple[str, ...] = ()
    is_required: bool = field(default=False, compare=False)
    has_default: bool = field(default=False, compare=False)
    index: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Members:
    """An object with declared properties. Its other fields are undeclared."""

    fields: tuple[Member, ...]

    def with_data(self) -> tuple[Member, ...]:
        """The members that have a column."""
        return tuple(each for each in self.fields if not isinstance(each.shape, Nothing))


Shape = Leaf | Money | Nothing | Items | Entries | Members
JSON_TEXT = Leaf("json")


@dataclass(frozen=True, slots=True)
class Row:
    """The shape of a payload: an object, or any other value, which becomes the column of its only member.

    `keeps_extra`: undeclared fields are kept in the column `_extra`, the last one.
    """

    members: Members
    is_object: bool
    keeps_extra: bool


def columns_of(row: Row) -> tuple[Column, ...]:
    extra = (
        (Column(EXTRA, Scalar("string"), doc="Undeclared fields, as a JSON object.", is_json=True),)
        if row.keeps_extra
        else ()
    )
    return _columns(row.members) + extra


def column_type(shape: Shape) -> ColumnType:
    match shape:
        case Leaf(kind):
            return Scalar(_COLUMNS[kind])
        case Money(precision, scale):
            return Decimal(precision, scale)
        case Items(element):
            return ListOf(column_type(element))
        case Entries(value):
            return MapOf(Scalar("string"), column_type(value))
        case Members():
            return Struct(_columns(shape))
        case Nothing():
            raise AssertionError("a value that is always null has no column")


def _columns(members: Members) -> tuple[Column, ...]:
    return tuple(
        Column(
            each.name,
            column_type(each.shape),
            doc=each.doc,
            required=each.is_required,
            has_default=each.has_default,
            tags=each.tags,
            is_json=_has_text(each.shape),
            key=each.key if each.key != each.name else None,
            index=each.index,
        )
        for each in members.with_data()
    )


def _has_text(shape: Shape) -> bool:
    """Return whether values, or the items or values directly in them, are kept as JSON text."""
    return _has_text(inner_of(shape)) if isinstance(shape, Items | Entries) else shape == JSON_TEXT


def inner_of(shape: Items | Entries) -> Shape:
    return shape.element if isinstance(shape, Items) else shape.value


def has_objects(shape: Shape) -> bool:
    """Return whether a value may have undeclared fields: whether an object with declared properties is inside."""
    match shape:
        case Members():
            return True
        case Items(inner) | Entries(inner):
            return has_objects(inner)
        case _:
            return False


def inside(shape: Shape) -> Iterator[Shape]:
    """Yield the shapes directly inside one that have columns."""
    match shape:
        case Items(inner) | Entries(inner):
            yield inner
        case Members():
            yield from (each.shape for each in shape.with_data())
        case _:
            return


def slots_of(shape: Shape) -> int:
    """Return how many slots in columns one value fills, null or not. What is in its arrays and maps is not counted."""
    if not isinstance(shape, Members):
        return 2 if isinstance(shape, Money) else 1
    return max(1, sum(slots_of(each.shape) for each in shape.with_data()))
