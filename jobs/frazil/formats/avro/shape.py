"""The shape of a payload: a schema with every reference resolved, from which columns and decoders are built.

Recursion is cut off, so the tree is finite; a value below a cut becomes JSON text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from frazil.formats.avro.memo import Memo
from frazil.formats.avro.sizes import ItemSize, Sizes
from frazil.formats.avro.types import (
    NULL,
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    NamedType,
    Primitive,
    Record,
    Union,
)
from frazil.formats.limits import MAX_COLUMNS, MAX_DIGITS, MAX_NESTING, RECURSION_LEVELS
from frazil.formats.mapped import LEFT_OUT
from frazil.model.schemas import SchemaFinding


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
    """A map."""

    value: Shape
    item: ItemSize


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    shape: Shape
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    is_shared: bool = field(compare=False, repr=False, default=False)
    """Whether all schemas with this field share this object."""
    tags: tuple[str, ...] = field(compare=False, default=())
    spellings: tuple[tuple[str, ...], ...] = field(compare=False, default=())
    """See `Column.spellings`."""
    has_default: bool = field(compare=False, default=False)


@dataclass(frozen=True, slots=True)
class Members:
    """A record."""

    fields: tuple[Member, ...]

    def with_data(self) -> tuple[Member, ...]:
        """The members that have a column."""
        return tuple(each for each in self.fields if not isinstance(each.shape, Empty | Skipped))


@dataclass(frozen=True, slots=True)
class Choice:
    """A union, in the order of its branches; None is null. With more than one other branch it becomes a struct."""

    branches: tuple[Member | None, ...]

    def values(self) -> tuple[Member, ...]:
        return tuple(branch for branch in self.branches if branch is not None)


@dataclass(frozen=True, slots=True)
class Cut:
    """A recursive record below the last level that becomes columns: JSON text."""

    name: str


@dataclass(frozen=True, slots=True)
class Empty:
    """A value without data: null alone, or a record whose fields are all without data.

    A field of this shape has no column. In a union, an array or a map it becomes a struct whose only column `present`
    says that a value exists; columns are added to the struct when the type gets fields. `has_bytes` is true if the
    value takes bytes nevertheless: the branch index of a union with one branch.
    """

    has_bytes: bool


@dataclass(frozen=True, slots=True)
class Skipped:
    """A value that is read by the rules, and kept in no column: its field was not asked for."""

    shape: Shape


Shape = Leaf | Items | Entries | Members | Choice | Cut | Empty | Skipped


@dataclass(frozen=True, slots=True)
class Expanded:
    """The shape of one row. `findings`: why no table can hold it; `notes`: what a table holds less exactly.

    `unmapped` are the paths of the values that no column can hold.
    """

    row: Members
    findings: tuple[SchemaFinding, ...]
    notes: tuple[SchemaFinding, ...]
    unmapped: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Known:
    """A member without findings, and how much of the limits it uses."""

    member: Member
    columns: int
    levels: int
    notes: tuple[SchemaFinding, ...]
    """Their paths are relative to the member's path."""

    def fits(self, columns: int, levels: int) -> bool:
        return columns + self.columns <= MAX_COLUMNS and levels + self.levels <= MAX_NESTING


_MEMBERS: Memo[Field, _Known] = Memo()


def shape_of(schema: AvroSchema) -> tuple[Members, tuple[SchemaFinding, ...]]:
    """Return the shape of one row, and a finding for each part of the schema that no table can hold."""
    expanded = expand(schema)
    return expanded.row, expanded.findings


def expand(schema: AvroSchema) -> Expanded:
    expansion = _Expansion(schema)
    row = Members(expansion.fields(schema.row(), "", ()))
    notes = tuple(dict.fromkeys(expansion.notes))
    return Expanded(row, tuple(expansion.findings), notes, frozenset(expansion.unmapped))


def branch_names(schema: AvroSchema, union: Union) -> tuple[str, ...]:
    """Return a name for each branch: its type's name, with the namespace only if names would clash (ignoring case)."""
    kinds = [schema.resolve(branch) for branch in union.branches]
    short = [_short_name(kind) for kind in kinds]
    count = Counter(name.lower() for name in short)
    return tuple(
        _as_column(kind.name) if isinstance(kind, NamedType) and count[name.lower()] > 1 else name
        for kind, name in zip(kinds, short, strict=True)
    )


def _as_column(full_name: str) -> str:
    return full_name.replace(".", "_").replace("-", "_")


