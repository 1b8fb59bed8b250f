"""The columns of a table, independent of the format of the records and of the library that writes the table.

The types are Iceberg's (specification, "Schemas and Data Types", format version 2). Every column of a table is
optional; only those of a writer's schema may be `required`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

ScalarName = Literal[
    "boolean", "int", "long", "float", "double", "string", "binary",
    "date", "time", "timestamp", "timestamptz", "uuid", "unknown",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type without parameters. Times and timestamps are in microseconds; no column of a table is `unknown`."""

    name: ScalarName

    def __str__(self) -> str:
        return self.name


UNKNOWN = Scalar("unknown")
"""The type of a field in a writer schema that no column can hold: the schema has a finding about it."""


@dataclass(frozen=True, slots=True)
class Decimal:
    """An exact number of up to 38 digits."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class Fixed:
    """A byte string of one length."""

    length: int

    def __str__(self) -> str:
        return f"fixed({self.length})"


@dataclass(frozen=True, slots=True)
class ListOf:
    element: ColumnType

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapOf:
    key: ColumnType
    value: ColumnType

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class Struct:
    """Named columns. `is_union`: the columns are the branches of a union, and at most one of them is not null.

    Iceberg has no unions, so a table property says which structs are unions (`unions.py`). The flag is not compared.
    """

    columns: tuple[Column, ...]
    is_union: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return "struct<" + ", ".join(f"{column.name}: {column.type}" for column in self.columns) + ">"

    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


ColumnType = Scalar | Decimal | Fixed | ListOf | MapOf | Struct


@dataclass(frozen=True, slots=True)
class Column:
    """A named column of a table or of a struct in it.

    `aliases` are its names in earlier writer schemas, according to the newest one; they cause a rename. `doc` is the
    description in the writer's schema, and `tags` are those that it gives the field or its type. `is_json`: the column
    is JSON text, with what is declared nowhere. `mask` is what a policy does to the values; it is not compared.
    `unmasked_aliases` are the aliases of a column that no policy names, where policies name other columns: one of those
    may have had such a name. `required` says that each record of the writer has a value; it is not compared, because a
    table's columns are optional. `spellings` are, for a branch of a union, the names that the column can have in other
    schemas, short and with the namespace: those of its type, then those of each alias of the type. `kept` says that a
    policy by the column's path, or around it, keeps its values. `key` is the name of the field in JSON, if a column
    cannot have it. `has_default` says that the field has a default value in the writer's schema. `index` is the place
    that a JSON Schema gives the field.
    """

    name: str
    type: ColumnType
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    tags: tuple[str, ...] = field(default=(), compare=False)
    is_json: bool = field(default=False, compare=False)
    mask: str = field(default="", compare=False)
    required: bool = field(default=False, compare=False)
    unmasked_aliases: tuple[str, ...] = field(default=(), compare=False)
    spellings: tuple[tuple[str, ...], ...] = field(default=(), compare=False)
    kept: bool = field(default=False, compare=False)
    key: str | None = field(default=None, compare=False)
    has_default: bool = field(default=False, compare=False)
    index: int | None = field(default=None, compare=False)

    @property
    def described(self) -> str:
        """The type, and the mask if there is one."""
        return f"{self.type}, masked: {self.mask}" if self.mask else str(self.type)


def walk(columns: tuple[Column, ...], path: str = "") -> Iterator[tuple[str, Column]]:
    """Yield every named column with its dotted path, parents first. List elements add `[]`, map values `{}`."""
    for column in columns:
        here = f"{path}.{column.name}" if path else column.name
        yield here, column
        yield from _walk_type(column.type, here)


def lacking(wanted: tuple[Column, ...], there: tuple[Column, ...]) -> tuple[str, ...]:
    """Return the dotted paths of wanted columns that `there` lacks; of a missing struct, only the struct's own path."""
    present = {path for path, _ in walk(there)}
    missing = [path for path, _ in walk(wanted) if path not in present]
    return tuple(p for p in missing if not any(p.startswith((f"{m}.", f"{m}[]", f"{m}{{}}")) for m in missing))


@dataclass(frozen=True, slots=True)
class OtherType:
    """A column that has another type than it was made with."""

    path: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"the column {self.path} has the type {self.found}, expected {self.expected}"


def retyped(wanted: tuple[Column, ...], there: tuple[Column, ...]) -> tuple[OtherType, ...]:
    """Return the wanted columns that exist with another type, at any depth. An int may have become a long."""
    present = {path: column.type for path, column in walk(there)}
    both = ((path, present[path], column.type) for path, column in walk(wanted) if path in present)
    return tuple(OtherType(path, str(found), str(type_)) for path, found, type_ in both if not _stands_in(found, type_))


def _stands_in(found: ColumnType, wanted: ColumnType) -> bool:
    """Return whether a `found` column can hold `wanted` values; nested columns are compared separately."""
    if isinstance(wanted, Scalar):
        return found == wanted or (wanted.name, found) == ("int", Scalar("long"))
    if isinstance(found, ListOf) and isinstance(wanted, ListOf):
        return _stands_in(found.element, wanted.element)
    return type(found) is type(wanted)


def _walk_type(column_type: ColumnType, path: str) -> Iterator[tuple[str, Column]]:
    match column_type:
        case Struct(columns):
            yield from walk(columns, path)
        case ListOf(element):
            yield from _walk_type(element, f"{path}[]")
        case MapOf(_, value):
            yield from _walk_type(value, f"{path}{{}}")
        case _:
            return
