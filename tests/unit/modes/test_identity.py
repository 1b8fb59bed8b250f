"""Identities of rows: golden bytes, what is equal and what is not, and the same from both implementations."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.arrow import array_of, arrow_schema
from frazil.formats.native import native_available
from frazil.model.columns import Column, ColumnType, Fixed, ListOf, MapOf, Scalar, Struct
from frazil.model.columns import Decimal as DecimalType
from frazil.modes.identity import FIRST, SECOND, identities, identities_in_python, without_identity

PAIR = Struct((Column("a", Scalar("int")), Column("b", Scalar("string"))))
NUMBER_7 = b"\x01" + b"\0\0" + bytes(15) + b"\x07"
GOLDEN: list[tuple[ColumnType, Any, bytes]] = [
    (Scalar("int"), 7, NUMBER_7),
    (Scalar("long"), 7, NUMBER_7),
    (DecimalType(9, 2), Decimal("7.00"), NUMBER_7),
    (Scalar("long"), 0, b"\x01" + bytes(18)),
    (DecimalType(9, 2), Decimal("0.00"), b"\x01" + bytes(18)),
    (Scalar("int"), -1200, b"\x01" + b"\0\x02" + b"\xff" * 15 + b"\xf4"),
    (DecimalType(9, 3), Decimal("1.250"), b"\x01" + b"\xff\xfe" + bytes(15) + b"\x7d"),
    (Scalar("string"), "é", b"\x02" + bytes(7) + b"\x02" + b"\xc3\xa9"),
    (Scalar("binary"), b"\xff\0", b"\x03" + bytes(7) + b"\x02" + b"\xff\0"),
    (Fixed(2), b"\xff\0", b"\x03" + bytes(7) + b"\x02" + b"\xff\0"),
    (Scalar("boolean"), True, b"\x04\x01"),
    (Scalar("boolean"), False, b"\x04\0"),
    (Scalar("uuid"), uuid.UUID(int=7).bytes, b"\x05" + bytes(15) + b"\x07"),
    (Scalar("date"), -1, b"\x06" + b"\xff" * 4),
    (Scalar("time"), 5, b"\x07" + bytes(7) + b"\x05"),
    (Scalar("timestamp"), 5, b"\x08" + bytes(7) + b"\x05"),
    (Scalar("timestamptz"), -2, b"\x09" + b"\xff" * 7 + b"\xfe"),
    (PAIR, {"a": 7, "b": ""}, b"\x0a" + b"\0\0\0\x02" + NUMBER_7 + b"\x02" + bytes(8)),
    (Struct((Column("only", Scalar("int")),)), {"only": 7}, b"\x0a" + b"\0\0\0\x01" + NUMBER_7),
]  # fmt: skip
Identify = Callable[..., pa.RecordBatch]
ENGINES = [
    pytest.param(identities, id="native", marks=pytest.mark.skipif(not native_available(), reason="it is not built")),
    pytest.param(identities_in_python, id="python"),
]


def batch(columns: tuple[Column, ...], *values: list[Any]) -> pa.RecordBatch:
    arrays = [array_of(each, column.type) for each, column in zip(values, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def halves(encoded: bytes) -> dict[str, int]:
    digest = hashlib.sha256(encoded).digest()
    return {FIRST: int.from_bytes(digest[:8], signed=True), SECOND: int.from_bytes(digest[8:16], signed=True)}


@pytest.mark.parametrize("identify", ENGINES)
@pytest.mark.parametrize(("type_", "value", "encoded"), GOLDEN, ids=lambda given: str(given)[:40])
def test_an_identity_is_half_the_hash_of_these_bytes(
    type_: ColumnType, value: object, encoded: bytes, identify: Identify
) -> None:
    columns = (Column("id", type_),)

    assert identify(batch(columns, [value])).to_pylist() == [halves(encoded)]


@pytest.mark.parametrize("identify", ENGINES)
def test_several_columns_are_a_struct_without_their_names(identify: Identify) -> None:
    columns = (Column("x", Scalar("int")), Column("y", Scalar("string")))

    found = identify(batch(columns, [7], [""])).to_pylist()

    assert found == [halves(b"\x0a" + b"\0\0\0\x02" + NUMBER_7 + b"\x02" + bytes(8))]


@pytest.mark.parametrize("identify", ENGINES)
def test_a_null_anywhere_is_no_identity(identify: Identify) -> None:
    columns = (Column("x", Scalar("int")), Column("y", PAIR))
    whole = {"a": 1, "b": ""}
    rows = batch(columns, [1, None, 1, 1, 1], [whole, whole, None, {"a": None, "b": ""}, {"a": 1, "b": None}])

    found = identify(rows)

    assert found[FIRST].is_valid().to_pylist() == found[SECOND].is_valid().to_pylist() == [True, *[False] * 4]


def test_undeclared_fields_are_a_part_of_those_keys_that_have_some() -> None:
    of_schema, more = Column("id", Scalar("int")), Column("_extra", Scalar("string"))
    keys = [{"id": 7, "_extra": None}, {"id": 7, "_extra": "{}"}, None, {"id": None, "_extra": "{}"}]

    found = identities(batch((Column("k", Struct((of_schema, more))),), keys)).to_pylist()

    alone, whole = b"\x0a" + b"\0\0\0\x01" + NUMBER_7, b"\x0a" + b"\0\0\0\x02" + NUMBER_7
    assert found[:2] == [halves(alone), halves(whole + b"\x02" + bytes(7) + b"\x02{}")]
    assert found[2:] == [{FIRST: None, SECOND: None}] * 2
    assert found[0] == identities(batch((Column("k", Struct((of_schema,))),), [{"id": 7}])).to_pylist()[0]
    only = identities(batch((Column("k", Struct((more,))),), [{"_extra": None}, {"_extra": "{}"}]))
    assert only[FIRST].is_valid().to_pylist() == [False, True]


@pytest.mark.parametrize("identify", ENGINES)
def test_a_batch_without_rows_has_the_two_columns(identify: Identify) -> None:
    columns = (Column("id", Scalar("int")),)

    found = identify(batch(columns, []))

    assert (found.schema.names, found.num_rows) == ([FIRST, SECOND], 0)


@pytest.mark.parametrize("identify", ENGINES)
def test_values_that_only_look_alike_have_identities_of_their_own(identify: Identify) -> None:
    def of(type_: ColumnType, value: object) -> tuple[object, ...]:
        columns = (Column("id", type_),)
        return tuple(identify(batch(columns, [value])).to_pylist()[0].values())

    different = [
        of(Scalar("string"), "7"), of(Scalar("int"), 7), of(Scalar("int"), 70), of(Scalar("binary"), b"7"),
        of(Scalar("date"), 7), of(Scalar("time"), 7), of(Scalar("timestamp"), 7), of(Scalar("timestamptz"), 7),
        of(Scalar("boolean"), True), of(Scalar("int"), 1), of(DecimalType(3, 1), Decimal("0.1")),
    ]  # fmt: skip

    assert len(set(different)) == len(different)


@pytest.mark.parametrize("identify", ENGINES)
def test_the_same_text_cut_elsewhere_is_another_identity(identify: Identify) -> None:
    columns = (Column("x", Scalar("string")), Column("y", Scalar("string")))

    found = identify(batch(columns, ["ab", "a", ""], ["c", "bc", "abc"]))[FIRST].to_pylist()

    assert len(set(found)) == len(found)


def test_floats_lists_and_maps_at_any_depth_are_named() -> None:
    inner = Struct((Column("f", Scalar("float")), Column("n", Scalar("int")), Column("l", ListOf(Scalar("int")))))
    column = Column("a", Struct((Column("b", inner), Column("m", MapOf(Scalar("string"), Scalar("int"))))))

    assert [path for path, _ in without_identity(column)] == ["a.b.f", "a.b.l", "a.m"]
    assert not list(without_identity(Column("k", PAIR)))


@pytest.mark.skipif(not native_available(), reason="the native module is not built")
def test_the_native_module_refuses_a_type_without_an_identity() -> None:
    columns = (Column("id", Scalar("double")),)

    with pytest.raises(ValueError, match="id has the type Float64"):
        identities(batch(columns, [1.0]))


MOST = 10**38 - 1
MIXED = (
    Column("int", Scalar("int")), Column("long", Scalar("long")), Column("decimal", DecimalType(38, 5)),
    Column("text", Scalar("string")), Column("bytes", Scalar("binary")), Column("fixed", Fixed(3)),
    Column("uuid", Scalar("uuid")), Column("flag", Scalar("boolean")), Column("date", Scalar("date")),
    Column("time", Scalar("time")), Column("local", Scalar("timestamp")), Column("utc", Scalar("timestamptz")),
    Column("pair", PAIR),
)  # fmt: skip
LONGS = st.integers(-(2**63), 2**63 - 1)
VALUES = (
    st.integers(-(2**31), 2**31 - 1), LONGS, st.integers(-MOST, MOST).map(lambda n: Decimal(f"{n}e-5")),
    st.text(max_size=80), st.binary(max_size=80), st.binary(min_size=3, max_size=3),
    st.binary(min_size=16, max_size=16), st.booleans(), st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 86_399_999_999), LONGS, LONGS,
    st.fixed_dictionaries({"a": st.integers(-9, 9) | st.none(), "b": st.text(max_size=9) | st.none()}),
)  # fmt: skip


@pytest.mark.skipif(not native_available(), reason="the native module is not built")
@given(st.lists(st.tuples(*(each | st.none() for each in VALUES)), max_size=4), st.integers(0, 2))
def test_both_implementations_agree(rows: list[tuple[Any, ...]], skipped: int) -> None:
    for wanted in [MIXED, *((column,) for column in MIXED)]:
        places = [MIXED.index(column) for column in wanted]
        given_rows = batch(wanted, *([row[place] for row in rows] for place in places)).slice(skipped)

        assert identities(given_rows).equals(identities_in_python(given_rows))


@given(LONGS, st.integers(0, 10))
def test_an_identity_survives_a_wider_type_and_another_scale(number: int, scale: int) -> None:
    def of(type_: ColumnType, value: object) -> pa.RecordBatch:
        columns = (Column("id", type_),)
        return identities(batch(columns, [value]))

    assert of(Scalar("long"), number).equals(of(DecimalType(38, scale), Decimal(number)))