def _short_name(kind: Primitive | Array | Map | Union | NamedType) -> str:
    if isinstance(kind, Array | Map | Union):
        return type(kind).__name__.lower()
    return kind.name.rpartition(".")[2]


def _full_name(kind: Primitive | Array | Map | Union | NamedType) -> str:
    return kind.name if isinstance(kind, NamedType) else _short_name(kind)


class _Expansion:
    """Resolves references. The names of the enclosing records show where a record is recursive."""

    def __init__(self, schema: AvroSchema) -> None:
        self.findings: list[SchemaFinding] = []
        self.notes: list[SchemaFinding] = []
        self.unmapped: set[str] = set()
        self._schema = schema
        self._columns = 0
        self._deepest = 0

    @cached_property
    def _sizes(self) -> Sizes:
        """The sizes of the schema's types, computed on first use: only arrays, maps and recursive records need them."""
        return Sizes(self._schema)

    def _record(self, record: Record, path: str, inside: tuple[str, ...]) -> Members | Empty:
        fields = self.fields(record, path, inside)
        if any(not isinstance(each.shape, Empty) for each in fields):
            return Members(fields)
        return Empty(any(isinstance(each.shape, Empty) and each.shape.has_bytes for each in fields))

    def fields(self, record: Record, path: str, inside: tuple[str, ...]) -> tuple[Member, ...]:
        here = (*inside, record.name)
        fields = tuple(self._known_member(each, path, here) for each in record.fields)
        for each in fields:
            if isinstance(each.shape, Empty):
                self._tell(_join(path, each.name), LEFT_OUT)
        self._note_case((each.name for each in fields if not isinstance(each.shape, Empty)), path)
        return fields

    def _known_member(self, given: Field, path: str, inside: tuple[str, ...]) -> Member:
        """Return the field's member, from the memo if it stays within the limits here."""
        known = _MEMBERS.get(given) if given.is_shared else None
        if known is None or not known.fits(self._columns, len(inside)):
            return self._new_member(given, path, inside)
        self._columns += known.columns
        self._deepest = max(self._deepest, len(inside) + known.levels)
        if known.notes:
            here = _join(path, given.name)
            self.notes += [SchemaFinding(here + note.path, note.problem) for note in known.notes]
        return known.member

    def _new_member(self, given: Field, path: str, inside: tuple[str, ...]) -> Member:
        columns, noted, deepest = self._columns, len(self.notes), self._deepest
        self._deepest = len(inside)
        member = self._member(given, path, inside)
        if given.is_shared and not self.findings:  # a finding may have cut off members
            member = replace(member, is_shared=True)
            length = len(_join(path, given.name))
            notes = tuple(SchemaFinding(note.path[length:], note.problem) for note in self.notes[noted:])
            columns_and_levels = self._columns - columns, self._deepest - len(inside)
            _MEMBERS.put(given, _Known(member, *columns_and_levels, notes))
        self._deepest = max(deepest, self._deepest)
        return member

    def _member(self, given: Field, path: str, inside: tuple[str, ...]) -> Member:
        shape = self._expand(given.type, _join(path, given.name), inside)
        tags = tuple(dict.fromkeys((*given.tags, *self._tags_inside(given.type))))
        return Member(given.name, shape, given.aliases, given.doc, tags=tags, has_default=given.has_default)

    def _tags_inside(self, avro_type: AvroType) -> Iterator[str]:
        """Yield the tags of the named types that values, or the items of arrays and maps in them, can have."""
        if isinstance(avro_type, Union):
            for branch in avro_type.values():
                yield from self._tags_inside(branch)
            return
        match self._schema.resolve(avro_type):
            case Array(inner) | Map(inner):
                yield from self._tags_inside(inner)
            case Record(tags=tags) | Enum(tags=tags) | Fixed(tags=tags):
                yield from tags
            case _:
                return

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
                return Cut(name) if self._is_cut(name, path, inside) else self._record(record, path, inside)
            case Primitive() | Fixed() | Enum() as leaf:
                return self._leaf(leaf, path)
            case Union():
                raise AssertionError("a union has no name")

    def _is_cut(self, name: str, path: str, inside: tuple[str, ...]) -> bool:
        if name in inside and self._sizes.is_endless(name):
            self._note(path, f"{name} always contains itself, so no record of it ever ends")
            return True
        if inside.count(name) < RECURSION_LEVELS:
            return False
        self._tell(path, f"{name} inside itself: JSON text from the level {RECURSION_LEVELS + 1} on")
        return True

    def _choice(self, union: Union, path: str, inside: tuple[str, ...]) -> Choice | Empty:
        names = branch_names(self._schema, union)
        values = union.values()
        inside = inside if len(values) == 1 else (*inside, "")
        branches: list[Member | None] = []
        for name, branch in zip(names, union.branches, strict=True):
            if branch == NULL:
                branches.append(None)
                continue
            here = path if len(values) == 1 else _join(path, name)
            aliases, spellings = self._former_names(branch), tuple(self._spellings(branch))
            branches.append(Member(name, self._expand(branch, here, inside), aliases, spellings=spellings))
        self._note_branches(union, [branch.name for branch in branches if branch is not None], path)
        only = branches[0] if len(branches) == 1 else None
        if not values or (only is not None and isinstance(only.shape, Empty)):
            return Empty(has_bytes=True)
        return Choice(tuple(branches))

    def _note_branches(self, union: Union, names: list[str], path: str) -> None:
        """Note a problem if two full names would become the same column name."""
        kinds = [self._schema.resolve(branch) for branch in union.values()]
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            types = [_full_name(kind) for kind, its in zip(kinds, names, strict=True) if its == name]
            self._clash(_join(path, name), f"the branches {' and '.join(types)} would both be the column {name}")
        self._note_case(dict.fromkeys(names), path)

    def _former_names(self, branch: AvroType) -> tuple[str, ...]:
        kind = self._schema.resolve(branch)
        return tuple(alias.rpartition(".")[2] for alias in kind.aliases) if isinstance(kind, NamedType) else ()

    def _spellings(self, branch: AvroType) -> Iterator[tuple[str, ...]]:
        """Yield the column names that unions give a type: by its name, and by each of its aliases."""
        kind = self._schema.resolve(branch)
        if isinstance(kind, NamedType):
            for name in (kind.name, *kind.aliases):
                yield name.rpartition(".")[2], _as_column(name)

    def _has_room(self, path: str, inside: tuple[str, ...]) -> bool:
        self._columns += 1
        self._deepest = max(self._deepest, len(inside))
        if self._columns == MAX_COLUMNS + 1:
            self._note(path, f"more than {MAX_COLUMNS} columns")
        if self._columns <= MAX_COLUMNS and len(inside) > MAX_NESTING:
            self._note(path, f"nested deeper than {MAX_NESTING} levels")
        has_room = self._columns <= MAX_COLUMNS and len(inside) <= MAX_NESTING
        if not has_room:
            self.unmapped.add(path)
        return has_room

    def _leaf(self, leaf: Primitive | Fixed | Enum, path: str) -> Leaf | Empty:
        if leaf == NULL:
            return Empty(has_bytes=False)
        self._note_leaf(leaf, path)
        return Leaf(leaf)

    def _note_leaf(self, leaf: Primitive | Fixed | Enum, path: str) -> None:
        if isinstance(leaf, Fixed) and leaf.size == 0:
            self._note(path, "a fixed of 0 bytes")
        logical = None if isinstance(leaf, Enum) else leaf.logical
        if logical and logical.name == "decimal" and logical.precision > MAX_DIGITS:
            self._note(path, f"a decimal of {logical.precision} digits, more than {MAX_DIGITS}")
        if logical and logical.name.endswith("-nanos"):
            self._tell(path, f"{logical.name}: digits below the microsecond are cut, and counted")
        if logical and logical.name == "duration":
            self._tell(path, "duration: the 12 bytes as they are; no column type holds months, days and milliseconds")
        if isinstance(leaf, Primitive) and logical and logical.name == "uuid":
            self._tell(path, "uuid on a string: text, since Avro does not make writers check it")

    def _note_case(self, names: Iterable[str], path: str) -> None:
        seen: dict[str, str] = {}
        for name in names:
            other = seen.setdefault(name.lower(), name)
            if other != name:
                self._clash(_join(path, name), f"{other} and {name} differ only in case")

    def _tell(self, path: str, what: str) -> None:
        self.notes.append(SchemaFinding(path, what))

    def _note(self, path: str, problem: str) -> None:
        self.findings.append(SchemaFinding(path, problem))
        self.unmapped.add(path)

    def _clash(self, path: str, problem: str) -> None:
        """Note a column whose name another one has: its values have a type nevertheless."""
        self.findings.append(SchemaFinding(path, problem))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
