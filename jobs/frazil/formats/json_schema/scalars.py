"""Which leaf a schema without parts becomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from frazil.formats.json_schema.conjunction import Conjunction, types_of
from frazil.formats.json_values.shape import JSON_TEXT, Leaf, LeafKind, Money, Nothing
from frazil.formats.limits import MAX_DIGITS

SCALARS = frozenset({"boolean", "integer", "number", "string"})
_CONNECT = "org.apache.kafka.connect.data."
_MOMENTS: Mapping[str, LeafKind] = {
    f"{_CONNECT}Date": "date-days",
    f"{_CONNECT}Time": "time-millis",
    f"{_CONNECT}Timestamp": "timestamp-millis",
}
_FORMATS: Mapping[str, LeafKind] = {"date-time": "timestamp", "date": "date", "time": "time"}
_SMALL = frozenset({"int8", "int16", "int32"})
_TEXTS = frozenset({"string", "date", "time", "timestamp"})
_INTEGERS = frozenset({"int", "long", "whole-int", "whole-long"})
_NUMBERS = _INTEGERS | {"float", "double"}
DEFAULT_DIGITS, DEFAULT_SCALE = 38, 18
"""Kafka Connect's decimals without parameters, as Confluent's converter reads them."""


def scalar_of(schema: Conjunction, types: frozenset[str], *, string_formats: bool) -> Leaf | Money | None:
    """Return the leaf of a schema of these types; None if it is no scalar of one type."""
    if len(types) != 1:
        return None
    (name,) = types
    if schema.first("title") == f"{_CONNECT}Decimal" and schema.first("connect.type") == "bytes":
        return _decimal(schema.first("connect.parameters"))
    return Leaf(_kind(schema, name, string_formats=string_formats)) if name in SCALARS else None


def _kind(schema: Conjunction, name: str, *, string_formats: bool) -> LeafKind:
    match name:
        case "boolean":
            return "boolean"
        case "integer":
            return _integer(schema)
        case "number":
            return "float" if schema.first("connect.type") == "float32" else "double"
        case _:
            return _text(schema, string_formats=string_formats)


def _integer(schema: Conjunction) -> LeafKind:
    moment = _MOMENTS.get(schema.word("title") or "")
    if moment is not None and schema.has("connect.type"):
        return moment
    is_small = schema.word("connect.type") in _SMALL
    if schema.nodes[0].draft.takes_fractions or types_of(schema) is None:  # 1.0 is equal to a 1 in `enum` or `const`
        return "whole-int" if is_small else "whole-long"
    return "int" if is_small else "long"


def _text(schema: Conjunction, *, string_formats: bool) -> LeafKind:
    if schema.first("connect.type") == "bytes" or schema.first("contentEncoding") == "base64":
        return "base64"
    return _FORMATS.get(schema.word("format") or "", "string") if string_formats else "string"


def _decimal(parameters: object) -> Money | None:
    given = parameters if isinstance(parameters, dict) else {}
    try:
        precision = int(given.get("connect.decimal.precision", DEFAULT_DIGITS))
        scale = int(given.get("scale", DEFAULT_SCALE))
    except (TypeError, ValueError, OverflowError):  # 1e999 is a number in JSON
        return None
    fits = 0 <= scale <= precision <= MAX_DIGITS and precision
    return Money(precision, scale, takes_base64=True) if fits else None


def types_of_values(schema: Conjunction) -> frozenset[str] | None:
    """Return the types of the values in `enum` or `const`, but for null; None if the schema has neither."""
    if schema.has("const"):
        return _types([schema.first("const")])
    values = schema.first("enum")
    return _types(values) if isinstance(values, list) else None


def _types(values: Iterable[object]) -> frozenset[str]:
    types = frozenset(_type(value) for value in values if value is not None)
    return types - {"integer"} if "number" in types else types


def _type(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case _:
            return "array" if isinstance(value, list) else "object"


def common(shapes: Iterable[Leaf | Money | Nothing | None]) -> Leaf | Money | Nothing:
    """Return the leaf that holds values of each of these; JSON text if there is none."""
    found = set(shapes)
    if len(found) == 1:
        return next(iter(found)) or JSON_TEXT
    kinds = frozenset(each.kind for each in found if isinstance(each, Leaf))
    if len(kinds) < len(found):
        return JSON_TEXT
    if kinds <= _TEXTS:
        return Leaf("string")
    if kinds <= _INTEGERS:
        return Leaf("long" if kinds == {"int", "long"} else "whole-long")
    return Leaf("double") if kinds <= _NUMBERS else JSON_TEXT


def named_types(schema: Conjunction) -> frozenset[str] | None:
    """Return the types that the schema names, or that its values, properties or items have; None if any."""
    types = types_of(schema)
    if types is None:
        types = types_of_values(schema)
    if types is None and schema.has("properties", "patternProperties", "additionalProperties"):
        return frozenset({"object"})
    if types is None and schema.has("items", "prefixItems"):
        return frozenset({"array"})
    return types
