"""What the specification forbids is refused by both decoders, with the same words, and nothing else is."""

from __future__ import annotations

import pytest
from avro_samples import Json, held, parsed, record_of, zigzag

from frazil.formats.avro.open import open_decoder
from frazil.formats.avro.rules import MOST_EMPTY_ITEMS, MOST_LEVELS, examine
from frazil.formats.faults import Fault
from frazil.formats.limits import MOST_SLOTS
from frazil.formats.native import Engine
from frazil.model.dead_letter import Reason, Reject
from frazil.records import binary

DECIMAL: Json = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
FIXED_DECIMAL: Json = {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 3}
ENUM: Json = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
ARRAY: Json = {"type": "array", "items": "int"}
MAP: Json = {"type": "map", "values": "int"}
CHOICE: Json = ["null", "int", "string"]
MILLIS = (2**63 - 1) // 1000
"""The greatest timestamp-millis whose microseconds fit in 64 bits."""


def logical(base: str, name: str) -> Json:
    return {"type": base, "logicalType": name}


BROKEN = [
    ("boolean", b"\x02", Reason.BAD_BOOLEAN, "expected a boolean of 0 or 1, found the byte 2", "f0"),
    ("boolean", b"", Reason.TRUNCATED, "expected 1 more byte, found 0", "f0"),
    ("int", b"\xff\xff\xff\xff\x10", Reason.BAD_VARINT, "an int has more than 32 bits", "f0"),
    ("int", zigzag(2**39), Reason.BAD_VARINT, "an int takes more than 5 bytes", "f0"),
    ("int", b"\x80", Reason.TRUNCATED, "the payload ends inside an int", "f0"),
    ("long", b"\xff" * 10 + b"\x01", Reason.BAD_VARINT, "a long takes more than 10 bytes", "f0"),
    ("long", b"\xff" * 9 + b"\x02", Reason.BAD_VARINT, "a long has more than 64 bits", "f0"),
    ("long", b"\xff" * 4, Reason.TRUNCATED, "the payload ends inside a long", "f0"),
    ("float", b"\0\0\0", Reason.TRUNCATED, "expected 4 more bytes, found 3", "f0"),
    ("double", b"", Reason.TRUNCATED, "expected 8 more bytes, found 0", "f0"),
    ("bytes", zigzag(-1), Reason.BAD_LENGTH, "the length of the value is negative: -1", "f0"),
    (
        "string",
        zigzag(2**40) + b"a",
        Reason.BAD_LENGTH,
        f"the value is {2**40} bytes long, but the payload has 1 left",
        "f0",
    ),
    ("string", zigzag(3) + b"a\xff\xfe", Reason.BAD_UTF8, "the string is not valid UTF-8 at byte 1", "f0"),
    ("string", zigzag(3) + b"\xed\xa0\x80", Reason.BAD_UTF8, "the string is not valid UTF-8 at byte 0", "f0"),
    ("long", b"\x02\x00\x00", Reason.TRAILING_BYTES, "expected the end of the payload, found 2 more bytes", ""),
    (
        ["null", "int"],
        zigzag(2),
        Reason.BAD_INDEX,
        "expected a branch index of at least 0 and less than 2, found 2",
        "f0",
    ),
    (
        ["null", "int"],
        zigzag(-1),
        Reason.BAD_INDEX,
        "expected a branch index of at least 0 and less than 2, found -1",
        "f0",
    ),
    (["null", "int"], b"\x02", Reason.TRUNCATED, "the payload ends inside an int", "f0"),
    (CHOICE, zigzag(-2), Reason.BAD_INDEX, "expected a branch index of at least 0 and less than 3, found -2", "f0"),
    (CHOICE, b"\x04\x02\xff", Reason.BAD_UTF8, "the string is not valid UTF-8 at byte 0", "f0.string"),
    (ENUM, zigzag(2), Reason.BAD_INDEX, "expected a symbol index of at least 0 and less than 2, found 2", "f0"),
    (ENUM, zigzag(-1), Reason.BAD_INDEX, "expected a symbol index of at least 0 and less than 2, found -1", "f0"),
    (
        ARRAY,
        zigzag(2**40),
        Reason.BAD_LENGTH,
        f"the block has {2**40} items, but the payload has 0 bytes left",
        "f0",
    ),
    (
        ARRAY,
        zigzag(-(2**63)) + b"\0",
        Reason.BAD_LENGTH,
        f"the block has {2**63} items, but the payload has 0 bytes left",
        "f0",
    ),
    (ARRAY, zigzag(-1) + zigzag(-1), Reason.BAD_LENGTH, "the length of the block is negative: -1", "f0"),
    (
        ARRAY,
        zigzag(-1) + zigzag(9) + b"\0\0",
        Reason.BAD_LENGTH,
        "the block is 9 bytes long, but the payload has 2 left",
        "f0",
    ),
    (
        ARRAY,
        zigzag(-1) + zigzag(2) + b"\0\0",
        Reason.BAD_LENGTH,
        "the block is said to be 2 bytes long, but its items take 1",
        "f0",
    ),
    (ARRAY, b"\x02\xff\xff\xff\xff\xff", Reason.BAD_VARINT, "an int takes more than 5 bytes", "f0[]"),
    (MAP, b"\x02\x02\xff\x02\x00", Reason.BAD_UTF8, "the string is not valid UTF-8 at byte 0", "f0{key}"),
    (MAP, b"\x02\x02a\xff", Reason.TRUNCATED, "the payload ends inside an int", "f0{}"),
    (DECIMAL, b"\x00", Reason.OUT_OF_RANGE, "expected a decimal of at least 1 byte, found 0", "f0"),
    (DECIMAL, b"\x04\x03\xe8", Reason.OUT_OF_RANGE, "the decimal has more digits than its precision of 3", "f0"),
    (
        DECIMAL,
        b"\x28\x01" + b"\0" * 19,
        Reason.OUT_OF_RANGE,
        "the decimal has more digits than its precision of 3",
        "f0",
    ),
    (FIXED_DECIMAL, b"\xfc\x18", Reason.OUT_OF_RANGE, "the decimal has more digits than its precision of 3", "f0"),
    (
        logical("int", "time-millis"),
        zigzag(86_400_000),
        Reason.OUT_OF_RANGE,
        "expected a time-millis from 0 to 86399999, found 86400000",
        "f0",
    ),
    (
        logical("int", "time-millis"),
        zigzag(-1),
        Reason.OUT_OF_RANGE,
        "expected a time-millis from 0 to 86399999, found -1",
        "f0",
    ),
    (
        logical("long", "time-micros"),
        zigzag(86_400_000_000),
        Reason.OUT_OF_RANGE,
        "expected a time-micros from 0 to 86399999999, found 86400000000",
        "f0",
    ),
    (
        logical("long", "timestamp-millis"),
        zigzag(2**62),
        Reason.OUT_OF_RANGE,
        f"expected a timestamp-millis from {-MILLIS} to {MILLIS}, found {2**62}",
        "f0",
    ),
    (
        logical("long", "local-timestamp-millis"),
        zigzag(-MILLIS - 1),
        Reason.OUT_OF_RANGE,
        f"expected a timestamp-millis from {-MILLIS} to {MILLIS}, found {-MILLIS - 1}",
        "f0",
    ),
]


