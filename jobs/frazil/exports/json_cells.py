"""Structs, lists and maps as JSON text: numbers with all their digits, other values as their cells have them."""

from __future__ import annotations

import json
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.exports.cells import as_cells, is_text

Texts = list[str]


def as_json(column: pa.Array, wall_clock: ZoneInfo | None) -> pa.Array:
    """Return a nested column as JSON text, null where it is null."""
    texts = _texts(column, wall_clock)
    return pa.array([text if there else None for text, there in zip(texts, _valid(column), strict=True)], pa.string())


def _texts(column: pa.Array, wall_clock: ZoneInfo | None) -> Texts:
    kind = column.type
    if pa.types.is_struct(kind):
        found = _structs(column, wall_clock)
    elif pa.types.is_map(kind):
        found = _maps(column, wall_clock)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        start = column.offsets[0].as_py() if len(column) else 0
        items = _texts(column.values.slice(start), wall_clock)
        ends = np.asarray(column.offsets) - start
        found = [f"[{','.join(items[a:b])}]" for a, b in pairwise(ends)]
    else:
        return _scalars(column, wall_clock)
    return [text if there else "null" for text, there in zip(found, _valid(column), strict=True)]


def _structs(column: pa.Array, wall_clock: ZoneInfo | None) -> Texts:
    names = [json.dumps(field.name, ensure_ascii=False) for field in column.type]
    members = [_texts(pc.struct_field(column, [n]), wall_clock) for n in range(len(names))]
    rows = zip(*members, strict=True) if members else ((),) * len(column)
    return ["{" + ",".join(f"{n}:{v}" for n, v in zip(names, row, strict=True)) + "}" for row in rows]


def _maps(column: pa.Array, wall_clock: ZoneInfo | None) -> Texts:
    """Return an object for each map with keys of text, and a list of pairs for any other one."""
    start = column.offsets[0].as_py() if len(column) else 0
    keys, values = _texts(column.keys.slice(start), wall_clock), _texts(column.items.slice(start), wall_clock)
    between, around = (":", "{}") if is_text(column.type.key_type) else (",", "[]")
    pairs = [f"{key}{between}{value}" for key, value in zip(keys, values, strict=True)]
    pairs = pairs if around == "{}" else [f"[{pair}]" for pair in pairs]
    ends = np.asarray(column.offsets) - start
    return [around[0] + ",".join(pairs[a:b]) + around[1] for a, b in pairwise(ends)]


def _scalars(column: pa.Array, wall_clock: ZoneInfo | None) -> Texts:
    """Return numbers and booleans as they are, and all else in quotes: JSON has no NaN and no infinity."""
    kind = column.type
    cells = as_cells(column, wall_clock).cast(pa.string()).to_pylist()
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        return ["null" if each is None else each for each in cells]
    if pa.types.is_floating(kind):
        finite = pc.fill_null(pc.is_finite(column), False).to_pylist()
        return [_float(each, is_number) for each, is_number in zip(cells, finite, strict=True)]
    return ["null" if each is None else json.dumps(each, ensure_ascii=False) for each in cells]


def _float(text: str | None, is_number: bool) -> str:
    return "null" if text is None else text if is_number else f'"{text}"'


def _valid(column: pa.Array) -> list[bool]:
    valid: list[bool] = column.is_valid().to_pylist()
    return valid
