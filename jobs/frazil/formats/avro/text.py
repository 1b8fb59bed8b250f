"""The normalised text of a schema."""

from __future__ import annotations

import json
from collections.abc import Mapping

from frazil.formats.avro.memo import Memo
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
_TEXTS: Memo[Field, str] = Memo()


def normalised(root: AvroType, named: Mapping[str, NamedType]) -> str:
    """Return self-contained JSON text: each named type is defined where it is first used."""
    return _Writer(named).type(root)


class _Writer:
    def __init__(self, named: Mapping[str, NamedType]) -> None:
        self._named = named
        self._written: set[str] = set()

    def type(self, avro_type: AvroType) -> str:
        match avro_type:
            case Primitive(name, logical):
                return _json({"type": name, **_logical(logical)} if logical else name)
            case Array(items):
                return f'{{"type":"array","items":{self.type(items)}}}'
            case Map(values):
                return f'{{"type":"map","values":{self.type(values)}}}'
            case Union(branches):
                return _list([self.type(branch) for branch in branches])
            case Ref(name) if name in self._written:
                return _json(name)
            case Ref(name):
                self._written.add(name)
                return self._definition(self._named[name])

    def _definition(self, named: NamedType) -> str:
        head = _head(named)
        if isinstance(named, Enum):
            return _json({"type": "enum", **head, "symbols": list(named.symbols)})
        if isinstance(named, Fixed):
            return _json({"type": "fixed", **head, "size": named.size, **_logical(named.logical)})
        fields = _list([self._field(field) for field in named.fields])
        return _with({"type": "record", **head}, "fields", fields)

    def _field(self, field: Field) -> str:
        if not (field.is_shared and self._is_usual(field)):
            return self._new_field(field)
        known = _TEXTS.get(field)
        if known is None:
            return _TEXTS.put(field, self._new_field(field))
        self._written.update(field.names.defined)
        return known

    def _is_usual(self, field: Field) -> bool:
        """Return whether the memoised text is valid here: it defines no name again and uses only defined names."""
        written, names = self._written, field.names
        return written.isdisjoint(names.defined) and written.issuperset(names.used)

    def _new_field(self, field: Field) -> str:
        return _with({"name": field.name, **_about(field.aliases, field.doc)}, "type", self.type(field.type))


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _list(texts: list[str]) -> str:
    return f"[{','.join(texts)}]"


def _with(fields: Json, key: str, text: str) -> str:
    """Return the JSON text of the non-empty object `fields` with another key, whose value is given as JSON text."""
    return f"{_json(fields)[:-1]},{_json(key)}:{text}}}"


def _head(named: NamedType) -> Json:
    """Return the name as JSON. A name without a dot gets an empty namespace, or it would inherit the enclosing one."""
    name: Json = {"name": named.name} if "." in named.name else {"name": named.name, "namespace": ""}
    return {**name, **_about(named.aliases, None if isinstance(named, Fixed) else named.doc)}


def _about(aliases: tuple[str, ...], doc: str | None) -> Json:
    notes: Json = {}
    if aliases:
        notes["aliases"] = list(aliases)
    if doc is not None:
        notes["doc"] = doc
    return notes


def _logical(logical: Logical | None) -> Json:
    if logical is None:
        return {}
    if logical.name == "decimal":
        return {"logicalType": "decimal", "precision": logical.precision, "scale": logical.scale}
    return {"logicalType": logical.name}
