"""Columns of named types, and their values made from those of the types under them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.formats.arrow import arrow_schema
from frazil.formats.connect import ConnectType, ConnectTypes
from frazil.formats.debezium.converted import Converted
from frazil.formats.debezium.logical_types import LOGICAL_TYPES, LogicalType
from frazil.formats.placement import join
from frazil.model.columns import Column, ColumnType, ListOf, Struct
from frazil.model.dead_letter import Reject

Rows: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Element:
    """A conversion of each element of a list."""

    of: _Step


@dataclass(frozen=True, slots=True)
class _Fields:
    """Conversions of some fields of a struct, by their place."""

    of: Mapping[int, _Step]


_Step: TypeAlias = LogicalType | _Element | _Fields


@dataclass(frozen=True, slots=True)
class LogicalRows:
    """Rows with the columns of named types. `rejects` are of the rows given; their rows are not in `rows`."""

    rows: pa.RecordBatch
    rejects: tuple[Reject, ...]
    truncated_nanos: int


class LogicalColumns:
    """The columns of a writer schema whose types are named, and the conversion of its rows."""

    def __init__(self, stored: tuple[Column, ...], types: ConnectTypes) -> None:
        self.columns = tuple(_column(column, types, column.name) for column in stored)
        self.schema = arrow_schema(self.columns)
        steps = ((place, _step(column.type, types, column.name)) for place, column in enumerate(stored))
        self._steps = {place: step for place, step in steps if step is not None}

    def convert(self, rows: pa.RecordBatch) -> LogicalRows:
        """Convert rows that have the columns given, with the types of `arrow.arrow_type`."""
        arrays, rejects, truncated = list(rows.columns), dict[int, Reject](), 0
        for place, step in self._steps.items():
            column = _Conversion(self.schema.names[place])
            arrays[place] = column.array(arrays[place], step, column.name, np.arange(len(rows)))
            rejects = {**column.rejects, **rejects}
            truncated += column.truncated_nanos
        converted = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if rejects:
            converted = converted.take(pa.array(np.delete(np.arange(len(rows)), list(rejects))))
        return LogicalRows(converted, tuple(each for _, each in sorted(rejects.items())), truncated)


def _column(column: Column, types: ConnectTypes, path: str) -> Column:
    named = _named(column.type, types, path)
    is_json = column.is_json or (named is not None and named.is_json)
    return replace(column, type=_type(column.type, types, path), is_json=is_json)


def _type(stored: ColumnType, types: ConnectTypes, path: str) -> ColumnType:
    named = _named(stored, types, path)
    if named is not None and named.column is not None:
        return named.column
    match stored:
        case ListOf(element):
            return ListOf(_type(element, types, path + "[]"))
        case Struct(columns):
            return replace(stored, columns=tuple(_column(each, types, join(path, each.name)) for each in columns))
        case _:
            return stored


def _step(stored: ColumnType, types: ConnectTypes, path: str) -> _Step | None:
    named = _named(stored, types, path)
    if named is not None and named.convert is not None:
        return named
    match stored:
        case ListOf(element):
            inner = _step(element, types, path + "[]")
            return None if inner is None else _Element(inner)
        case Struct(columns):
            steps = ((place, _step(each.type, types, join(path, each.name))) for place, each in enumerate(columns))
            fields = {place: step for place, step in steps if step is not None}
            return _Fields(fields) if fields else None
        case _:
            return None


def _named(stored: ColumnType, types: ConnectTypes, path: str) -> LogicalType | None:
    """Return the named type of a column; None if it has none, or if the type under it is another one than usual."""
    given = types.get(path)
    known = None if given is None else LOGICAL_TYPES.get(given.name)
    return known if known is not None and (known.stored is None or _is_stored(known, stored)) else None


def _is_stored(known: LogicalType, stored: ColumnType) -> bool:
    if isinstance(stored, Struct) and isinstance(known.stored, Struct):
        return {(each.name, each.type) for each in stored.columns} == {(c.name, c.type) for c in known.stored.columns}
    return stored == known.stored


class _Conversion:
    """Converts one column, and keeps what is wrong in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rejects: dict[int, Reject] = {}
        self.truncated_nanos = 0

    def array(self, given: pa.Array, step: _Step, path: str, rows: Rows) -> pa.Array:
        """Return the converted values; `rows` are the indexes of the rows that they are in."""
        match step:
            case LogicalType(convert=convert):
                assert convert is not None  # noqa: S101 - a step has a conversion
                converted = convert(given)
                self._note(converted, path, rows)
                return converted.values
            case _Element(of):
                return self._list(given, of, path + "[]", rows)
            case _Fields(of):
                return self._struct(given, of, path, rows)

    def _note(self, converted: Converted, path: str, rows: Rows) -> None:
        self.truncated_nanos += converted.truncated_nanos
        if converted.is_bad is not None:
            for row in rows[converted.is_bad].tolist():
                self.rejects.setdefault(row, Reject(row, converted.reason, converted.detail, path))

    def _struct(self, given: pa.StructArray, steps: Mapping[int, _Step], path: str, rows: Rows) -> pa.Array:
        children, fields = given.flatten(), list(given.type)
        for place, step in steps.items():
            children[place] = self.array(children[place], step, join(path, fields[place].name), rows)
        wanted = [pa.field(field.name, child.type) for field, child in zip(fields, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=wanted, mask=given.is_null())

    def _list(self, given: pa.LargeListArray, step: _Step, path: str, rows: Rows) -> pa.Array:
        offsets = given.offsets.to_numpy()
        elements = given.values.slice(offsets[0], offsets[-1] - offsets[0])
        converted = self.array(elements, step, path, np.repeat(rows, np.diff(offsets)))
        return pa.LargeListArray.from_arrays(pa.array(offsets - offsets[0]), converted, mask=given.is_null())


def within(types: ConnectTypes, path: str) -> ConnectTypes:
    """Return the named types of the columns in a struct, by their paths from there."""
    return dict(_within(types, f"{path}."))


def _within(types: ConnectTypes, prefix: str) -> Iterator[tuple[str, ConnectType]]:
    for path, named in types.items():
        if path.startswith(prefix):
            yield path.removeprefix(prefix), named
