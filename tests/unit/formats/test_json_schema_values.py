"""Each example of the JSON Schema verdicts: a text, and the values of its column and of `_extra`, by both decoders."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest
from json_samples import Json, fields

from frazil.formats.json_schema.schema import expand
from frazil.formats.json_schema.verdicts import DEFINITIONS, VERDICTS
from frazil.formats.json_values.open import open_decoder
from frazil.formats.json_values.shape import columns_of
from frazil.formats.native import Engine
from frazil.records import binary

AT = dt.datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=dt.UTC)
VALUES: dict[str, list[tuple[str, Any] | tuple[str, Any, str]]] = {
    "boolean": [("true", True)],
    "integer": [("-9223372036854775808", -(2**63))],
    "integer with `connect.type` int8, int16 or int32": [("-128", -128), ("32767", 32767), ("2147483647", 2**31 - 1)],
    "number, also with `multipleOf`": [("1e300", 1e300), ("0.07", 0.07)],
    "number with `connect.type` float32": [("0.5", 0.5)],
    "Kafka Connect's Decimal": [
        ("-0.01", Decimal("-0.01")),
        ('"BNI="', Decimal("0.1234")),
        ("1", Decimal(1)),
    ],
    "Kafka Connect's Date, Time, Timestamp (integers)": [
        ("-719162", dt.date(1, 1, 1)),
        ("1", dt.time(0, 0, 0, 1000)),
        ("1700000000123", AT),
    ],
    "string": [('"\\u6771京"', "東京"), ('"longer than three"', "longer than three")],
    "string with `format` date-time, date or time": [
        ('"2023-11-14T23:13:20.123+01:00"', AT),
        ('"0001-01-01"', dt.date(1, 1, 1)),
        ('"23:59:59.5Z"', dt.time(23, 59, 59, 500_000)),
    ],
    "string with any other `format`, also uuid": [('"no uuid"', "no uuid"), ('"a@example.com"', "a@example.com")],
    "string with `contentEncoding` base64, or `connect.type` bytes": [('"AP8="', b"\x00\xff"), ('""', b"")],
    "`enum` or `const`": [
        ('"b"', "b"),
        ("2", 2),
        ('"other than the constant"', "other than the constant"),
        ("2.5", 2.5),
        ("1", "1"),
    ],
    "object with `properties`": [
        ('{"a": 1, "x": [true]}', {"a": 1}, '{"f.x":[true]}'),
        ('{"a": null, "x": "y"}', {"a": None}, '{"f.x":"y"}'),
    ],
    "object without `properties`, with a schema of `additionalProperties`": [
        ('{"x": 1, "y": null}', [("x", 1), ("y", None)])
    ],
    "object with `patternProperties` alone": [
        ('{"ab": 1}', [("ab", 1)]),
        ('{"ab": 1, "c": [2]}', [("ab", "1"), ("c", "[2]")]),
    ],
    "`required`, and constraints such as `maxLength`": [("{}", {"a": None})],
    "any other object": [('{ "x" : 1.50 }', '{"x":1.50}')],
    "array": [("[1, 0.5, null]", [1.0, 0.5, None]), ('[1, "a", {"b": 2}]', ["1", '"a"', '{"b":2}'])],
    "array with a list of `items`, or with `prefixItems`": [('[1, "a"]', '[1,"a"]'), ("[2]", "[2]")],
    "`oneOf`, `anyOf` or a list of types: null and one type": [
        ("7", 7),
        ('{"a": 3}', {"a": 3}),
        ('"2024-02-29"', dt.date(2024, 2, 29)),
    ],
    "`oneOf` or `anyOf`: several of one JSON type without parts": [
        ('"b"', "b"),
        ('"2024-02-29"', "2024-02-29"),
        ("3", 3.0),
    ],
    "any other `oneOf`, `anyOf` or list of types": [
        ('{"b": "x"}', '{"b":"x"}'),
        ('"x"', '"x"'),
        ('{"a": 1, "b": "x"}', '{"a":1,"b":"x"}'),
    ],
    "`allOf`": [('{"a": 1, "b": "x"}', {"a": 1, "b": "x"}), ("5", 5)],
    "`oneOf`, `anyOf`, `if`, `not` beside a type or `properties`": [
        ('{"b": "x"}', {"a": None}, '{"f.b":"x"}'),
        ('""', ""),
        ('{"a": 1, "b": "x"}', {"a": 1}, '{"f.b":"x"}'),
    ],
    "`{}`, `true`, `not` or `if` alone": [("[1]", "[1]"), ('"x"', '"x"'), ("false", "false"), ('{"a": 1}', '{"a":1}')],
    "null alone, `false`": [("null", None), ("5", None, '{"f":5}')],
    "`$ref`, in the schema or to a reference of the registry": [
        ('{"a": 1}', {"a": 1}),
        ('{"t": {"t": {"t": {"t": {}}}}}', {"t": {"t": {"t": '{"t":{}}'}}}),
    ],
}
CASES = [
    pytest.param(schema, column, value, id=f"{verdict.schema}-{number}")
    for verdict in VERDICTS
    for number, ((schema, column), value) in enumerate(zip(verdict.examples, VALUES[verdict.schema], strict=True))
]
DRAFTS = (
    ("http://json-schema.org/draft-04/schema#", "struct<a: long>", None),
    ("http://json-schema.org/draft-06/schema#", "struct<a: long>", {"a": 1}),
    ("http://json-schema.org/draft-07/schema#", "struct<a: long>", {"a": 1}),
    ("https://json-schema.org/draft/2019-09/schema", "struct<b: string, a: long>", {"b": "x", "a": 1}),
    ("https://json-schema.org/draft/2020-12/schema", "struct<b: string, a: long>", {"b": "x", "a": 1}),
)
"""The URI of each draft, the column of a reference with properties beside it, and what 1.0 is as an integer in it."""


def test_every_verdict_has_values() -> None:
    assert list(VALUES) == [each.schema for each in VERDICTS]


@pytest.mark.parametrize(("schema", "column", "value"), CASES)
def test_a_text_becomes_the_value_of_its_verdict(schema: Json, column: str, value: Any, engine: Engine) -> None:
    text, expected, extra = (*value, None)[:3]

    row = decoded({**fields(f=schema), "definitions": DEFINITIONS}, f'{{"f": {text}}}', engine)

    assert row == {**({"f": expected} if column else {}), "_extra": extra}


def decoded(schema: Json, text: str, engine: Engine) -> dict[str, Any]:
    found = open_decoder(expand(json.dumps(schema)).row, engine).decode(binary([text.encode()]))
    assert found.rejects == ()
    (row,) = found.rows.to_pylist()
    return dict(row)


@pytest.mark.parametrize(("uri", "column", "value"), DRAFTS, ids=[each[0].split("/")[-2] for each in DRAFTS])
def test_each_draft_is_known_by_its_uri(uri: str, column: str, value: Any, engine: Engine) -> None:
    beside = {"$ref": "#/definitions/A", "properties": {"b": {"type": "string"}}}
    found = expand(json.dumps({"$schema": uri, **fields(f=beside), "definitions": DEFINITIONS}))

    given = open_decoder(found.row, engine).decode(binary([b'{"f": {"a": 1.0, "b": "x"}}']))

    assert found.notes == ()
    assert [str(each.type) for each in columns_of(found.row)] == [column, "string"]
    assert [row["f"] for row in given.rows.to_pylist()] == ([] if value is None else [value])
    assert [each.path for each in given.rejects] == (["f.a"] if value is None else [])


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"const": "a"}, '"a"', "a"),
        ({"const": 1}, "1.0", 1),
        ({"oneOf": [{"const": None}, {"type": "string"}]}, '"a"', "a"),
        ({"enum": [1, 2]}, "1.0", 1),
        ({"anyOf": [{"enum": [1]}, {"type": "integer"}]}, "1.0", 1),
        ({"enum": ["a", None]}, '"a"', "a"),
    ],
)
def test_values_say_the_type_in_draft_4_and_1_0_equals_their_1(
    schema: Json, text: str, value: Any, engine: Engine
) -> None:
    row = decoded({"$schema": DRAFTS[0][0], **fields(f=schema)}, f'{{"f": {text}}}', engine)

    assert row == {"f": value, "_extra": None}
