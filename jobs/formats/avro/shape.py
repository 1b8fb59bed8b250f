"""What a payload looks like once every reference is followed: the tree that columns and decoders are made from.

Recursion is cut here, so the tree is finite; what lies below a cut is carried as JSON text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from jobs.formats.avro.sizes import ItemSize, Sizes
from jobs.formats.avro.types import (
    NULL,
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Fixed,
    Map,
    NamedType,
    Primitive,
    Record,
    Union,
)
from jobs.model.schemas import Finding

RECURSION_LEVELS = 3
"""How many times a record may stand inside itself as columns; the next one is JSON text."""
MAX_NESTING = 64
"""Of records, arrays, maps and unions in one another: Arrow hands no deeper types from one library to another."""
MAX_COLUMNS = 10_000
MAX_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without parts."""

    type: Primitive | Fixed | Enum


@dataclass(frozen=True, slots=True)
class Items:
    """An array."""

    element: Shape
    item: ItemSize


@dataclass(frozen=True, slots=True)
class Entries:
    """A map. Its items are keys with their values."""

    value: Shape
    item: ItemSize


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    shape: Shape
    aliases: tuple[str, ...] = ()
    doc: str | None = None


@dataclass(frozen=True, slots=True)
class Members:
    """A record."""

    fields: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A union in the order of its branches; None is null. With more than one value it becomes a struct."""

    branches: tuple[Member | None, ...]

    def values(self) -> tuple[Member, ...]:
        return tuple(branch for branch in self.branches if branch is not None)


@dataclass(frozen=True, slots=True)
class Cut:
    """A record inside itself, one time too many: JSON text."""

    name: str


Shape = Leaf | Items | Entries | Members | Choice | Cut


def shape_of(schema: AvroSchema) -> tuple[Members, tuple[Finding, ...]]:
    """The shape of one row, and everything in the schema that no table can hold."""
    expansion = _Expansion(schema)
    return expansion.record(schema.row(), "", ()), tuple(expansion.findings)


def branch_names(schema: AvroSchema, union: Union) -> tuple[str, ...]:
    """One name for each branch: that of its type, without the namespace unless that would clash (in any case)."""
    kinds = [schema.resolve(branch) for branch in union.branches]
    short = [_short_name(kind) for kind in kinds]
    count = Counter(name.lower() for name in short)
    return tuple(
        kind.name.replace(".", "_") if isinstance(kind, NamedType) and count[name.lower()] > 1 else name
        for kind, name in zip(kinds, short, strict=True)
    )


def _short_name(kind: Primitive | Array | Map | Union | NamedType) -> str:
    if isinstance(kind, Array | Map | Union):
        return type(kind).__name__.lower()
    return kind.name.rpartition(".")[2]


class _Expansion:
    """Follows references. The path of names says where a record stands inside itself."""

    def __init__(self, schema: AvroSchema) -> None:
        self.findings: list[Finding] = []
        self._schema = schema
        self._sizes = Sizes(schema)
        self._columns = 0

    def record(self, record: Record, path: str, inside: tuple[str, ...]) -> Members:
        if not record.fields:
            self._note(path, "a record without fields")
        here = (*inside, record.name)
        fields = tuple(
            Member(field.name, self._expand(field.type, _join(path, field.name), here), field.aliases, field.doc)
            for field in record.fields
        )
        self._note_case((field.name for field in fields), path)
        return Members(fields)

    def _expand(self, avro_type: AvroType, path: str, inside: tuple[str, ...]) -> Shape:
        if isinstance(avro_type, Union):
            return self._choice(avro_type, path, inside)
        if not self._has_room(path, inside):
            return Cut("")
        match self._schema.resolve(avro_type):
            case Array(items):
                return Items(self._expand(items, path + "[]", (*inside, "")), self._sizes.item(items))
            case Map(values):
                return Entries(self._expand(values, path + "{}", (*inside, "")), self._sizes.entry(values))
            case Record(name) as record:
                return Cut(name) if self._is_cut(name, path, inside) else self.record(record, path, inside)
            case Primitive() | Fixed() | Enum() as leaf:
                self._note_leaf(leaf, path)
                return Leaf(leaf)
            case Union():
                raise AssertionError("a union has no name")

    def _is_cut(self, name: str, path: str, inside: tuple[str, ...]) -> bool:
        if name in inside and self._sizes.is_endless(name):
            self._note(path, f"{name} always contains itself, so no record of it ever ends")
            return True
        return inside.count(name) >= RECURSION_LEVELS

    def _choice(self, union: Union, path: str, inside: tuple[str, ...]) -> Choice:
        names = branch_names(self._schema, union)
        values = union.values()
        if not values:
            self._note(path, "null alone holds no data")
        inside = inside if len(values) == 1 else (*inside, "")
        branches: list[Member | None] = []
        for name, branch in zip(names, union.branches, strict=True):
            if branch == NULL:
                branches.append(None)
                continue
            here = path if len(values) == 1 else _join(path, name)
            branches.append(Member(name, self._expand(branch, here, inside), self._former_names(branch)))
        self._note_case((branch.name for branch in branches if branch is not None), path)
        return Choice(tuple(branches))

    def _former_names(self, branch: AvroType) -> tuple[str, ...]:
        kind = self._schema.resolve(branch)
        return tuple(alias.rpartition(".")[2] for alias in kind.aliases) if isinstance(kind, NamedType) else ()

    def _has_room(self, path: str, inside: tuple[str, ...]) -> bool:
        self._columns += 1
        if self._columns == MAX_COLUMNS + 1:
            self._note(path, f"more than {MAX_COLUMNS} columns")
        if self._columns <= MAX_COLUMNS and len(inside) > MAX_NESTING:
            self._note(path, f"nested deeper than {MAX_NESTING} levels")
        return self._columns <= MAX_COLUMNS and len(inside) <= MAX_NESTING

    def _note_leaf(self, leaf: Primitive | Fixed | Enum, path: str) -> None:
        if leaf == NULL:
            self._note(path, "null alone holds no data")
        if isinstance(leaf, Fixed) and leaf.size == 0:
            self._note(path, "a fixed of 0 bytes")
        logical = None if isinstance(leaf, Enum) else leaf.logical
        if logical and logical.name == "decimal" and logical.precision > MAX_DIGITS:
            self._note(path, f"a decimal of {logical.precision} digits, more than {MAX_DIGITS}")

    def _note_case(self, names: Iterable[str], path: str) -> None:
        seen: dict[str, str] = {}
        for name in names:
            other = seen.setdefault(name.lower(), name)
            if other != name:
                self._note(path, f"{other} and {name} differ only in case")

    def _note(self, path: str, problem: str) -> None:
        self.findings.append(Finding(path, problem))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
