"""What each kind of JSON Schema becomes, as data. Tests compare it with the mapping; the docs' page is made from it.

A kind without a column of its own is JSON text, so no value that a schema allows is lost or refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Json = Mapping[str, object] | bool
_CONNECT = "org.apache.kafka.connect.data."


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row: what the docs say, and examples of such schemas with the types of their columns."""

    schema: str
    column: str
    examples: tuple[tuple[Json, str], ...]


def _of(name: str, **more: object) -> dict[str, object]:
    return {"type": name, **more}


def _decimal(name: str, **parameters: str) -> dict[str, object]:
    return _of(
        name,
        title=f"{_CONNECT}Decimal",
        **{"connect.type": "bytes", "connect.parameters": parameters} if parameters else {"connect.type": "bytes"},
    )


_A, _B = _of("object", properties={"a": _of("integer")}), _of("object", properties={"b": _of("string")})

VERDICTS: tuple[Verdict, ...] = (
    Verdict("boolean", "boolean", ((_of("boolean"), "boolean"),)),
    Verdict("integer", "long", ((_of("integer"), "long"),)),
    Verdict(
        "integer with `connect.type` int8, int16 or int32",
        "int",
        tuple((_of("integer", **{"connect.type": each}), "int") for each in ("int8", "int16", "int32")),
    ),
    Verdict(
        "number, also with `multipleOf`",
        "double",
        ((_of("number"), "double"), (_of("number", multipleOf=0.01), "double")),
    ),
    Verdict("number with `connect.type` float32", "float", ((_of("number", **{"connect.type": "float32"}), "float"),)),
    Verdict(
        "Kafka Connect's Decimal",
        "decimal(p, s) of its parameters, without them decimal(38, 18)",
        (
            (_decimal("number", scale="2", **{"connect.decimal.precision": "9"}), "decimal(9, 2)"),
            (_decimal("string", scale="4"), "decimal(38, 4)"),
            (_decimal("number"), "decimal(38, 18)"),
        ),
    ),
    Verdict(
        "Kafka Connect's Date, Time, Timestamp (integers)",
        "date, time, timestamptz",
        tuple(
            (_of("integer", title=_CONNECT + title, **{"connect.type": kind}), column)
            for title, kind, column in (
                ("Date", "int32", "date"),
                ("Time", "int32", "time"),
                ("Timestamp", "int64", "timestamptz"),
            )
        ),
    ),
    Verdict("string", "string", ((_of("string"), "string"), (_of("string", maxLength=3, pattern="^a"), "string"))),
    Verdict(
        "string with `format` date-time, date or time",
        "timestamptz, date, time; string with `string_formats: text`",
        (
            (_of("string", format="date-time"), "timestamptz"),
            (_of("string", format="date"), "date"),
            (_of("string", format="time"), "time"),
        ),
    ),
    Verdict(
        "string with any other `format`, also uuid",
        "string",
        ((_of("string", format="uuid"), "string"), (_of("string", format="email"), "string")),
    ),
    Verdict(
        "string with `contentEncoding` base64, or `connect.type` bytes",
        "binary",
        ((_of("string", contentEncoding="base64"), "binary"), (_of("string", **{"connect.type": "bytes"}), "binary")),
    ),
    Verdict(
        "`enum` or `const`",
        "the type of its values; JSON text if they have several",
        (
            ({"enum": ["a", "b", None]}, "string"),
            ({"enum": [1, 2]}, "long"),
            ({"const": "a"}, "string"),
            ({"const": 1.5}, "double"),
            ({"enum": ["a", 1]}, "string"),
        ),
    ),
    Verdict(
        "object with `properties`",
        "struct; other fields are in `_extra`",
        ((_A, "struct<a: long>"), (_of("object", **{**_A, "additionalProperties": _of("string")}), "struct<a: long>")),
    ),
    Verdict(
        "object without `properties`, with a schema of `additionalProperties`",
        "map<string, V>",
        ((_of("object", additionalProperties=_of("integer")), "map<string, long>"),),
    ),
    Verdict(
        "object with `patternProperties` alone",
        "map<string, V>; V is JSON text unless `additionalProperties` is false and all have one type",
        (
            (_of("object", patternProperties={"^a": _of("integer")}, additionalProperties=False), "map<string, long>"),
            (_of("object", patternProperties={"^a": _of("integer")}), "map<string, string>"),
        ),
    ),
    Verdict(
        "`required`, and constraints such as `maxLength`",
        "no effect: every column can be null, and values stay as they are",
        ((_of("object", **{**_A, "required": ["a"], "minProperties": 1}), "struct<a: long>"),),
    ),
    Verdict("any other object", "JSON text; at the top, all fields are in `_extra`", ((_of("object"), "string"),)),
    Verdict(
        "array",
        "list",
        ((_of("array", items=_of("number")), "list<double>"), (_of("array"), "list<string>")),
    ),
    Verdict(
        "array with a list of `items`, or with `prefixItems`",
        "JSON text",
        ((_of("array", items=[_of("integer")]), "string"), (_of("array", prefixItems=[_of("integer")]), "string")),
    ),
    Verdict(
        "`oneOf`, `anyOf` or a list of types: null and one type",
        "that type",
        (
            ({"oneOf": [_of("null"), _of("integer")]}, "long"),
            ({"anyOf": [_A, _of("null")]}, "struct<a: long>"),
            ({"type": ["null", "string"], "format": "date"}, "date"),
        ),
    ),
    Verdict(
        "`oneOf` or `anyOf`: several of one JSON type without parts",
        "that type; string if formats differ, double if one is a number",
        (
            ({"oneOf": [{"const": "a"}, {"const": "b"}]}, "string"),
            ({"anyOf": [_of("string", format="date"), _of("string", format="date-time")]}, "string"),
            ({"anyOf": [_of("integer"), _of("number")]}, "double"),
        ),
    ),
    Verdict(
        "any other `oneOf`, `anyOf` or list of types",
        "JSON text",
        (
            ({"oneOf": [_A, _B]}, "string"),
            ({"type": ["string", "integer"]}, "string"),
            ({"type": "object", "oneOf": [_A, _B]}, "string"),
        ),
    ),
    Verdict(
        "`allOf`",
        "all of them together",
        (
            ({"allOf": [_A, _B]}, "struct<a: long, b: string>"),
            ({"allOf": [_of("number"), {"minimum": 1}, {"type": ["integer", "string"]}]}, "long"),
        ),
    ),
    Verdict(
        "`oneOf`, `anyOf`, `if`, `not` beside a type or `properties`",
        "have no effect: what only they declare is in `_extra`",
        (
            ({**_A, "oneOf": [_A, _B]}, "struct<a: long>"),
            (_of("string", **{"not": {"const": ""}}), "string"),
            ({**_A, "if": {"required": ["a"]}, "then": _B}, "struct<a: long>"),
        ),
    ),
    Verdict(
        "`{}`, `true`, `not` or `if` alone",
        "JSON text",
        (({}, "string"), (True, "string"), ({"not": _of("string")}, "string"), ({"if": _A, "then": _B}, "string")),
    ),
    Verdict("null alone, `false`", "none: the field is left out", ((_of("null"), ""), (False, ""))),
    Verdict(
        "`$ref`, in the schema or to a reference of the registry",
        "what it refers to; a type inside itself is columns for three levels, then JSON text",
        (
            ({"$ref": "#/definitions/A"}, "struct<a: long>"),
            ({"$ref": "#/definitions/T"}, "struct<t: struct<t: struct<t: string>>>"),
        ),
    ),
)

DEFINITIONS: Mapping[str, Json] = {"A": _A, "T": _of("object", properties={"t": {"$ref": "#/definitions/T"}})}
"""The definitions that the examples refer to."""
