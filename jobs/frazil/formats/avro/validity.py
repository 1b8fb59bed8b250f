"""What Confluent's checker refuses in an Avro schema by itself: `formats/validity.py`.

The texts are read once more, since the checker goes by attributes that the Avro specification says to ignore, such as
those of an invalid decimal. Its source: `avro/AvroToLogicalTypeConverter.java`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from frazil.formats.validity import (
    Invalid,
    Recursive,
    clashes,
    cyclic,
    join,
    no_fields,
    of_decimal,
    of_length,
    of_precision,
    of_timestamp,
    unconvertible,
    variant,
    whole,
)

_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_RECORDS = ("record", "error")
_NAMED = (*_RECORDS, "enum", "fixed")
_CARRIERS = {"time-millis": 3, "timestamp-millis": 3, "timestamp-micros": 6,
             "local-timestamp-millis": 3, "local-timestamp-micros": 6}  # fmt: skip
"""The logical types whose `flink.precision` may only be smaller, with their fractional digits."""
_VARIANT = "confluent.type.Variant"
_MAP_ENTRY = "io.confluent.connect.avro.MapEntry"


def invalid(text: str, references: Iterable[str] = ()) -> Iterator[Invalid]:
    """Yield what the checker refuses in a valid schema. `references` are the texts of the schemas that it uses."""
    walk = _Walk()
    for reference in references:
        walk.define(json.loads(reference), "")
    root = json.loads(text)
    walk.define(root, "")
    yield from walk.type(root, "", "")


class _Walk:
    def __init__(self) -> None:
        self._named: dict[str, tuple[Mapping[str, Any], str]] = {}
        """Definitions by full name, with the namespace of what is inside them."""
        self._walked: set[str] = set()
        self._recursive = Recursive(self._used_by)

    def define(self, raw: Any, namespace: str) -> None:
        """Note all definitions inside a type."""
        match raw:
            case list():
                for branch in raw:
                    self.define(branch, namespace)
            case {"type": kind} if kind in _NAMED:
                full_name = _full_name(raw, namespace)
                inside = full_name.rpartition(".")[0]
                self._named.setdefault(full_name, (raw, inside))
                for field in _fields(raw):
                    self.define(field["type"], inside)
            case (
                {"type": "array", "items": inner}
                | {"type": "map", "values": inner}
                | {"type": dict() | list() as inner}
            ):
                self.define(inner, namespace)

    def type(self, raw: Any, namespace: str, path: str, branches: Any = None) -> Iterator[Invalid]:
        match raw:
            case list():
                yield from self._union(raw, namespace, path, branches)
            case str() if raw not in _PRIMITIVES:
                yield from self._use(self._found(raw, namespace), path)
            case str():
                yield from _primitive(raw, {}, path)
            case {"type": dict() | list() as inner}:
                yield from self.type(inner, namespace, path, branches)
            case {"type": "array"}:
                yield from self._array(raw, namespace, path)
            case {"type": "map", "values": values}:
                yield from _multiset(raw, values, path)
                yield from self.type(values, namespace, path + "{}")
            case {"type": kind} if kind in _NAMED:
                yield from self._use(_full_name(raw, namespace), path)
            case {"type": kind} if kind in _PRIMITIVES:
                yield from _primitive(kind, raw, path)
            case {"type": kind}:
                yield from self._use(self._found(kind, namespace), path)

    def _found(self, name: str, namespace: str) -> str:
        full_name = f"{namespace}.{name}" if namespace and "." not in name else name
        return full_name if full_name in self._named else name

    def _use(self, name: str, path: str) -> Iterator[Invalid]:
        """Yield what is wrong with a named type, once: at the first path that leads to it."""
        raw, namespace = self._named[name]
        if raw["type"] not in _RECORDS:
            if raw["type"] == "fixed":
                yield from _bytes(raw, path)
            return
        if _is_variant(name, raw):
            yield variant(name, path)
        elif name in self._recursive:
            yield cyclic(name, path)
        elif name not in self._walked:
            self._walked.add(name)
            yield from self._record(raw, namespace, path)

    def _record(self, raw: Mapping[str, Any], namespace: str, path: str) -> Iterator[Invalid]:
        if not raw["fields"]:
            yield no_fields("is a record without fields", path)
        yield from clashes((field["name"] for field in raw["fields"]), path)
        for field in raw["fields"]:
            yield from self.type(field["type"], namespace, join(path, field["name"]), field.get("confluent:union"))

    def _union(self, raw: list[Any], namespace: str, path: str, given: Any) -> Iterator[Invalid]:
        members = [branch for branch in raw if not _is_null(branch)]
        if len(members) == 1:
            yield from self.type(members[0], namespace, path)
            return
        if not members:
            yield no_fields("is a union without a type other than null", path)
        names = self._branch_names(members, namespace, given)
        yield from clashes(names, path)
        for name, branch in zip(names, members, strict=True):
            yield from self.type(branch, namespace, join(path, name))

    def _branch_names(self, members: list[Any], namespace: str, given: Any) -> list[str]:
        """Return the short names of the branches; full names where short ones, with their case, are the same."""
        full = [self._name_of(branch, namespace) for branch in members]
        count = Counter(name.rpartition(".")[2] for name in full)
        names = [short if count[short := name.rpartition(".")[2]] == 1 else name for name in full]
        hints = given if isinstance(given, list) else []
        for index, hint in enumerate(hints[: len(names)]):
            if isinstance(hint, dict) and isinstance(hint.get("name"), str):
                names[index] = hint["name"]
        return names

    def _name_of(self, raw: Any, namespace: str) -> str:
        kind: Any = raw.get("type") if isinstance(raw, dict) else raw
        if not isinstance(kind, str):
            return self._name_of(kind, namespace) if isinstance(kind, dict) else "union"
        if kind in _NAMED:
            return _full_name(raw, namespace)
        return kind if kind in _PRIMITIVES or kind in ("array", "map") else self._found(kind, namespace)

    def _array(self, raw: Mapping[str, Any], namespace: str, path: str) -> Iterator[Invalid]:
        name = self._entry(raw, namespace)
        if name is None:
            yield from self.type(raw["items"], namespace, path + "[]")
            return
        entry, inside = self._named[name]
        fields = {field["name"]: field["type"] for field in entry["fields"]}
        if fields.keys() != {"key", "value"}:
            yield unconvertible(path, "is a map as an array of entries, whose fields are not key and value")
            return
        yield from _multiset(raw, fields["value"], path)
        if name in self._recursive:
            yield cyclic(name, path)
        elif name not in self._walked:
            self._walked.add(name)
            yield from self.type(fields["key"], inside, path + "{key}")
            yield from self.type(fields["value"], inside, path + "{}")

    def _entry(self, raw: Mapping[str, Any], namespace: str) -> str | None:
        """Return the name of the record of a map that is written as an array of its entries; None for other arrays."""
        items = raw["items"]
        name = self._name_of(items, namespace) if isinstance(items, str | dict) else ""
        definition, _ = self._named.get(name, ({}, ""))
        if definition.get("type") != "record":
            return None
        is_entry = name == _MAP_ENTRY or definition.get("connect.internal.type") == "MapEntry"
        return name if is_entry or raw.get("logicalType") == "map" else None

    def _used_by(self, name: str) -> Iterator[str]:
        raw, namespace = self._named[name]
        for field in _fields(raw):
            yield from self._names_in(field["type"], namespace)

    def _names_in(self, raw: Any, namespace: str) -> Iterator[str]:
        match raw:
            case list():
                for branch in raw:
                    yield from self._names_in(branch, namespace)
            case str():
                if raw not in _PRIMITIVES:
                    yield self._found(raw, namespace)
            case {"type": kind} if kind in _NAMED:
                yield _full_name(raw, namespace)
            case {"type": "array", "items": inner} | {"type": "map", "values": inner} | {"type": inner}:
                yield from self._names_in(inner, namespace)


def _fields(raw: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    fields: Iterable[Mapping[str, Any]] = raw["fields"] if raw["type"] in _RECORDS else ()
    return fields


def _primitive(name: str, about: Mapping[str, Any], path: str) -> Iterator[Invalid]:
    logical = str(about.get("logicalType", "")).lower()
    match name:
        case "null":
            yield unconvertible(path, "is null alone")
        case "bytes":
            yield from _bytes(about, path)
        case "string":
            yield from _text(about, path)
        case "int" if not logical and about.get("connect.type", "int8") not in ("int8", "int16"):
            yield unconvertible(path, f"is an int with the connect.type {about['connect.type']}: int8 or int16")
        case "int" if logical == "time-millis":
            yield from _time(logical, about, path)
        case "long" if logical:
            yield from _time(logical, about, path)


def _time(logical: str, about: Mapping[str, Any], path: str) -> Iterator[Invalid]:
    digits = whole(about.get("flink.precision"))
    most = _CARRIERS.get(logical)
    if most is not None and digits is not None and digits > most:
        yield unconvertible(path, f"has the flink.precision {digits}, and {logical} has {most} fractional digits")
    elif logical in ("timestamp-nanos", "local-timestamp-nanos"):
        yield from of_timestamp(9 if digits is None else digits, path)
    elif digits is not None and (most is not None or logical == "time-micros"):
        yield from of_precision(digits, path)


def _bytes(about: Mapping[str, Any], path: str) -> Iterator[Invalid]:
    """Yield what is wrong with bytes or a fixed. The checker gives a decimal without a precision 10 digits."""
    if str(about.get("logicalType", "")).lower() == "decimal":
        given = about.get("precision", 10)
        precision, scale = whole(given), whole(about.get("scale", 0))
        if precision is None:
            yield unconvertible(path, f"is a decimal with the precision {given!r}, which is not a number")
            return
        yield from of_decimal(precision, scale or 0, path)
    elif isinstance(most := about.get("flink.maxLength"), int) and about["type"] == "bytes":
        yield from of_length(most, path, least=0)


def _text(about: Mapping[str, Any], path: str) -> Iterator[Invalid]:
    least, most = about.get("flink.minLength"), about.get("flink.maxLength")
    if isinstance(most, int):
        yield from of_length(most, path, least=1 if least == most else 0)


def _multiset(raw: Mapping[str, Any], values: Any, path: str) -> Iterator[Invalid]:
    if raw.get("flink.type") == "multiset" and values not in ("int", {"type": "int"}):
        yield unconvertible(path, "is a multiset whose values are not int")


def _is_variant(name: str, raw: Mapping[str, Any]) -> bool:
    parts = {field["name"]: field["type"] for field in raw["fields"]}
    return name == _VARIANT and parts == {"metadata": "bytes", "value": "bytes"}


def _is_null(raw: Any) -> bool:
    return raw == "null" or (isinstance(raw, dict) and raw.get("type") == "null")


def _full_name(raw: Mapping[str, Any], enclosing: str) -> str:
    name, namespace = str(raw["name"]), raw.get("namespace", enclosing)
    return f"{namespace}.{name}" if namespace and "." not in name else name
