"""Frozen dataclasses as compact JSON values and back, driven by their type hints.

A sequence of dataclasses is stored by column, with one list per field; a mapping is stored as the lists `keys` and
`values`. Field names are therefore stored only once, and similar numbers are adjacent, which compresses well.

A field that the JSON lacks gets its default, so a field with a default can be added to a stored class at any time. A
name in the JSON that the class lacks is an error: a newer release wrote it, and without it the value would be wrong.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, Union, get_args, get_origin, get_type_hints

from frazil.model.schemas import SchemaId, id_in, id_order, stored_id


def pack(kind: Any, value: Any) -> Any:
    """Return `value`, of type `kind`, as a JSON value.

    Supports dataclasses, tuples of one type, mappings, optional values, datetimes, ids of schemas, and the types of
    JSON.
    """
    if value is None:
        return None
    if kind == SchemaId:
        return stored_id(value)
    kind = _not_none(kind)
    if _is_class(kind):
        return {name: pack(hint, getattr(value, name)) for name, hint in _hints(kind).items()}
    if get_origin(kind) is tuple:
        return _pack_all(get_args(kind)[0], value)
    if get_origin(kind) is Mapping:
        key_kind, value_kind = get_args(kind)
        keys = sorted(value, key=id_order if key_kind == SchemaId else None)
        return {"keys": _pack_all(key_kind, keys), "values": _pack_all(value_kind, [value[key] for key in keys])}
    return value.isoformat() if kind is datetime else value


def unpack(kind: Any, packed: Any) -> Any:
    """Return the value that was packed. Raises KeyError, TypeError or ValueError if it is not a value of `kind`."""
    if packed is None:
        return None
    if kind == SchemaId:
        return id_in(packed)
    kind = _not_none(kind)
    if _is_class(kind):
        hints = _hints(kind)
        return kind(**{name: unpack(hints[name], packed[name]) for name in _stored(kind, packed)})
    if get_origin(kind) is tuple:
        return tuple(_unpack_all(get_args(kind)[0], packed))
    if get_origin(kind) is Mapping:
        key_kind, value_kind = get_args(kind)
        keys = _unpack_all(key_kind, packed["keys"])
        return dict(zip(keys, _unpack_all(value_kind, packed["values"]), strict=True))
    return datetime.fromisoformat(packed) if kind is datetime else packed


def _pack_all(kind: Any, values: Sequence[Any]) -> Any:
    if _is_class(kind):
        return {name: _pack_all(hint, list(map(attrgetter(name), values))) for name, hint in _hints(kind).items()}
    return list(values) if _is_json(kind) else [pack(kind, value) for value in values]


def _unpack_all(kind: Any, packed: Any) -> list[Any]:
    if _is_json(kind):
        return list(packed)
    if not _is_class(kind):
        return [unpack(kind, value) for value in packed]
    hints = _hints(kind)
    names = _stored(kind, packed)
    columns = [_unpack_all(hints[name], packed[name]) for name in names]
    rows = zip(*columns, strict=True)
    if names == list(hints):
        return [kind(*row) for row in rows]
    return [kind(**dict(zip(names, row, strict=True))) for row in rows]


def _stored(kind: Any, packed: Mapping[str, Any]) -> list[str]:
    """Return the fields to read: those in the JSON, and those without a default. Raises ValueError for other names."""
    unknown = sorted(set(packed) - _hints(kind).keys())
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {', '.join(unknown)}")
    return [each.name for each in fields(kind) if each.name in packed or not _has_default(each)]


def _has_default(each: Any) -> bool:
    return each.default is not MISSING or each.default_factory is not MISSING


def _is_class(kind: Any) -> bool:
    return is_dataclass(kind)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


@cache
def _is_json(kind: Any) -> bool:
    """Return whether this is a type of JSON, so that a list of such values is stored unchanged."""
    return kind != SchemaId and _not_none(kind) in (int, float, str, bool)


@cache
def _not_none(kind: Any) -> Any:
    """Return X for `X | None`, and any other type unchanged."""
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    (kind,) = (each for each in get_args(kind) if each is not types.NoneType)
    return kind
