"""Python values of Arrow columns, with a dict for each map whose keys are text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def python_values(column: pa.Array) -> list[Any]:
    """Return the values as Arrow does, but maps as dicts if their keys are text; other maps stay lists of pairs."""
    values = column.to_pylist()
    return [_with_dicts(value, column.type) for value in values] if _has_map(column.type) else values


def _has_map(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind)) or any(_has_map(kind.field(n).type) for n in range(kind.num_fields))


def _with_dicts(value: Any, kind: pa.DataType) -> Any:
    if value is None or not _has_map(kind):
        return value
    if pa.types.is_struct(kind):
        return {field.name: _with_dicts(value[field.name], field.type) for field in kind}
    if not pa.types.is_map(kind):
        return [_with_dicts(each, kind.value_type) for each in value]
    pairs = [(_with_dicts(key, kind.key_type), _with_dicts(each, kind.item_type)) for key, each in value]
    return dict(pairs) if _is_text(kind.key_type) else pairs


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
