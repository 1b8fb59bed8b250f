"""What the wire format forbids is refused by both decoders, with the same words, and nothing else is."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from protobuf_samples import FIRST, proto3, rejects, rows, sized, tagged, varint

from frazil.formats.limits import MOST_SLOTS
from frazil.formats.native import Engine
from frazil.formats.protobuf.open import open_decoder
from frazil.formats.protobuf.schema import parse_schema
from frazil.formats.protobuf.wire import MOST_LEVELS
from frazil.model.dead_letter import Reason, Reject
from frazil.records import binary

TIMES = (
    "google/protobuf/timestamp.proto", "google/protobuf/duration.proto", "google/type/date.proto",
    "google/type/timeofday.proto", "confluent/type/decimal.proto",
)  # fmt: skip
BODY = """
    int32 i = 1; string s = 2; repeated int32 n = 3; M m = 4; map<string, M> e = 5; repeated M l = 6; fixed32 f = 7;
    double d = 8; message M { string t = 1; M deep = 2; } oneof o { M a = 9; int32 b = 10; }
    google.protobuf.Timestamp at = 11; google.protobuf.Duration took = 12; google.type.Date day = 13;
    google.type.TimeOfDay time = 14; bytes raw = 16; repeated string ts = 17;
    confluent.type.Decimal dec = 15 [(confluent.field_meta).params = [{key: "precision", value: "3"},
      {key: "scale", value: "1"}]];
