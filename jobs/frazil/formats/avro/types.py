"""A writer schema as a tree. Named types are referred to by `Ref`, so that a recursive schema is a finite value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from frazil.formats.connect import ConnectType
from frazil.formats.mapped import VALUE
from frazil.model.schemas import SchemaFinding

PrimitiveName = Literal["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
LogicalName = Literal[
    "decimal", "uuid", "date", "duration", "time-millis", "time-micros",
    "timestamp-millis", "timestamp-micros", "timestamp-nanos",
    "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Logical:
    """A logical type that is valid for its Avro type. The parser drops invalid and unknown ones."""

    name: LogicalName
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Primitive:
    name: PrimitiveName
    logical: Logical | None = None
    connect: ConnectType | None = field(compare=False, default=None)


@dataclass(frozen=True, slots=True)
class Array:
    items: AvroType
    connect: ConnectType | None = field(compare=False, default=None)


@dataclass(frozen=True, slots=True)
class Map:
    values: AvroType


@dataclass(frozen=True, slots=True)
class Union:
    branches: tuple[AvroType, ...]

    def optional(self) -> AvroType | None:
        """The only branch that is not null, if the union is just an optional type; else None."""
        values = self.values()
        return values[0] if len(values) == 1 else None

    def values(self) -> tuple[AvroType, ...]:
        return tuple(branch for branch in self.branches if branch != NULL)


@dataclass(frozen=True, slots=True)
class Ref:
    """A use of a named type, by its full name."""

    name: str


@dataclass(frozen=True, slots=True)
class Fixed:
    name: str
    size: int
    logical: Logical | None = None
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Enum:
    name: str
    symbols: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """The full names in a shared field's type: those that it defines, and the earlier ones that it uses."""

    defined: tuple[str, ...] = ()
    used: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    is_shared: bool = field(compare=False, repr=False, default=False)
    """Whether all schemas with the same text for this field and the same definitions used by it share this object."""
    names: Names = field(compare=False, repr=False, default=Names())
    tags: tuple[str, ...] = ()
    has_default: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    fields: tuple[Field, ...]
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    tags: tuple[str, ...] = ()
    connect: ConnectType | None = field(compare=False, default=None)


NamedType = Record | Enum | Fixed
AvroType = Primitive | Array | Map | Union | Ref
NULL = Primitive("null")


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A self-contained writer schema. Two are equal if their normalised texts are equal."""

    text: str
    """JSON with full names; every named type is defined where it is first used. Defaults are left out."""
    root: AvroType = field(compare=False)
    named: Mapping[str, NamedType] = field(compare=False, repr=False)
    ignored: tuple[SchemaFinding, ...] = field(compare=False, default=())
    """Logical types that were ignored because they are unknown or invalid, with their paths."""
    tags: tuple[str, ...] = field(compare=False, default=())
    """The tags around the root's definition, or of a root without a name."""

    def resolve(self, avro_type: AvroType) -> Primitive | Array | Map | Union | NamedType:
        return self.named[avro_type.name] if isinstance(avro_type, Ref) else avro_type

    def row(self) -> Record:
        """The type of one payload, as a record. A schema of any other type becomes the only field, `value`.

        A record adds no bytes of its own, so the encoding is the same.
        """
        root = self.resolve(self.root)
        return root if isinstance(root, Record) else Record("", (Field(VALUE, self.root, tags=self.tags),))
