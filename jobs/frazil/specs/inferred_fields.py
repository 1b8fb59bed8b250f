"""Columns that fit a sample of JSON values, for a person to look at: a later value may have another type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from frazil.model.declared import EXTRA
from frazil.specs.declared_fields import NAME

LONG = range(-(2**63), 2**63)
MOST_DIGITS = 21
"""Of an integer that is parsed: more do not fit in a long either, and Python refuses thousands of them."""
_SCALARS: Mapping[type, str] = {bool: "boolean", float: "double", str: "string"}
_UNKNOWN = None
"""The type of a field that is null in all values, and of the elements of empty arrays."""


def inferred_fields(texts: Sequence[str]) -> Mapping[str, str]:
    """Return types by field, written as in a spec; empty if some value is not an object.

    Types are of the JSON, not of what a text may mean: a date is a string. Fields whose names cannot be columns are
    left out, as the column of undeclared fields holds them.
    """
    values = [json.loads(text, parse_int=lambda digits: int(digits[:MOST_DIGITS])) for text in texts]
    if not all(isinstance(value, dict) for value in values):
        return {}
    found = reduce(_merged, map(_type_of, values), _UNKNOWN)
    return dict(_written_fields(found)) if isinstance(found, dict) else {}


def _type_of(value: object) -> object:
    match value:
        case list():
            return [reduce(_merged, map(_type_of, value), _UNKNOWN)]
        case dict():
            return {name: _type_of(each) for name, each in value.items()}
        case int() if not isinstance(value, bool):
            return "long" if value in LONG else "json"
        case _:
            return _SCALARS.get(type(value), _UNKNOWN)


def _merged(one: object, other: object) -> object:
    match one, other:
        case (None, _):
            return other
        case (_, None):
            return one
        case [a], [b]:
            return [_merged(a, b)]
        case dict(), dict():
            return {name: _merged(one.get(name), other.get(name)) for name in {**one, **other}}
        case ("long", "double") | ("double", "long"):
            return "double"
        case _:
            return one if one == other else "json"


def _written_fields(fields: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    seen = {EXTRA}
    for name, declared in fields.items():
        if NAME.fullmatch(name) and name.lower() not in seen:
            seen.add(name.lower())
            yield name, _written(declared)


def _written(declared: object) -> str:
    match declared:
        case str():
            return declared
        case [inner]:
            return f"[{_written(inner)}]"
        case dict():
            fields = ", ".join(f"{name}: {text}" for name, text in _written_fields(declared))
            return f"{{{fields}}}" if fields else "json"
        case _:
            return "json"
