"""JSON values whose fields a table spec declares, as the shape that decoders take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from frazil.formats.json_values.shape import Entries, Items, Leaf, LeafKind, Member, Members, Money, Row, Shape
from frazil.model.declared import ANY_NAME, decimal_of

_KINDS: Mapping[str, LeafKind] = {
    "boolean": "boolean",
    "int": "whole-int",
    "long": "whole-long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "base64",
    "date": "date",
    "time": "time",
    "timestamptz": "timestamp",
    "timestamp_millis": "timestamp-millis",
    "json": "json",
}
"""By the words of `model.declared.WORDS`."""


@lru_cache(maxsize=16)
def declared_row(fields: str) -> Row:
    """Return the shape of values with these declared fields (`model.declared`). Other fields go to `_extra`."""
    return Row(_members(json.loads(fields)), is_object=True, keeps_extra=True)


def _members(fields: Mapping[str, object]) -> Members:
    return Members(tuple(Member(name, name, _shape(declared)) for name, declared in fields.items()))


def _shape(declared: object) -> Shape:
    match declared:
        case str():
            digits = decimal_of(declared)
            return Leaf(_KINDS[declared]) if digits is None else Money(*digits)
        case [element]:
            return Items(_shape(element))
        case dict() if list(declared) == [ANY_NAME]:
            return Entries(_shape(declared[ANY_NAME]))
        case dict():
            return _members(declared)
        case _:
            raise AssertionError(f"{declared} is not a declaration")
