"""Every rule of `json_values/rules.py`, on both decoders: the reason, the text and the path of the reject."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest
from json_samples import CONNECT, Json, fields, row_of

from frazil.formats.declared import declared_row
from frazil.formats.json_values.open import open_decoder
from frazil.formats.json_values.rules import MOST_LEVELS
from frazil.formats.limits import MOST_SLOTS
from frazil.formats.native import Engine
from frazil.records import binary

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
ROW = fields(
    n={"type": "integer"},
    small={"type": "integer", "connect.type": "int32"},
    x={"type": "number"},
    f={"type": "number", "connect.type": "float32"},
    s={"type": "string"},
    b={"type": "boolean"},
    d={"type": "string", "format": "date"},
    t={"type": "string", "format": "time"},
    at={"type": "string", "format": "date-time"},
    raw={"type": "string", "contentEncoding": "base64"},
    o={"type": "object", "properties": {"n": {"type": "integer"}}},
    list={"type": "array", "items": {"type": "integer"}},
    map={"type": "object", "additionalProperties": {"type": "integer"}},
    nothing={"type": "null"},
    any={},
    money={
        "type": "number",
        "title": f"{CONNECT}Decimal",
        "connect.type": "bytes",
        "connect.parameters": {"scale": "2", "connect.decimal.precision": "5"},
    },
    days={"type": "integer", "title": f"{CONNECT}Date", "connect.type": "int32"},
    ms={"type": "integer", "title": f"{CONNECT}Time", "connect.type": "int32"},
    stamp={"type": "integer", "title": f"{CONNECT}Timestamp", "connect.type": "int64"},
)
A_DATE = "expected a date such as 2024-12-31"
A_TIME = "expected a time with a zone such as 23:59:58.5Z"
A_MOMENT = "expected a date and time with a zone such as 2024-12-31T23:59:58.5Z"
NO_DATE = "the date does not exist"
NO_TIME = "the time does not exist; a leap second has no time in a table"
NO_FRACTION = "expected an integer, found a number with a fraction"
NO_BASE64 = "expected base64 with padding"
PRECISE = "the number has more digits than decimal(5, 2)"

REJECTS: list[tuple[bytes, str, str, str]] = [
    (b"", "truncated", "expected a value, found the end of the payload", ""),
    (b'{"n":1', "truncated", 'expected "," or "}", found the end of the payload', ""),
    (b'{"s":"a', "truncated", "expected the end of a string, found the end of the payload", "s"),
    (b'{"s":"a\\u00', "truncated", "expected the end of a string, found the end of the payload", "s"),
    (b'{"n":', "truncated", "expected a value, found the end of the payload", "n"),
    (b'{"b":tru', "truncated", "expected true, false or null, found the end of the payload", "b"),
    (b"{'n':1}", "bad_json", "expected a key at byte 1, found \"'\"", ""),
    (b"\xef\xbb\xbf{}", "bad_json", "expected a value at byte 0, found the byte 239", ""),
    (b'{"n":1,}', "bad_json", 'expected a key at byte 7, found "}"', ""),
    (b'{"list":[1,]}', "bad_json", 'expected a value at byte 11, found "]"', "list[]"),
    (b'{"n" 1}', "bad_json", 'expected ":" at byte 5, found "1"', "n"),
    (b'{"n":01}', "bad_json", 'expected "," or "}" at byte 6, found "1"', ""),
    (b'{"x":1.}', "bad_json", 'expected a digit at byte 7, found "}"', "x"),
    (b'{"x":-}', "bad_json", 'expected a digit at byte 6, found "}"', "x"),
    (b'{"x":1e}', "bad_json", 'expected a digit at byte 7, found "}"', "x"),
    (b'{"x":NaN}', "bad_json", 'expected a value at byte 5, found "N"', "x"),
    (b'{"x":-Infinity}', "bad_json", 'expected a digit at byte 6, found "I"', "x"),
    (b'{"q":Infinity}', "bad_json", 'expected a value at byte 5, found "I"', ""),
    (b'{"b":trux}', "bad_json", 'expected true, false or null at byte 8, found "x"', "b"),
    (b'{"s":"a\nb"}', "bad_json", "the control character at byte 7 is not escaped", "s"),
    (b'{"s":"\\x41"}', "bad_json", "the escape at byte 6 is not one of JSON's", "s"),
    (b'{"s":"\\u12g4"}', "bad_json", "the escape at byte 6 is not one of JSON's", "s"),
    (b"{} {}", "trailing_bytes", "expected the end of the payload at byte 3", ""),
    (b"{}\x00", "trailing_bytes", "expected the end of the payload at byte 2", ""),
    (b'{"n":1,"n":1}', "duplicate_key", "the key at byte 7 is there twice", "n"),
    (b'{"n":null, "\\u006e":1}', "duplicate_key", "the key at byte 11 is there twice", "n"),
    (b'{"nothing":null,"nothing":null}', "duplicate_key", "the key at byte 16 is there twice", "nothing"),
    (b'{"q":1,"q":2}', "duplicate_key", "the key at byte 7 is there twice", ""),
    (b'{"any":{"q":1,"\\u0071":2}}', "duplicate_key", "the key at byte 14 is there twice", "any"),
    (b'{"map":{"q":1,"q":2}}', "duplicate_key", "the key at byte 14 is there twice", "map{key}"),
    (b'{"s":"\xc3"}', "bad_utf8", "the string is not valid UTF-8 at byte 6", "s"),
    (b'{"s":"ab\xed\xa0\x80"}', "bad_utf8", "the string is not valid UTF-8 at byte 8", "s"),
    (b'{"\xff":1}', "bad_utf8", "the string is not valid UTF-8 at byte 2", ""),
    (b'{"map":{"\xff":1}}', "bad_utf8", "the string is not valid UTF-8 at byte 9", "map{key}"),
    (b'{"s":"a\\ud83e"}', "bad_utf8", "the escape at byte 7 is half of a surrogate pair", "s"),
    (b'{"s":"\\ud83e\\n"}', "bad_utf8", "the escape at byte 6 is half of a surrogate pair", "s"),
    (b'{"s":"\\udd8a\\ud83e"}', "bad_utf8", "the escape at byte 6 is half of a surrogate pair", "s"),
    (b'{"q":["\\udd8a"]}', "bad_utf8", "the escape at byte 7 is half of a surrogate pair", ""),
    (b"null", "wrong_type", "expected an object, found null", ""),
    (b"[]", "wrong_type", "expected an object, found an array", ""),
    (b'{"n":"1"}', "wrong_type", "expected an integer, found a text", "n"),
    (b'{"n":1.5}', "wrong_type", NO_FRACTION, "n"),
    (b'{"n":1e-1}', "wrong_type", NO_FRACTION, "n"),
    (b'{"x":"1"}', "wrong_type", "expected a number, found a text", "x"),
    (b'{"s":1}', "wrong_type", "expected a text, found a number", "s"),
    (b'{"b":1}', "wrong_type", "expected true or false, found a number", "b"),
    (b'{"o":[]}', "wrong_type", "expected an object, found an array", "o"),
    (b'{"o":{"n":true}}', "wrong_type", "expected an integer, found true", "o.n"),
    (b'{"list":{}}', "wrong_type", "expected an array, found an object", "list"),
    (b'{"list":[null,false]}', "wrong_type", "expected an integer, found false", "list[]"),
    (b'{"map":{"a":"b"}}', "wrong_type", "expected an integer, found a text", "map{}"),
    (b'{"nothing":1}', "wrong_type", "expected null, found a number", "nothing"),
    (b'{"money":true}', "wrong_type", "expected a number or base64, found true", "money"),
    (b'{"n":9223372036854775808}', "out_of_range", "the integer has more than 64 bits", "n"),
    (b'{"n":1e400}', "out_of_range", "the integer has more than 64 bits", "n"),
    (b'{"n":' + b"9" * 5000 + b"}", "out_of_range", "the integer has more than 64 bits", "n"),
    (b'{"n":41e99935259297796134711}', "out_of_range", "the integer has more than 64 bits", "n"),
    (b'{"n":41e-99935259297796134711}', "wrong_type", NO_FRACTION, "n"),
    (b'{"small":2147483648}', "out_of_range", "the integer has more than 32 bits", "small"),
    (b'{"x":1e309}', "out_of_range", "the number is larger than any double", "x"),
    (b'{"f":1e39}', "out_of_range", "the number is larger than any float", "f"),
    (b'{"f":1e309}', "out_of_range", "the number is larger than any float", "f"),
    (b'{"money":1000}', "out_of_range", PRECISE, "money"),
    (b'{"money":0.001}', "out_of_range", PRECISE, "money"),
    (b'{"money":"AYag"}', "out_of_range", PRECISE, "money"),
    (b'{"money":"19.99"}', "bad_format", "expected a number, or Kafka Connect's base64 of a decimal", "money"),
    (b'{"money":""}', "out_of_range", "expected a decimal of at least 1 byte, found 0", "money"),
    (b'{"ms":86400000}', "out_of_range", "expected the milliseconds of a time of day", "ms"),
    (b'{"stamp":9223372036854776}', "out_of_range", "the timestamp has more than 64 bits in microseconds", "stamp"),
    (b'{"d":"2024-1-31"}', "bad_format", A_DATE, "d"),
    (b'{"d":"2024-01-31T00:00:00Z"}', "bad_format", A_DATE, "d"),
    (b'{"d":"2023-02-29"}', "bad_format", NO_DATE, "d"),
    (b'{"d":"1900-02-29"}', "bad_format", NO_DATE, "d"),
    (b'{"d":"2024-13-01"}', "bad_format", NO_DATE, "d"),
    (b'{"d":"2024-04-31"}', "bad_format", NO_DATE, "d"),
    (b'{"d":"\xd9\xa2\xd9\xa0\xd9\xa2\xd9\xa4-01-31"}', "bad_format", A_DATE, "d"),
    (b'{"t":"12:00:00"}', "bad_format", A_TIME, "t"),
    (b'{"t":"24:00:00Z"}', "bad_format", NO_TIME, "t"),
    (b'{"at":"2024-12-31T23:59:60Z"}', "bad_format", NO_TIME, "at"),
    (b'{"at":"2024-12-31T23:59:59"}', "bad_format", A_MOMENT, "at"),
    (b'{"at":"2024-12-31T23:59:59.Z"}', "bad_format", A_MOMENT, "at"),
    (b'{"at":"2024-12-31"}', "bad_format", A_MOMENT, "at"),
    (b'{"at":"2024-02-30T00:00:00Z"}', "bad_format", NO_DATE, "at"),
    (b'{"at":"2024-02-20T00:00:00+24:00"}', "bad_format", "the zone does not exist", "at"),
    (b'{"raw":"AAA"}', "bad_format", NO_BASE64, "raw"),
    (b'{"raw":"AA=="} ', "", "", ""),
    (b'{"raw":"AA-_"}', "bad_format", NO_BASE64, "raw"),
    (b'{"raw":"A==="}', "bad_format", NO_BASE64, "raw"),
    (b'{"any":' + b"[" * MOST_LEVELS + b"]" * MOST_LEVELS + b"}", "too_large",
     f"the payload nests values more than {MOST_LEVELS} levels deep", "any"),
]  # fmt: skip


@pytest.mark.parametrize(("payload", "reason", "detail", "path"), REJECTS, ids=[repr(each[0])[:40] for each in REJECTS])
def test_each_rule_has_a_reason_a_text_and_a_path(
    engine: Engine, payload: bytes, reason: str, detail: str, path: str
) -> None:
    decoded = open_decoder(row_of(ROW), engine).decode(binary([payload]))

    found = [(reject.reason.value, reject.detail, reject.path) for reject in decoded.rejects]
    assert found == ([(reason, detail, path)] if reason else [])


INTEGER, MOMENT = {"type": "integer"}, {"type": "string", "format": "date-time"}
VALUES: list[tuple[Json, str, object]] = [
    (INTEGER, "-9223372036854775808", -(2**63)),
    (INTEGER, "9223372036854775807", 2**63 - 1),
    (INTEGER, "-0", 0),
    (INTEGER, "1.0", 1),
    (INTEGER, "1200e-2", 12),
    (INTEGER, "0.0e99999999999999999999", 0),
    (INTEGER, "0.00012e5", 12),
    (INTEGER, "null", None),
    ({"type": "number"}, "12345678901234567890", 12345678901234567890.0),
    ({"type": "number"}, "0.1", 0.1),
    ({"type": "number"}, "1e-400", 0.0),
    ({"type": "number"}, "5e-324", 5e-324),
    ({"type": "number"}, "9007199254740993", 9007199254740992.0),
    ({"type": "string"}, r'"a\"\\\/\b\f\n\r\t\u00e9\ud83e\uddca"', 'a"\\/\b\f\n\r\té🧊'),
    ({"type": "string"}, '"Straße 🧊 and a long tail"', "Straße 🧊 and a long tail"),
    ({"type": "string", "format": "date"}, '"2024-02-29"', date(2024, 2, 29)),
    ({"type": "string", "format": "date"}, '"1969-12-31"', date(1969, 12, 31)),
    ({"type": "string", "format": "time"}, '"23:30:00.25-01:00"', time(0, 30, 0, 250_000)),
    (MOMENT, '"2024-12-31T23:59:59.123456789+01:00"', datetime(2024, 12, 31, 22, 59, 59, 123_456, UTC)),
    (MOMENT, '"1969-12-31 23:59:59.9999999z"', datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
    ({"type": "string", "contentEncoding": "base64"}, '"/+8="', b"\xff\xef"),
    (ROW["properties"]["money"], "-123.45", Decimal("-123.45")),
    (ROW["properties"]["money"], "1e2", Decimal("100.00")),
    (ROW["properties"]["money"], '"/w=="', Decimal("-0.01")),
    (ROW["properties"]["days"], "-1", date(1969, 12, 31)),
    (ROW["properties"]["ms"], "1", time(0, 0, 0, 1000)),
    (ROW["properties"]["stamp"], "-1", datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
    ({}, ' { "a" : [ 1.50 , "x \\n y" ] } ', '{"a":[1.50,"x \\n y"]}'),
    ({}, '"x"', '"x"'),
    ({}, "null", None),
    (fields(a=INTEGER), "{}", {"a": None}),
    (fields(a=INTEGER), "null", None),
    ({"type": "array", "items": INTEGER}, "[1,null]", [1, None]),
    ({"type": "object", "additionalProperties": INTEGER}, '{"b":1,"a":null}', [("b", 1), ("a", None)]),
]


@pytest.mark.parametrize(("schema", "text", "value"), VALUES, ids=[each[1] for each in VALUES])
def test_values_become_those_of_columns(engine: Engine, schema: Json, text: str, value: object) -> None:
    decoded = open_decoder(row_of(fields(v=schema)), engine).decode(binary([b'{"v":' + text.encode() + b"}"]))

    assert decoded.rejects == ()
    assert decoded.rows.column("v").to_pylist() == [value]


def test_only_newer_drafts_take_a_fraction_of_zero_as_an_integer(engine: Engine) -> None:
    payloads = binary([b'{"n":1.0}', b'{"n":1e2}', b'{"n":1}'])

    old = open_decoder(row_of({"$schema": DRAFT_4, **fields(n=INTEGER)}), engine).decode(payloads)
    new = open_decoder(row_of(fields(n=INTEGER)), engine).decode(payloads)

    detail = "expected an integer, found a number with a fraction or an exponent"
    assert [(each.index, each.reason.value, each.detail) for each in old.rejects] == [
        (0, "wrong_type", detail),
        (1, "wrong_type", detail),
    ]
    assert new.rows.column("n").to_pylist() == [1, 100, 1]


def test_digits_below_the_microsecond_are_counted_where_they_are_not_zero(engine: Engine) -> None:
    schema = fields(at=MOMENT, all={"type": "array", "items": {"type": "string", "format": "time"}})
    payload = b'{"at":"2024-01-01T00:00:00.1234560Z","all":["00:00:00.0000001Z","00:00:00.0000009Z"]}'

    decoded = open_decoder(row_of(schema), engine).decode(binary([payload, b'{"at":"2024-01-01T00:00:00.1234567Z"']))

    assert (decoded.truncated_nanos, len(decoded.rejects)) == (2, 1)


def test_undeclared_fields_are_kept_by_their_path(engine: Engine) -> None:
    line = fields(n=INTEGER)
    schema = fields(
        id=INTEGER, o=line, list={"type": "array", "items": line}, map={"type": "object", "additionalProperties": line}
    )
    payload = b"""{"id":1, "new": {"a" : 1}, "o":{"x":null},
      "list":[{"n":1},{"n":2,"y":"z"}], "map":{"a.b":{"\\u0071":true}}, "":0, "dot.ted":[ ]}"""

    decoded = open_decoder(row_of(schema), engine).decode(binary([payload, b'{"id":2}', b'{"id":3,"x":1,"x":2}']))

    (kept, none) = decoded.rows.column("_extra").to_pylist()
    assert kept == ('{"new":{"a":1},"o.x":null,"list[1].y":"z","map.\\"a.b\\".q":true,"\\"\\"":0,"\\"dot.ted\\"":[]}')
    assert none is None
    assert (decoded.undeclared, len(decoded.rejects)) == (6, 1)


def test_a_payload_that_expands_too_much_is_refused(engine: Engine) -> None:
    """Each undeclared field repeats the path to it, which the payload has only once."""
    schema = fields(map={"type": "object", "additionalProperties": fields(n=INTEGER)})
    long_key = b"k" * 3_000_000
    extra = b",".join(b'"%x":1' % number for number in range(100))
    payload = b'{"map":{"%b":{%b}}}' % (long_key, extra)

    decoded = open_decoder(row_of(schema), engine).decode(binary([payload, b"{}"]))

    assert [(each.index, each.reason.value, each.path) for each in decoded.rejects] == [(0, "too_large", "map{}")]
    assert decoded.rejects[0].detail == f"the payload expands to more than {MOST_SLOTS} values in columns"


def test_a_call_ends_before_its_rows_take_too_much_memory() -> None:
    """An empty object takes 2 bytes in the payload, and a slot in every column."""
    row = row_of(fields(**{f"c{number}": INTEGER for number in range(9_000)}))

    decoded = open_decoder(row).decode(binary([b"{}"] * 5_000))

    assert 1 <= decoded.taken < 5_000
    assert decoded.rows.num_rows == decoded.taken
    assert decoded.rows.nbytes < 400_000_000


def test_a_property_without_a_column_shares_its_name_with_none(engine: Engine) -> None:
    row = row_of({"type": "object", "properties": {"a_b": INTEGER, "a-b": {"type": "null"}}})

    decoded = open_decoder(row, engine).decode(binary([b'{"a_b":1,"a-b":null}']))

    assert decoded.rows.column("a_b").to_pylist() == [1]


def test_a_value_that_is_no_object_is_the_column_value(engine: Engine) -> None:
    decoded = open_decoder(row_of({"type": "array", "items": INTEGER}), engine).decode(
        binary([b"[1]", b"null", b"{}", b"[] x"])
    )

    assert decoded.rows.to_pylist() == [{"value": [1]}, {"value": None}]
    assert [each.reason.value for each in decoded.rejects] == ["wrong_type", "trailing_bytes"]


def test_the_bytes_before_the_payload_are_skipped(engine: Engine) -> None:
    decoded = open_decoder(row_of(fields(n=INTEGER)), engine).decode(binary([b'\0\0\0\0\7{"n":1}', b"\0\0"]), skip=5)

    assert decoded.rows.column("n").to_pylist() == [1]
    assert [each.reason.value for each in decoded.rejects] == ["truncated"]


@pytest.mark.parametrize("text", [b'{"price":"1234"}', b'{"price":"19.99"}'])
def test_a_declared_decimal_is_a_number_and_no_text(engine: Engine, text: bytes) -> None:
    found = open_decoder(declared_row('{"price": "decimal(9, 2)"}'), engine).decode(binary([text, b'{"price":19.99}']))

    assert [str(each) for each in found.rejects] == ["wrong_type at price: expected a number, found a text"]
    assert found.rows.column("price").to_pylist() == [Decimal("19.99")]
