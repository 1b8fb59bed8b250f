"""The Avro schema of a record, derived from the columns of a table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import assert_never

from frazil.model.columns import Column, ColumnType, Decimal, Fixed, ListOf, MapOf, Scalar, Struct
from frazil.model.errors import OutputSchemaError

AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_SCALARS: dict[str, object] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "local-timestamp-micros"},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros"},
    "uuid": {"type": "string", "logicalType": "uuid"},
}


def schema_of(columns: Sequence[Column], *, name: str, namespace: str, table: str) -> str:
    """Return the schema of a record with these columns, each of which may be null.

    Raises OutputSchemaError for names that Avro does not have.
    """
    found = list(_bad_names(columns))
    if found:
        raise OutputSchemaError(
            f"{table}: an Avro schema cannot have the names {', '.join(found)}: expected letters from a to z, digits"
            " and _, with no digit first",
            hint="name the other columns in `columns` of the output",
        )
    first = _Names()
    _fields(columns, name, first)
    fields = _fields(columns, name, _Names(frozenset(first.paths)))
    record = {"type": "record", "name": name, "namespace": namespace, "fields": fields}
    return json.dumps(record, separators=(",", ":"))


@dataclass(slots=True)
class _Names:
    """Gives each record and fixed type a name that no other one in the schema has.

    The first one of a path keeps the name that is made of the path, such as `T_a_b`. Another one, such as that of the
    column `a_b` after `a.b`, gets a number that makes it no path in `all_paths`.
    """

    all_paths: frozenset[str] = frozenset()
    paths: set[str] = field(default_factory=set)
    numbered: set[str] = field(default_factory=set)

    def of(self, path: str) -> str:
        if path not in self.paths:
            self.paths.add(path)
            return path
        taken = self.all_paths | self.numbered
        found = next(name for n in count(2) if (name := f"{path}_{n}") not in taken)
        self.numbered.add(found)
        return found


def undocumented(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns without their docs, at any depth."""
    return tuple(replace(column, doc=None, type=_undocumented(column.type)) for column in columns)


def _undocumented(kind: ColumnType) -> ColumnType:
    match kind:
        case Struct(columns):
            return Struct(undocumented(columns))
        case ListOf(element):
            return ListOf(_undocumented(element))
        case MapOf(key, value):
            return MapOf(_undocumented(key), _undocumented(value))
        case _:
            return kind


def _bad_names(columns: Sequence[Column], path: str = "") -> Iterator[str]:
    for column in columns:
        if not AVRO_NAME.fullmatch(column.name):
            yield path + column.name
        yield from _bad_names(_inner_columns(column.type), f"{path}{column.name}.")


def _inner_columns(kind: ColumnType) -> Sequence[Column]:
    match kind:
        case Struct(columns):
            return columns
        case ListOf(element):
            return _inner_columns(element)
        case MapOf(key, value):
            return [*_inner_columns(key), *_inner_columns(value)]
        case _:
            return ()


def _fields(columns: Sequence[Column], path: str, names: _Names) -> list[dict[str, object]]:
    return [_field(column, path, names) for column in columns]


def _field(column: Column, path: str, names: _Names) -> dict[str, object]:
    kind = ["null", _type(column.type, f"{path}_{column.name}", names)]
    doc = {} if column.doc is None else {"doc": column.doc}
    return {"name": column.name, "type": kind, "default": None, **doc}


def _type(kind: ColumnType, path: str, names: _Names) -> object:
    """Return the type of the columns at a path, of which the names of records and fixed types are made."""
    match kind:
        case Scalar(word):
            return _SCALARS[word]
        case Decimal(precision, scale):
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        case Fixed(length):
            return {"type": "fixed", "name": names.of(path), "size": length}
        case ListOf(element):
            return {"type": "array", "items": ["null", _type(element, f"{path}_item", names)]}
        case MapOf():
            return _map(kind, path, names)
        case Struct(columns):
            return {"type": "record", "name": names.of(path), "fields": _fields(columns, path, names)}
        case _:
            assert_never(kind)


def _map(kind: MapOf, path: str, names: _Names) -> object:
    """Return a map of Avro, whose keys are texts, or the entries of a map with other keys."""
    if kind.key == Scalar("string"):
        return {"type": "map", "values": ["null", _type(kind.value, f"{path}_value", names)]}
    entry = (Column("key", kind.key), Column("value", kind.value))
    items = {"type": "record", "name": names.of(path), "fields": _fields(entry, path, names)}
    return {"type": "array", "items": items}
