"""The shape of payloads, from the schema that Kafka Connect's JSON converter embeds in a record.

Types and properties are those of `org.apache.kafka.connect.json.JsonSchema`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from frazil.formats.connect import ConnectType, ConnectTypes, connect_type
from frazil.formats.json_values.shape import (
    JSON_TEXT,
    Entries,
    Items,
    Leaf,
    LeafKind,
    Member,
    Members,
    Money,
    Nothing,
    Row,
    Shape,
)
from frazil.formats.limits import MAX_COLUMNS, MAX_DIGITS, MAX_NESTING
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import SchemaFinding

_LEAVES: Mapping[str, LeafKind] = {
    "boolean": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "base64",
}
_LOGICAL: Mapping[str, tuple[str, LeafKind]] = {
    "org.apache.kafka.connect.data.Date": ("int32", "date-days"),
    "org.apache.kafka.connect.data.Time": ("int32", "time-millis"),
    "org.apache.kafka.connect.data.Timestamp": ("int64", "timestamp-millis"),
}
"""The logical types that the converter itself knows: the type under each, and how its values are written."""
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


@dataclass(frozen=True, slots=True)
class EmbeddedSchema:
    """The shape of a payload, the named types in it by path, and the name of its own type."""

    row: Row
    types: ConnectTypes
    name: str | None


def read_schema(text: str) -> EmbeddedSchema:
    """Read the text of a schema. Raises IncompatibleSchemaError with every problem."""
    reading = _Reading()
    try:
        schema = json.loads(text)
        json.dumps(schema, ensure_ascii=False).encode()  # fails for half of a surrogate pair
        shape = reading.shape(schema, "", 0)
    except (ValueError, RecursionError) as error:
        raise _refused([SchemaFinding("", f"not JSON: {error}")]) from error
    if not isinstance(shape, Members):
        reading.note("", "a change event is a struct")
    if reading.problems:
        raise _refused(reading.problems)
    assert isinstance(shape, Members)  # noqa: S101 - anything else is a problem
    named = connect_type(schema, "name", "parameters")
    return EmbeddedSchema(
        Row(shape, is_object=True, keeps_extra=False), reading.types, None if named is None else named.name
    )


def _refused(problems: list[SchemaFinding]) -> IncompatibleSchemaError:
    return IncompatibleSchemaError(
        "the schema in the record cannot become columns: " + "; ".join(map(str, problems)),
        hint="compare it with the configuration of the connector and of its value converter",
    )


class _Reading:
    def __init__(self) -> None:
        self.problems: list[SchemaFinding] = []
        self.types: dict[str, ConnectType] = {}
        self._columns = 0

    def note(self, path: str, problem: str) -> None:
        self.problems.append(SchemaFinding(path, problem))

    def shape(self, raw: Any, path: str, level: int) -> Shape:
        self._columns += 1
        if not isinstance(raw, dict) or level > MAX_NESTING or self._columns > MAX_COLUMNS:
            self.note(path, f"not a schema of at most {MAX_NESTING} levels and {MAX_COLUMNS} columns")
            return Nothing()
        named = connect_type(raw, "name", "parameters")
        if named is not None and path:
            self.types[path] = named
        word = raw.get("type")
        compound = {"struct": self._struct, "array": self._array, "map": self._map}.get(str(word))
        return self._leaf(word, named, path) if compound is None else compound(raw, path, level)

    def _leaf(self, word: object, named: ConnectType | None, path: str) -> Shape:
        if word == "bytes" and named is not None and named.name == _DECIMAL:
            return self._decimal(named, path)
        if isinstance(word, str) and word in _LEAVES:
            return Leaf(_kind(word, named))
        self.note(path, "a type is missing" if word is None else f"unknown type {word!r}")
        return Nothing()

    def _array(self, raw: Mapping[str, Any], path: str, level: int) -> Shape:
        return Items(self.shape(raw.get("items"), path + "[]", level + 1))

    def _struct(self, raw: Mapping[str, Any], path: str, level: int) -> Shape:
        given = raw.get("fields")
        fields = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
        if not fields:
            self.note(path, "a struct without fields")
        self._note_names([str(each.get("field")) for each in fields], path)
        return Members(tuple(self._members(fields, path, level)))

    def _members(self, fields: list[dict[str, Any]], path: str, level: int) -> Iterator[Member]:
        for each in fields:
            name, doc = str(each.get("field")), each.get("doc")
            shape = self.shape(each, f"{path}.{name}" if path else name, level + 1)
            is_required = each.get("optional") is False
            yield Member(name, name, shape, doc if isinstance(doc, str) else None, is_required=is_required)

    def _note_names(self, names: list[str], path: str) -> None:
        seen: dict[str, str] = {}
        for name in names:
            if name.lower() in seen:
                self.note(path, f"{seen[name.lower()]} and {name} have the same name, or differ only in case")
            seen[name.lower()] = name

    def _map(self, raw: Mapping[str, Any], path: str, level: int) -> Shape:
        """Return an object's shape; the converter writes maps with other keys than texts as arrays of pairs."""
        keys = raw.get("keys")
        if isinstance(keys, dict) and keys.get("type") == "string":
            return Entries(self.shape(raw.get("values"), path + "{}", level + 1))
        return JSON_TEXT

    def _decimal(self, named: ConnectType, path: str) -> Shape:
        """Return a decimal's shape; `decimal.format` decides whether it is a text or a number."""
        scale, precision = named.number("scale"), named.number("connect.decimal.precision") or MAX_DIGITS
        if scale is None or not scale <= precision <= MAX_DIGITS:
            self.note(path, f"a decimal of {precision} digits, {named.parameter('scale')} of them after the point")
            return Nothing()
        return Money(precision, scale, takes_base64=True)


def _kind(word: str, named: ConnectType | None) -> LeafKind:
    under, kind = _LOGICAL.get("" if named is None else named.name, ("", "json"))
    return kind if under == word else _LEAVES[word]
