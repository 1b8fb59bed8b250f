"""What Confluent's checker refuses in a JSON Schema by itself: `formats/validity.py`.

Its source: `json/JsonToLogicalTypeConverter.java` and `json/CombinedSchemaUtils.java`. What those do depends on how
their library reads a schema; a combination of keywords that is not clear from the source is not refused here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from frazil.formats.json_schema.documents import Documents, Node
from frazil.formats.json_schema.drafts import DRAFT_4
from frazil.formats.validity import (
    Invalid,
    Recursive,
    clashes,
    cyclic,
    join,
    no_fields,
    of_decimal,
    of_length,
    of_timestamp,
    unconvertible,
    variant,
)
from frazil.model.schemas import Reference

_CONNECT_NUMBERS = ("int8", "int16", "int32", "int64", "float32", "float64")
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
_NO_TYPE = frozenset(("$schema", "$id", "id", "$comment", "$defs", "definitions", "title", "description", "default",
                      "examples", "readOnly", "writeOnly", "deprecated"))  # fmt: skip
"""The keywords that no value is checked by: with only these, a schema allows everything."""


def invalid(text: str, references: Iterable[Reference] = ()) -> Iterator[Invalid]:
    """Yield what the checker refuses in a valid schema. `references` are the documents that it uses."""
    documents = Documents(text, references)
    yield from _Walk(documents).schema(documents.root, "")


class _Walk:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._targets: dict[int, Node] = {}
        """What `$ref` leads to, by the identity of its text."""
        self._recursive = Recursive(self._used_by)
        self._walked: dict[int, Any] = {}
        """Schemas by identity, which stays theirs because they are kept."""
        self._around: set[int] = set()
        """The schemas around the one that is judged. An `allOf` leads back to one without a reference of its own."""

    def schema(self, node: Node, path: str) -> Iterator[Invalid]:
        raw = node.raw
        if raw is False:
            yield unconvertible(path, "allows no value")
        elif not isinstance(raw, dict) or raw.keys() <= _NO_TYPE:
            yield variant("any value", path)
        elif isinstance(raw.get("$ref"), str):
            yield from self._reference(node, path)
        elif id(raw) in self._around:
            yield cyclic(str(raw.get("title") or "the schema"), path)
        elif id(raw) not in self._walked:
            self._walked[id(raw)] = raw
            self._around.add(id(raw))
            yield from self._of_values(node, raw, path)
            self._around.discard(id(raw))

    def _of_values(self, node: Node, raw: dict[str, Any], path: str) -> Iterator[Invalid]:
        """Yield what is wrong with a schema, once: at the first path that leads to it."""
        if "not" in raw or ("if" in raw and node.draft != DRAFT_4):
            yield unconvertible(path, "has `not` or `if`, whose values would have no column")
        elif properties := self._properties(node, set()):
            yield from self._record(properties, path)
        elif branches := _branches(node):
            yield from self._union(branches, path)
        elif isinstance(given := raw.get("type"), list):
            yield from self._union([node.child({**raw, "type": each}) for each in given], path)
        else:
            yield from self._typed(node, raw, path)

    def _typed(self, node: Node, raw: dict[str, Any], path: str) -> Iterator[Invalid]:
        kind = raw.get("type")
        if kind == "object":
            yield from self._object(node, raw, path)
        elif kind == "array" or (kind is None and "items" in raw):
            yield from self._array(node, raw, path)
        elif kind == "string":
            yield from _text(raw, path)
        elif kind in ("number", "integer"):
            yield from _number(raw, path)
        elif kind == "null":
            yield unconvertible(path, "is null alone")
        elif kind is None and isinstance(raw.get("enum"), list):
            if any(not _is_name(str(symbol)) for symbol in raw["enum"]):
                yield unconvertible(path, "is an enum without a type, with a symbol that is empty or has white space")
        elif kind is None and "const" in raw:
            yield unconvertible(path, "is a const without a type")

    def _object(self, node: Node, raw: dict[str, Any], path: str) -> Iterator[Invalid]:
        if raw.get("connect.type") != "map":
            yield no_fields("is an object without properties", path)
        elif "additionalProperties" in raw:
            yield from self.schema(node.child(raw["additionalProperties"]), path + "{}")

    def _record(self, properties: dict[str, Node], path: str) -> Iterator[Invalid]:
        yield from clashes(properties, path)
        for name, inner in properties.items():
            here = join(path, name)
            if not _is_name(name):
                yield unconvertible(here, "has a name that is empty, or has white space in it")
            yield from self.schema(inner, here)

    def _union(self, branches: list[Node], path: str) -> Iterator[Invalid]:
        members = [each for each in branches if each.get("type") != "null"]
        if len(members) == 1:
            yield from self.schema(members[0], path)
            return
        if not members:
            yield no_fields("is a union without a type other than null", path)
        names = [str(each.get("title") or f"connect_union_field_{index}") for index, each in enumerate(members)]
        yield from clashes(names, path)
        for name, each in zip(names, members, strict=True):
            yield from self.schema(each, join(path, name))

    def _array(self, node: Node, raw: dict[str, Any], path: str) -> Iterator[Invalid]:
        items = raw.get("items")
        if isinstance(items, list) or "prefixItems" in raw:
            yield unconvertible(path, "is an array whose items have types of their own")
        elif "items" not in raw:
            yield unconvertible(path, "is an array without `items`")
        elif raw.get("connect.type") == "map" and isinstance(items, dict):
            entry = self._properties(node.child(items), set())
            for name, mark in (("key", "{key}"), ("value", "{}")):
                if name in entry:
                    yield from self.schema(entry[name], path + mark)
        else:
            yield from self.schema(node.child(items), path + "[]")

    def _reference(self, node: Node, path: str) -> Iterator[Invalid]:
        target = self._documents.resolve(node, str(node.get("$ref")))
        if target is None:
            return
        if self._number(target) in self._recursive:
            yield cyclic(str(node.get("$ref")), path)
        else:
            yield from self.schema(target, path)

    def _number(self, target: Node) -> int:
        self._targets[id(target.raw)] = target
        return id(target.raw)

    def _used_by(self, number: int) -> Iterator[int]:
        for node in self._inside(self._targets[number]):
            target = self._documents.resolve(node, str(node.get("$ref")))
            if target is not None:
                yield self._number(target)

    def _inside(self, node: Node) -> Iterator[Node]:
        """Yield the references in a schema that lead to parts of its values."""
        raw = node.raw
        if not isinstance(raw, dict):
            return
        if isinstance(raw.get("$ref"), str):
            yield node
            return
        lists = [raw[word] for word in ("allOf", "anyOf", "oneOf") if isinstance(raw.get(word), list)]
        maps = [raw["properties"].values()] if isinstance(raw.get("properties"), dict) else []
        alone = [raw[word] for word in ("items", "additionalProperties") if isinstance(raw.get(word), dict)]
        for each in [part for parts in (*lists, *maps, alone) for part in parts]:
            yield from self._inside(node.child(each))

    def _properties(self, node: Node, seen: set[int]) -> dict[str, Node]:
        """Return the properties of a schema with those of all schemas in its `allOf`."""
        if not isinstance(node.raw, dict) or id(node.raw) in seen:
            return {}
        seen.add(id(node.raw))
        raw, found = node.raw, dict[str, Node]()
        if isinstance(raw.get("properties"), dict) and raw.get("connect.type") != "map":
            found |= {name: node.child(each) for name, each in raw["properties"].items()}
        for each in raw["allOf"] if isinstance(raw.get("allOf"), list) else ():
            inner = node.child(each)
            target = self._documents.resolve(inner, str(inner.get("$ref"))) if inner.get("$ref") else inner
            if target is not None:
                found |= self._properties(target, seen)
        return found


def _is_name(text: str) -> bool:
    return bool(text) and not any(character.isspace() or unicodedata.category(character) == "Cc" for character in text)


def _branches(node: Node) -> list[Node]:
    """Return the alternatives of a schema; those of an `allOf` with one schema are that schema."""
    for word in ("oneOf", "anyOf", "allOf"):
        given = node.get(word)
        if isinstance(given, list) and (word != "allOf" or len(given) == 1):
            return [node.child(each) for each in given]
    return []


def _text(raw: dict[str, Any], path: str) -> Iterator[Invalid]:
    """Yield what is wrong with a text, or with bytes as Connect writes them."""
    is_bytes = raw.get("connect.type") == "bytes"
    least, most = (raw.get(f"flink.{word}" if is_bytes else word) for word in ("minLength", "maxLength"))
    if isinstance(most, int):
        yield from of_length(most, path, least=1 if least == most else 0)


def _number(raw: dict[str, Any], path: str) -> Iterator[Invalid]:
    kind, title = raw.get("connect.type"), raw.get("title")
    if kind == "bytes" and title == _DECIMAL:
        given = raw.get("connect.parameters")
        parameters = given if isinstance(given, dict) else {}
        try:
            precision = int(str(parameters.get("connect.decimal.precision", "38")))
            yield from of_decimal(precision, int(str(parameters.get("scale", "18"))), path)
        except ValueError:
            yield unconvertible(path, "is a decimal with a parameter that is not a number")
    elif kind == "int64" and (title == _TIMESTAMP or raw.get("flink.type") == "timestamp"):
        digits = raw.get("flink.precision", 3)
        yield from of_timestamp(digits if isinstance(digits, int) else 3, path)
    elif kind is not None and kind not in _CONNECT_NUMBERS:
        yield unconvertible(path, f"is a number with the connect.type {kind}")