@pytest.mark.parametrize(("avro", "payload", "reason", "detail", "path"), BROKEN)
def test_a_broken_rule_is_a_reject(
    avro: Json, payload: bytes, reason: Reason, detail: str, path: str, engine: Engine
) -> None:
    decoded = open_decoder(parsed(record_of(avro)), engine).decode(binary([payload]))

    assert decoded.rejects == (Reject(0, reason, detail, path),)
    assert decoded.rows.num_rows == 0


ALLOWED = [
    ("int", b"\xff\xff\xff\xff\x0f", -(2**31)),
    ("int", b"\x82\x00", 1),
    ("long", b"\xff" * 9 + b"\x01", -(2**63)),
    (["null", "int"], b"\x80\x00", None),
    (ARRAY, b"\x02\x02\x01\x02\x04\x00", [1, 2]),
    (MAP, b"\x04\x02a\x02\x02a\x04\x00", [("a", 2)]),
    (FIXED_DECIMAL, b"\x03\xe7", 999),
    (logical("int", "time-millis"), zigzag(86_399_999), 86_399_999_000),
    (logical("long", "timestamp-millis"), zigzag(9223372036854775), 9223372036854775000),
    (logical("int", "date"), zigzag(2**31 - 1), 2**31 - 1),
]


@pytest.mark.parametrize(("avro", "payload", "expected"), ALLOWED)
def test_what_the_specification_allows_is_a_row(avro: Json, payload: bytes, expected: object, engine: Engine) -> None:
    decoded = open_decoder(parsed(record_of(avro)), engine).decode(binary([payload]))

    assert decoded.rejects == ()
    assert held(decoded.rows.column(0)) == [expected]


def test_the_path_leads_through_records_arrays_and_unions() -> None:
    line = {"type": "record", "name": "Line", "fields": [{"name": "price", "type": ["null", "int", "boolean"]}]}
    order = {"type": "record", "name": "Order", "fields": [{"name": "items", "type": {"type": "array", "items": line}}]}
    schema = parsed({"type": "record", "name": "Row", "fields": [{"name": "order", "type": order}]})

    fault = examine(schema, b"\x02\x04\x07\x00")

    assert fault == Fault(
        Reason.BAD_BOOLEAN, "expected a boolean of 0 or 1, found the byte 7", "order.items[].price.boolean"
    )


def test_a_header_is_skipped_and_may_be_all_there_is(engine: Engine) -> None:
    decoder = open_decoder(parsed(record_of("int")), engine)

    decoded = decoder.decode(binary([b"\0\0\0\0\x01\x02", b"\0\0\0\0\x01", b"\0"]), skip=5)

    assert decoded.rows.to_pylist() == [{"f0": 1}]
    assert [(reject.index, reject.reason) for reject in decoded.rejects] == [
        (1, Reason.TRUNCATED),
        (2, Reason.TRUNCATED),
    ]