"""


def of(number: int, *fields: bytes) -> bytes:
    return sized(number, b"".join(fields))


def whole(number: int, value: int) -> bytes:
    return tagged(number, 0, varint(value % 2**64))


TRUNCATED, BAD_VARINT, BAD_TAG = Reason.TRUNCATED, Reason.BAD_VARINT, Reason.BAD_TAG
BAD_LENGTH, BAD_UTF8, OUT = Reason.BAD_LENGTH, Reason.BAD_UTF8, Reason.OUT_OF_RANGE
DIGITS = "the decimal has more digits than its precision of 3"
BROKEN = [
    (b"\x08", TRUNCATED, "the message ends inside a varint", "i"),
    (b"\x08" + b"\xff" * 10 + b"\x01", BAD_VARINT, "a varint takes more than 10 bytes", "i"),
    (b"\x08" + b"\xff" * 9 + b"\x02", BAD_VARINT, "a varint has more than 64 bits", "i"),
    (b"\xff", TRUNCATED, "the message ends inside a tag", ""),
    (b"\xff" * 5 + b"\x01", BAD_VARINT, "a tag takes more than 5 bytes", ""),
    (b"\xff" * 4 + b"\x10", BAD_VARINT, "a tag has more than 32 bits", ""),
    (b"\x00\x01", BAD_TAG, "the field number is 0", ""),
    (b"\x0e\x01", BAD_TAG, "the wire type 6 of field 1 does not exist", ""),
    (b"\x0a\x00", BAD_TAG, "expected the wire type 0 (varint), found 2 (length-delimited)", "i"),
    (b"\x0c", BAD_TAG, "expected the wire type 0 (varint), found 4 (end of a group)", "i"),
    (b"\x10\x00", BAD_TAG, "expected the wire type 2 (length-delimited), found 0 (varint)", "s"),
    (tagged(3, 5, b"\0\0\0\0"), BAD_TAG, "expected the wire type 0 (varint), found 5 (32-bit)", "n"),
    (tagged(5, 0, b"\0"), BAD_TAG, "expected the wire type 2 (length-delimited), found 0 (varint)", "e"),
    (tagged(40, 4, b""), BAD_TAG, "the end of a group 40 that did not begin", ""),
    (tagged(40, 3, tagged(41, 4, b"")), BAD_TAG, "the end of a group 41 that did not begin", ""),
    (tagged(40, 3, b""), TRUNCATED, "the message ends inside the group 40", ""),
    (tagged(40, 1, b"\0" * 7), TRUNCATED, "expected 8 more bytes, found 7", ""),
    (tagged(7, 5, b"\0"), TRUNCATED, "expected 4 more bytes, found 1", "f"),
    (tagged(8, 1, b""), TRUNCATED, "expected 8 more bytes, found 0", "d"),
    (b"\x12\x05a", BAD_LENGTH, "the value is 5 bytes long, but the message has 1 left", "s"),
    (b"\x12" + b"\xff" * 5, BAD_VARINT, "a length takes more than 5 bytes", "s"),
    (sized(2, b"a\xff"), BAD_UTF8, "the string is not valid UTF-8 at byte 1", "s"),
    (sized(2, b"\xff") + sized(2, b"a"), BAD_UTF8, "the string is not valid UTF-8 at byte 0", "s"),
    (sized(17, b"\xff"), BAD_UTF8, "the string is not valid UTF-8 at byte 0", "ts[]"),
    (sized(3, b"\x01\xff"), TRUNCATED, "the message ends inside a varint", "n[]"),
    (of(4, b"\x0a\x02a"), BAD_LENGTH, "the value is 2 bytes long, but the message has 1 left", "m.t"),
    (of(4, of(2, b"\x08\x00")), BAD_TAG, "expected the wire type 2 (length-delimited), found 0 (varint)", "m.deep.t"),
    (of(6, sized(1, b"\xff")), BAD_UTF8, "the string is not valid UTF-8 at byte 0", "l[].t"),
    (of(5, sized(1, b"\xff")), BAD_UTF8, "the string is not valid UTF-8 at byte 0", "e{key}"),
    (of(5, of(2, sized(1, b"\xff"))), BAD_UTF8, "the string is not valid UTF-8 at byte 0", "e{}.t"),
    (of(5, b"\x10\x00"), BAD_TAG, "expected the wire type 2 (length-delimited), found 0 (varint)", "e{}"),
    (of(9, sized(1, b"\xff")) + whole(10, 1), BAD_UTF8, "the string is not valid UTF-8 at byte 0", "a.t"),
    (of(11, whole(1, 2**62)), OUT, f"expected a value from -62135596800 to 253402300799, found {2**62}", "at.seconds"),
    (of(11, whole(2, -1)), OUT, "expected a value from 0 to 999999999, found -1", "at.nanos"),
    (of(11, sized(2, b"")), BAD_TAG, "expected the wire type 0 (varint), found 2 (length-delimited)", "at.nanos"),
    (of(12, whole(1, 1), whole(2, -1)), OUT, "1 seconds and -1 nanos have different signs", "took"),
    (of(13), OUT, "expected a value from 1 to 9999, found 0", "day.year"),
    (of(13, whole(1, 2023), whole(2, 13)), OUT, "expected a value from 1 to 12, found 13", "day.month"),
    (of(13, whole(1, 2023), whole(2, 2), whole(3, 29)), OUT, "expected a value from 1 to 28, found 29", "day.day"),
    (of(13, whole(1, 9999), whole(2, 12), whole(3, 32)), OUT, "expected a value from 1 to 31, found 32", "day.day"),
    (of(14, whole(1, 24)), OUT, "expected a value from 0 to 23, found 24", "time.hours"),
    (of(15), OUT, "expected a decimal of at least 1 byte, found 0", "dec"),
    (of(15, sized(1, b"\x03\xe8"), whole(3, 1)), OUT, DIGITS, "dec"),
    (of(15, sized(1, b"\x01" + b"\0" * 16)), OUT, DIGITS, "dec"),
    (of(15, sized(1, b"\x01"), whole(3, -(2**31))), OUT, DIGITS, "dec"),
    (of(15, sized(1, b"\x01"), whole(3, 2)), OUT, "the decimal has digits below the scale of 1", "dec"),
    (of(15, sized(1, b"\x01"), whole(3, 2**31 - 1)), OUT, "the decimal has digits below the scale of 1", "dec"),
]


@pytest.mark.parametrize(("payload", "reason", "detail", "path"), BROKEN)
def test_a_broken_rule_is_a_reject(payload: bytes, reason: Reason, detail: str, path: str, engine: Engine) -> None:
    found = rejects(SCHEMA, engine, FIRST, FIRST + payload, FIRST)

    assert found == (Reject(1, reason, detail, path),)


SCHEMA = proto3(BODY.replace("M deep = 2; ", "T deep = 2; ") + " message T { string t = 1; }", *TIMES)

READ = [
    (whole(1, 1) + whole(1, 2), "i", 2),
    (whole(1, 2**32 + 5), "i", 5),
    (sized(3, b"\x01\x02") + whole(3, 3), "n", [1, 2, 3]),
    (sized(3, b""), "n", []),
    (of(4, sized(1, b"x")) + whole(1, 1) + of(4, of(2, sized(1, b"y"))), "m", {"t": "x", "deep": {"t": "y"}}),
    (of(4, of(2)) + of(4, of(2, sized(1, b"y"))), "m", {"t": "", "deep": {"t": "y"}}),
    (of(5, sized(1, b"k"), of(2, sized(1, b"x"))) * 2, "e", {"k": {"t": "x", "deep": None}}),
    (of(5), "e", {"": {"t": "", "deep": None}}),
    (of(5, of(2, sized(1, b"x")), of(2, of(2)), sized(9, b"?")), "e", {"": {"t": "x", "deep": {"t": ""}}}),
    (of(9, sized(1, b"x")) + whole(10, 3), "a", None),
    (whole(10, 3) + of(9, sized(1, b"x")), "b", None),
    (of(9, sized(1, b"x")) + whole(10, 3) + of(9), "a", {"t": "", "deep": None}),
    (of(9, sized(1, b"x")) + of(9), "a", {"t": "x", "deep": None}),
    (of(9, sized(1, b"x")) + of(9, of(2)) + whole(10, 3) + of(9), "a", {"t": "", "deep": None}),
    (
        of(4) + of(9) + of(4, of(2)) + whole(10, 3) + of(9, sized(1, b"x")) + of(9, of(2)),
        "a",
        {"t": "x", "deep": {"t": ""}},
    ),
    (tagged(40, 3, whole(1, 1) + tagged(41, 3, tagged(41, 4, b"")) + tagged(40, 4, b"")) + whole(1, 7), "i", 7),
    (tagged(2**29 - 1, 5, b"abcd") + whole(1, 7), "i", 7),
    (of(11, whole(1, 5)) + of(11, whole(2, 1000)), "at", 5_000_001),
    (of(15, sized(1, b"\x00"), whole(3, 2**31 - 1)), "dec", 0),
    (sized(16, b"\xff"), "raw", b"\xff"),
]


@pytest.mark.parametrize(("payload", "column", "expected"), READ)
def test_what_the_wire_format_allows_is_read(payload: bytes, column: str, expected: object, engine: Engine) -> None:
    (row,) = rows(SCHEMA, engine, FIRST + payload)

    found = row[column]
    assert (int(found.timestamp() * 1_000_000) if column == "at" else found) == expected


NESTED = """
    syntax = "proto3"; package shop;
    message Order { message Line { int32 n = 1; message Tax { int32 t = 1; } } map<string, int32> counts = 1; }
    message Refund { int32 n = 1; }
