"""Two decoders, one answer: rows, types and rejects are the same, and no payload gets either off balance."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
import random
import time
import uuid

import fastavro
import pyarrow as pa
import pytest
from avro_samples import (
    REPEATABLE,
    Json,
    Sampler,
    broken,
    held,
    parsed,
    record_of,
    rows_of,
    schemas,
    text_of,
    zigzag,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow

from frazil.adapters.iceberg.types import to_schema
from frazil.formats.arrow import arrow_schema
from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.native import native_decoder
from frazil.formats.avro.open import open_decoder
from frazil.formats.avro.shape import shape_of
from frazil.formats.native import Engine
from frazil.model.errors import IncompatibleSchemaError
from frazil.records import binary
from tests.sampling import examples

SEEDS = st.integers(0, 2**32)


def payloads(schema: Json, seed: int) -> tuple[list[bytes], list[bytes]]:
    """Some that are whole, and some made from these that mostly are not."""
    rng = random.Random(seed)
    sampler = Sampler(parsed(schema), rng)
    whole = [sampler.payload() for _ in range(6)]
    return whole, [broken(payload, rng) for payload in whole for _ in range(4)]


@pytest.mark.usefixtures("native")
@settings(REPEATABLE, max_examples=examples(100, 5000))
@given(schemas(), SEEDS)
def test_both_decoders_agree_on_whatever_they_are_given(schema: Json, seed: int) -> None:
    avro = parsed(schema)
    assume(native_decoder(shape_of(avro)[0]) is not None)  # values of no bytes in a union or an array
    native, fallback = open_decoder(avro, "native"), open_decoder(avro, "fallback")
    whole, mixed = payloads(schema, seed)

    for given_payloads in (whole, mixed, whole + mixed):
        ours, theirs = native.decode(binary(given_payloads)), fallback.decode(binary(given_payloads))

        assert ours.rejects == theirs.rejects
        assert ours.truncated_nanos == theirs.truncated_nanos
        assert rows_of(ours.rows) == rows_of(theirs.rows)
        assert ours.rows.schema.equals(theirs.rows.schema, check_metadata=True)
        ours.rows.validate(full=True)


@settings(REPEATABLE, max_examples=examples(50, 2000))
@given(schemas(recursive=True), SEEDS)
def test_every_whole_payload_is_a_row(schema: Json, seed: int) -> None:
    avro = parsed(schema)
    mapped = map_schema(avro)
    assume(not mapped.findings)  # a record that never ends
    whole, mixed = payloads(schema, seed)

    for engine in ("fallback", None):
        decoder = open_decoder(avro, engine)
        assert decoder.decode(binary(whole)).rejects == ()
        decoded = decoder.decode(binary(mixed))
        assert decoded.rows.num_rows == len(mixed) - len(decoded.rejects)
        assert decoded.rows.schema.equals(arrow_schema(mapped.columns), check_metadata=True)


def kinds(kind: pa.DataType) -> object:
    """Return the type without the names and ids of the fields in it."""
    inside = [kinds(kind.field(index).type) for index in range(kind.num_fields)]
    return (kind.id, inside) if pa.types.is_nested(kind) else kind


@settings(REPEATABLE, max_examples=examples(100, 2000))
@given(schemas(recursive=True))
def test_decoded_columns_have_the_types_of_the_tables_files(schema: Json) -> None:
    """A column of another type would be copied for each chunk and each writer schema."""
    mapped = map_schema(parsed(schema))
    assume(not mapped.findings)
    stored = schema_to_pyarrow(to_schema(mapped.columns))

    for engine in ("fallback", None):
        rows = open_decoder(parsed(schema), engine).decode(binary([])).rows

        assert [kinds(each) for each in rows.schema.types] == [kinds(each) for each in stored.types]


def logical(base: str, name: str, **more: Json) -> Json:
    return {"type": base, "logicalType": name, **more}


def fixed(size: int, **more: Json) -> Json:
    return {"type": "fixed", "name": "F", "size": size, **more}


def record(name: str, *types: Json) -> Json:
    return {**record_of(*types), "name": name}


ROUND_TRIPS: list[tuple[Json, object, object]] = [
    ("boolean", True, True),
    ("int", -5, -5),
    ("long", 2**63 - 1, 2**63 - 1),
    ("float", 1.5, "1.5"),
    ("double", 1e300, "1e+300"),
    ("string", "Straße 🧊", "Straße 🧊"),
    ("bytes", b"\xff\0", b"\xff\0"),
    (fixed(3), b"abc", b"abc"),
    (logical("bytes", "decimal", precision=10, scale=2), decimal.Decimal("-123.45"), decimal.Decimal("-123.45")),
    (logical("bytes", "decimal", precision=38), decimal.Decimal("9" * 38), decimal.Decimal("9" * 38)),
    (
        fixed(16, logicalType="decimal", precision=30, scale=4),
        decimal.Decimal("-1.5000"),
        decimal.Decimal("-1.5000"),
    ),
    (logical("string", "uuid"), uuid.UUID(int=5), str(uuid.UUID(int=5))),
    (fixed(16, logicalType="uuid"), uuid.UUID(int=5).bytes, uuid.UUID(int=5)),
    (logical("int", "date"), dt.date(1970, 1, 11), 10),
    (logical("int", "time-millis"), dt.time(0, 0, 3), 3_000_000),
    (logical("long", "time-micros"), dt.time(0, 0, 3, 4), 3_000_004),
    (logical("long", "timestamp-millis"), 1_790_000_000_123, 1_790_000_000_123_000),
    (logical("long", "timestamp-micros"), 1_790_000_000_123_456, 1_790_000_000_123_456),
    (logical("long", "local-timestamp-millis"), -1, -1000),
    (logical("long", "local-timestamp-micros"), -1, -1),
    (fixed(12, logicalType="duration"), b"\1\0\0\0\2\0\0\0\3\0\0\0", b"\1\0\0\0\2\0\0\0\3\0\0\0"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    (["string", "null"], None, None),
    (["string"], "x", "x"),
    (["null", "string", "long"], 7, {"string": None, "long": 7}),
    (["null", "string", "long"], None, None),
    (["null", record("A", "int"), record("B", "long")], ("B", {"f0": 3}), {"A": None, "B": {"f0": 3}}),
    ({"type": "array", "items": ["null", "string"]}, ["a", None], ["a", None]),
    ({"type": "map", "values": "long"}, {"a": 1, "b": 2}, [("a", 1), ("b", 2)]),
    ({"type": "map", "values": fixed(16, logicalType="uuid")}, {"a": b"\0" * 16}, [("a", uuid.UUID(int=0))]),
    (record("N", "int", ["null", fixed(2)]), {"f0": 1, "f1": b"ab"}, {"f0": 1, "f1": b"ab"}),
    (["null", record("N", {"type": "array", "items": "int"})], None, None),
]


@pytest.mark.parametrize(("avro", "written", "expected"), ROUND_TRIPS)
def test_what_fastavro_writes_is_read(avro: Json, written: object, expected: object, engine: Engine) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text_of(record_of(avro)))), {"f0": written})

    decoded = open_decoder(parsed(record_of(avro)), engine).decode(binary([out.getvalue()] * 2))

    assert decoded.rejects == ()
    assert held(decoded.rows.column("f0")) == [expected, expected]


def test_nanoseconds_are_cut_downwards_and_counted(engine: Engine) -> None:
    nanos = ["null", logical("long", "timestamp-nanos")]
    decoder = open_decoder(parsed(record_of(nanos, logical("long", "local-timestamp-nanos"))), engine)

    decoded = decoder.decode(binary([b"\x02" + zigzag(-1) + zigzag(2001), b"\x00" + zigzag(-3000)]))

    assert held(decoded.rows.column(0)) == [-1, None]
    assert held(decoded.rows.column(1)) == [2, -3]
    assert decoded.truncated_nanos == 2


def test_times_beyond_the_year_9999_survive(engine: Engine) -> None:
    types = [logical("int", "date"), logical("long", "timestamp-micros"), logical("long", "local-timestamp-micros")]
    far = [2**31 - 1, -(2**63), 2**63 - 1]

    decoded = open_decoder(parsed(record_of(*types)), engine).decode(binary([b"".join(map(zigzag, far))]))

    assert [held(column)[0] for column in decoded.rows.columns] == far


def test_below_the_cut_a_record_is_json_text() -> None:
    money = logical("bytes", "decimal", precision=4, scale=2)
    decoder = open_decoder(parsed(record_of(money, ["null", "Row", "bytes"])))
    leaf = b"\x04\x01\x00" + b"\x04\x04\xff\x00"

    row = decoder.decode(binary([b"\x02\x01\x02" * 3 + leaf])).rows.to_pylist()[0]

    text = row["f1"]["Row"]["f1"]["Row"]["f1"]["Row"]
    assert json.loads(text) == {"f0": "2.56", "f1": {"bytes": "/wA="}}


@pytest.mark.parametrize(("column", "value"), [("long", b"\x02"), (["null", "long"], b"\x02\x02")])
def test_what_is_no_record_is_in_the_column_value(column: Json, value: bytes, engine: Engine) -> None:
    decoded = open_decoder(parsed(column), engine).decode(binary([value, b""]))

    assert decoded.rows.to_pylist() == [{"value": 1}]
    assert [reject.path for reject in decoded.rejects] == ["value"]


def test_a_decoder_is_as_good_as_new_after_rejects(engine: Engine) -> None:
    decoder = open_decoder(parsed(record_of("string", ["null", "int"])), engine)
    good, bad = b"\x02a\x00", b"\x02a\x09"

    decoder.decode(binary([good, bad, good[:1]]))
    decoded = decoder.decode(binary([good] * 3000))

    assert (decoded.rows.num_rows, decoded.rejects) == (3000, ())
    assert decoder.decode(binary([])).rows.schema.equals(decoder.schema, check_metadata=True)


def test_random_bytes_are_refused_in_seconds(engine: Engine) -> None:
    types = ["string", {"type": "array", "items": {"type": "map", "values": "bytes"}}, ["null", "double"], "long"]
    decoder = open_decoder(parsed(record_of(*types)), engine)
    rng = random.Random(7)
    noise = [rng.randbytes(rng.randrange(60)) for _ in range(100_000)]

    started = time.process_time()
    decoded = decoder.decode(binary(noise))

    assert decoded.rows.num_rows + len(decoded.rejects) == len(noise)
    assert time.process_time() - started < 15


@pytest.mark.usefixtures("native")
def test_the_native_decoder_leaves_recursion_and_great_depth_alone() -> None:
    deep: Json = "int"
    for level in range(40):
        deep = record(f"R{level}", deep)

    for schema in (record_of(["null", "Row"], "int"), deep):
        shape, findings = shape_of(parsed(schema))
        assert (findings, native_decoder(shape)) == ((), None)


def test_a_schema_that_no_table_can_hold_opens_no_decoder() -> None:
    with pytest.raises(
        IncompatibleSchemaError, match="f0: a decimal of 39 digits, more than 38; f1: a fixed of 0 bytes"
    ):
        open_decoder(parsed(record_of(logical("bytes", "decimal", precision=39), fixed(0))))


@pytest.mark.usefixtures("native")
def test_values_under_a_null_do_not_count() -> None:
    """Null slots hold anything: they must not overflow, be counted, or be looked up."""
    inner = record("N", logical("long", "timestamp-nanos"), {"type": "enum", "name": "E", "symbols": ["A"]})
    decoder = open_decoder(parsed(record_of(["null", inner])), "native")

    decoded = decoder.decode(binary([b"\x00"] * 10))

    assert decoded.rows.column(0).null_count == 10
    assert decoded.truncated_nanos == 0
    assert isinstance(decoded.rows.column(0), pa.StructArray)


EMPTY = {"type": "record", "name": "E", "fields": []}
PRESENT = {"present": True}
PRESENCES: list[tuple[Json, list[bytes], list[object]]] = [
    (["null", EMPTY], [b"\x00", b"\x02"], [None, PRESENT]),
    (
        [EMPTY, "null", "int"],
        [b"\x00", b"\x02", b"\x04\x0a"],
        [{"E": PRESENT, "int": None}, None, {"E": None, "int": 5}],
    ),
    (
        ["int", EMPTY, {"type": "record", "name": "F", "fields": [{"name": "n", "type": "null"}]}],
        [b"\x00\x0a", b"\x02", b"\x04"],
        [
            {"int": 5, "E": None, "F": None},
            {"int": None, "E": PRESENT, "F": None},
            {"int": None, "E": None, "F": PRESENT},
        ],
    ),
    ({"type": "array", "items": EMPTY}, [b"\x04\x00", b"\x00"], [[PRESENT] * 2, []]),
    ({"type": "array", "items": "null"}, [b"\x04\x00", b"\x00"], [[None] * 2, []]),
    ({"type": "map", "values": EMPTY}, [b"\x02\x02a\x00"], [[("a", PRESENT)]]),
    ({"type": "array", "items": ["null", EMPTY]}, [b"\x04\x00\x02\x00"], [[None, PRESENT]]),
]


@pytest.mark.parametrize(("avro", "sent", "values"), PRESENCES, ids=[str(n) for n in range(len(PRESENCES))])
def test_of_a_value_without_data_its_presence_is_kept(avro: Json, sent: list[bytes], values: list[object]) -> None:
    decoded = open_decoder(parsed(record_of(avro))).decode(binary(sent))

    decoded.rows.validate(full=True)
    assert (rows_of(decoded.rows), decoded.rejects) == ({"f0": values}, ())


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("engine", ["native", "fallback"])
def test_fields_without_data_are_left_out_and_those_around_them_are_read(engine: Engine) -> None:
    inner = {**record_of("E"), "name": "F"}
    fields = record_of("int", "null", EMPTY, inner, {**record_of("E", "string"), "name": "G"})

    decoded = open_decoder(parsed(fields), engine).decode(binary([b"\x0a\x02x", b"\x0b", b"\x0a\x02x\x00"]))

    assert rows_of(decoded.rows) == {"f0": [5], "f4": [{"f1": "x"}]}
    assert [(reject.reason.value, reject.path) for reject in decoded.rejects] == [
        ("truncated", "f4.f1"), ("trailing_bytes", ""),
    ]  # fmt: skip


def test_a_union_of_nothing_but_null_takes_its_byte() -> None:
    decoded = open_decoder(parsed(record_of(["null"], [EMPTY], "int"))).decode(
        binary([b"\x00\x00\x0a", b"\x02\x00\x0a"])
    )

    assert rows_of(decoded.rows) == {"f2": [5]}
    assert [(reject.reason.value, reject.path) for reject in decoded.rejects] == [("bad_index", "f0")]


def test_rows_without_a_column_are_counted() -> None:
    decoded = open_decoder(parsed(record_of("null"))).decode(binary([b"", b"", b"\x00"]))

    assert (decoded.rows.num_rows, decoded.rows.num_columns, len(decoded.rejects)) == (2, 0, 1)


def test_a_small_payload_does_not_hold_many_values_without_data() -> None:
    huge = zigzag(2**40) + b"\x00"

    decoded = open_decoder(parsed(record_of({"type": "array", "items": EMPTY}))).decode(binary([huge]))

    assert [reject.reason.value for reject in decoded.rejects] == ["too_large"]


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("engine", ["native", "fallback"])
def test_names_of_any_script_are_read(engine: Engine) -> None:
    symbols = {"type": "enum", "name": "a-b.Farbe", "symbols": ["grün", "青"]}
    schema = {"type": "record", "name": "R", "namespace": "my-team", "fields": [
        {"name": "größe", "type": "int"}, {"name": "farbe", "type": ["int", symbols]},
        {"name": "色", "type": "a-b.Farbe"},
    ]}  # fmt: skip

    decoded = open_decoder(parsed(schema), engine).decode(binary([b"\x0a\x02\x02\x00", b"\x0a\x02\x04\x00"]))

    assert rows_of(decoded.rows) == {"größe": [5], "farbe": [{"int": None, "Farbe": "青"}], "色": ["grün"]}
    assert [(reject.reason.value, reject.path) for reject in decoded.rejects] == [("bad_index", "farbe.Farbe")]