def test_recursion_in_a_payload_has_an_end() -> None:
    decoder = open_decoder(parsed(record_of("int", ["null", "Row"])))

    def chain(length: int) -> bytes:
        return b"\x02\x02" * (length - 1) + b"\x02\x00"

    decoded = decoder.decode(binary([chain(MOST_LEVELS), chain(MOST_LEVELS + 1), b"\x02\x02" * 500_000]))

    assert decoded.rows.num_rows == 1
    assert {reject.reason for reject in decoded.rejects} == {Reason.TOO_LARGE}


def test_nulls_cannot_ask_for_gigabytes(engine: Engine) -> None:
    wide = {**record_of(*["string"] * 1000), "name": "Wide"}
    decoder = open_decoder(parsed(record_of({"type": "array", "items": ["null", wide]})), engine)
    count = MOST_SLOTS // 1000 + 1

    decoded = decoder.decode(binary([zigzag(count) + b"\0" * count + b"\0"]))

    assert decoded.rejects == (
        Reject(0, Reason.TOO_LARGE, f"the payload expands to more than {MOST_SLOTS} values in columns", "f0"),
    )


def test_nulls_of_wide_fixed_values_cannot_ask_for_gigabytes(engine: Engine) -> None:
    """Arrow stores each in as many bytes as a value has."""
    wide = {"type": "fixed", "name": "Wide", "size": 80_000}
    in_arrays = open_decoder(parsed(record_of({"type": "array", "items": ["null", wide]})), engine)
    in_rows = open_decoder(parsed(record_of(["null", wide])), engine)
    in_one_row = open_decoder(parsed(record_of(*[["null", {**wide, "name": f"W{n}"}] for n in range(4000)])), engine)
    fits = MOST_SLOTS // 10_000

    assert (
        in_arrays.decode(binary([zigzag(fits + 1) + b"\0" * (fits + 1) + b"\0"])).rejects[0].reason is Reason.TOO_LARGE
    )
    assert in_rows.decode(binary([b"\0"] * (fits + 100))).taken == MOST_SLOTS // 9_999
    rejects = in_one_row.decode(binary([b"\0" * 4000] * 2)).rejects
    assert [(each.index, each.reason) for each in rejects] == [(0, Reason.TOO_LARGE), (1, Reason.TOO_LARGE)]


def test_long_symbols_cannot_ask_for_gigabytes(engine: Engine) -> None:
    """The index of a symbol takes a byte; a column holds its text in each row."""
    long = {"type": "enum", "name": "Long", "symbols": ["s" * 80_000]}
    in_arrays = open_decoder(parsed(record_of({"type": "array", "items": long})), engine)
    in_rows = open_decoder(parsed(record_of(long)), engine)
    fits = MOST_SLOTS // 10_000

    assert (
        in_arrays.decode(binary([zigzag(fits + 1) + b"\0" * (fits + 1) + b"\0"])).rejects[0].reason is Reason.TOO_LARGE
    )
    assert in_rows.decode(binary([b"\0"] * (fits + 100))).taken == MOST_SLOTS // 9_999


@pytest.mark.usefixtures("native")
def test_payloads_that_are_refused_late_end_a_call_as_others_do() -> None:
    """They have filled columns before, which takes time: a call is to end before many of them."""
    wide = {"type": "fixed", "name": "Wide", "size": 80_000}
    decoder = open_decoder(parsed(record_of({"type": "array", "items": ["null", wide]}, "boolean")), "native")
    count = MOST_SLOTS // 15_000
    late = zigzag(count) + b"\0" * count + b"\0" + b"\x07"

    decoded = decoder.decode(binary([late] * 3))

    assert [(each.index, each.reason) for each in decoded.rejects] == [(0, Reason.BAD_BOOLEAN)]
    assert decoded.taken == 1


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "E", "fields": []}])
def test_few_items_without_bytes_are_read(items: Json) -> None:
    decoder = open_decoder(parsed(record_of({"type": "array", "items": items})))
    halves = 2 * zigzag(MOST_EMPTY_ITEMS // 2)

    decoded = decoder.decode(binary([zigzag(MOST_EMPTY_ITEMS + 1) + b"\0", halves + b"\x02\0", halves + b"\0"]))

    detail = f"the payload has more than {MOST_EMPTY_ITEMS} items that take no bytes"
    assert decoded.rejects == tuple(Reject(n, Reason.TOO_LARGE, detail, "f0") for n in range(2))
    assert len(decoded.rows.column(0)[0]) == MOST_EMPTY_ITEMS


def test_decoding_ends_before_the_items_of_many_payloads_take_gigabytes(engine: Engine) -> None:
    wide = {**record_of(*["string"] * 1000), "name": "Wide"}
    decoder = open_decoder(parsed(record_of({"type": "array", "items": ["null", wide]})), engine)
    count = MOST_SLOTS // 2500
    given = [b"\x09", *[zigzag(count) + b"\0" * count + b"\0"] * 3]

    decoded = decoder.decode(binary(given))

    assert decoded.taken == {"native": 3, "fallback": 2}[engine]
    assert len(decoded.rejects) == 1
    assert decoder.decode(binary(given[-1:])).taken == 1