"""
PATHS = [
    (b"\x02\x02", "the record is a shop.Refund, expected a shop.Order.Line", Reason.WRONG_MESSAGE),
    (b"\x00", "the record is a shop.Order, expected a shop.Order.Line", Reason.WRONG_MESSAGE),
    (b"\x06\x00\x00\x00", "the record is a shop.Order.Line.Tax, expected a shop.Order.Line", Reason.WRONG_MESSAGE),
    (b"\x04\x00\x02", "the schema has no message with the index path [0, 1]", Reason.BAD_INDEX),
    (b"\x02\x01", "the schema has no message with the index path [-1]", Reason.BAD_INDEX),
    (b"\x01", "expected at most 100 message indexes, found -1", Reason.BAD_INDEX),
    (b"\xca\x01", "expected at most 100 message indexes, found 101", Reason.BAD_INDEX),
    (b"", "the message ends inside a message index", Reason.TRUNCATED),
    (b"\x04\x00", "the message ends inside a message index", Reason.TRUNCATED),
    (b"\xff" * 6, "a message index takes more than 5 bytes", Reason.BAD_VARINT),
]


@pytest.mark.parametrize(("path", "detail", "reason"), PATHS)
def test_a_record_of_another_message_is_a_reject(path: bytes, detail: str, reason: Reason, engine: Engine) -> None:
    schema = parse_schema(NESTED, message="shop.Order.Line")
    line = b"\x04\x00\x00\x08\x05"

    assert rows(schema, engine, line) == [{"n": 5}]
    assert rejects(schema, engine, line, path, line) == (Reject(1, reason, detail),)


def test_the_bytes_before_the_message_are_skipped(engine: Engine) -> None:
    decoder = open_decoder(proto3("int32 n = 1;"), engine)

    decoded = decoder.decode(binary([b"\0\0\0\0\x01\x02\x00\x08\x05", b"\0\0\0\0\x01", b"\0"]), skip=5)

    assert decoded.rows.column(0).to_pylist() == [5]
    assert [(each.index, each.reason) for each in decoded.rejects] == [(1, Reason.TRUNCATED), (2, Reason.TRUNCATED)]


@pytest.mark.parametrize("engine", ["native", "fallback"])
def test_groups_are_nested_as_deep_as_protobuf_allows(engine: Engine, native: None) -> None:
    schema = proto3("int32 n = 1;")

    def nested(levels: int) -> bytes:
        return FIRST + b"\x13" * levels + b"\x14" * levels

    detail = f"the payload nests messages more than {MOST_LEVELS} levels deep"
    assert rejects(schema, engine, nested(MOST_LEVELS)) == ()
    assert rejects(schema, engine, nested(MOST_LEVELS + 1)) == (Reject(0, Reason.TOO_LARGE, detail),)
    assert rejects(schema, engine, FIRST + b"\x13" * 100_000)[0].reason is Reason.TOO_LARGE


def in_rows(levels: int) -> bytes:
    return sized(1, in_rows(levels - 1)) if levels else b""


def in_structs(levels: int) -> bytes:
    """A Struct in an entry's Value in a Struct, and so on; the outermost is one level."""
    return sized(1, sized(2, sized(5, in_structs(levels - 3)))) if levels > 3 else b""


