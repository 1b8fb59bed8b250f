"""The normalised text of a schema."""

from __future__ import annotations

import json
from collections.abc import Mapping

from frazil.formats.avro.types import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    NamedType,
    Primitive,
    Ref,
    Union,
)

Json = dict[str, object]


def normalised(root: AvroType, named: Mapping[str, NamedType]) -> str:
    """JSON without references to the outside: each named type is defined where it is first used."""
    return json.dumps(_Writer(named).type(root), separators=(",", ":"))


class _Writer:
    def __init__(self, named: Mapping[str, NamedType]) -> None:
        self._named = named
        self._written: set[str] = set()

    def type(self, avro_type: AvroType) -> object:
        match avro_type:
            case Primitive(name, logical):
                return {"type": name, **_logical(logical)} if logical else name
            case Array(items):
                return {"type": "array", "items": self.type(items)}
            case Map(values):
                return {"type": "map", "values": self.type(values)}
            case Union(branches):
                return [self.type(branch) for branch in branches]
            case Ref(name) if name in self._written:
                return name
            case Ref(name):
                self._written.add(name)
                return self._definition(self._named[name])

    def _definition(self, named: NamedType) -> Json:
        head = _head(named)
        if isinstance(named, Enum):
            return {"type": "enum", **head, "symbols": list(named.symbols)}
        if isinstance(named, Fixed):
            return {"type": "fixed", **head, "size": named.size, **_logical(named.logical)}
        return {"type": "record", **head, "fields": [self._field(field) for field in named.fields]}

    def _field(self, field: Field) -> Json:
        return {"name": field.name, **_about(field.aliases, field.doc), "type": self.type(field.type)}


def _head(named: NamedType) -> Json:
    """A name without a dot would be read in the namespace around it, unless it says that it has none."""
    name: Json = {"name": named.name} if "." in named.name else {"name": named.name, "namespace": ""}
    return {**name, **_about(named.aliases, None if isinstance(named, Fixed) else named.doc)}


def _about(aliases: tuple[str, ...], doc: str | None) -> Json:
    told: Json = {}
    if aliases:
        told["aliases"] = list(aliases)
    if doc is not None:
        told["doc"] = doc
    return told


def _logical(logical: Logical | None) -> Json:
    if logical is None:
        return {}
    if logical.name == "decimal":
        return {"logicalType": "decimal", "precision": logical.precision, "scale": logical.scale}
    return {"logicalType": logical.name}