JSON_BODIES = [("Row next = 1;", in_rows), ("repeated Row next = 1;", in_rows),
               ("google.protobuf.Struct s = 1;", lambda levels: sized(1, in_structs(levels)))]  # fmt: skip


@pytest.mark.parametrize(("body", "nested"), JSON_BODIES)
def test_json_text_is_nested_as_deep_as_protobuf_allows(body: str, nested: Callable[[int], bytes]) -> None:
    schema = proto3(body, "google/protobuf/struct.proto")

    assert rejects(schema, "fallback", FIRST + nested(MOST_LEVELS)) == ()
    assert rejects(schema, "fallback", FIRST + nested(MOST_LEVELS + 3))[0].reason is Reason.TOO_LARGE


def test_items_that_fill_too_many_slots_are_a_reject(engine: Engine) -> None:
    wide = " ".join(f"int32 n{number} = {number};" for number in range(1, 2001))
    schema = proto3(f"repeated M l = 1; --- message M {{ {wide} }}")
    items = MOST_SLOTS // 2000 + 1
    detail = f"the payload expands to more than {MOST_SLOTS} values in columns"
    if engine == "fallback":  # reading as many in Python takes too long: one item that fills as much
        enum = f"repeated E l = 1 [packed = true]; --- enum E {{ {'A' * (8 * MOST_SLOTS // 1000 + 8)} = 0; }}"
        schema, items = proto3(enum), 1000
        assert rejects(schema, engine, FIRST + sized(1, b"\0" * items)) == (Reject(0, Reason.TOO_LARGE, detail, "l"),)
        return

    assert rejects(schema, engine, FIRST + b"\x0a\x00" * items) == (Reject(0, Reason.TOO_LARGE, detail, "l"),)


def test_a_call_ends_early_where_its_items_fill_too_many_slots() -> None:
    wide = " ".join(f"int32 n{number} = {number};" for number in range(1, 2001))
    decoder = open_decoder(proto3(f"repeated M l = 1; --- message M {{ {wide} }}"), "native")
    payload = FIRST + b"\x0a\x00" * (MOST_SLOTS // 2000 // 3)

    taken = decoder.decode(binary([payload] * 7)).taken

    assert taken == 3


def test_long_symbols_limit_the_rows_of_a_call(engine: Engine) -> None:
    symbol = "A" * 500_000
    decoder = open_decoder(proto3(f"E a = 1; --- enum E {{ {symbol} = 0; }}"), engine)

    decoded = decoder.decode(binary([FIRST] * 600))

    assert decoded.taken == MOST_SLOTS // (500_000 // 8 - 1)


def test_floats_keep_their_bits(engine: Engine) -> None:
    schema = proto3("float f = 1; double d = 2;")
    bits = tagged(1, 5, struct.pack("<f", -0.0)) + tagged(2, 1, struct.pack("<d", float("-inf")))

    (row,) = rows(schema, engine, FIRST + bits)

    assert (str(row["f"]), row["d"]) == ("-0.0", float("-inf"))
