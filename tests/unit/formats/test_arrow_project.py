"""Rows of a writer schema are made to fit the table's."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from frazil.formats.arrow import array_of, arrow_schema, arrow_type, fit, project
from frazil.model.columns import Column, ColumnType, Decimal, ListOf, MapOf, Scalar, Struct
from frazil.model.errors import IncompatibleSchemaError

LINE = Struct((Column("was", Scalar("float")), Column("id", Scalar("uuid"))))
COLUMNS = (
    Column("text", Scalar("string")),
    Column("number", Scalar("int")),
    Column("lines", ListOf(LINE)),
    Column("notes", MapOf(Scalar("string"), ListOf(Scalar("binary")))),
    Column("money", Struct((Column("amount", Decimal(9, 2)),))),
    Column("at", Scalar("timestamptz")),
)
ROWS: list[list[object]] = [
    ["a", None, "c"],
    [1, 2, None],
    [[{"was": 1.5, "id": b"\1" * 16}, None], None, []],
    [[("k", [b"1", None]), ("l", None)], [], None],
    [{"amount": None}, None, {"amount": 1}],
    [0, 2**62, None],
]


def optional(field_id: int, name: str, kind: IcebergType) -> NestedField:
    return NestedField(field_id, name, kind, required=False)


TABLE = schema_to_pyarrow(
    Schema(
        optional(1, "number", LongType()),
        optional(2, "text", StringType()),
        optional(3, "at", TimestamptzType()),
        optional(
            4,
            "lines",
            ListType(
                5, StructType(optional(6, "id", UUIDType()), optional(7, "price", DoubleType())), element_required=False
            ),
        ),
        optional(
            8,
            "notes",
            MapType(9, StringType(), 10, ListType(11, BinaryType(), element_required=False), value_required=False),
        ),
        optional(
            12, "money", StructType(optional(13, "amount", DecimalType(12, 2)), optional(14, "unit", StringType()))
        ),
    )
)


def batch() -> pa.RecordBatch:
    columns = [array_of(values, column.type) for values, column in zip(ROWS, COLUMNS, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(COLUMNS))


@pytest.mark.parametrize("rows", [slice(0, 3), slice(1, 3), slice(2, 2)])
def test_rows_get_the_types_and_field_ids_of_the_table(rows: slice) -> None:
    given = batch().slice(rows.start, rows.stop - rows.start)

    fitted = project(given, TABLE, {"lines[].price": ("is_new", "was")})

    fitted.validate(full=True)
    assert fitted.schema.equals(TABLE, check_metadata=True)
    types = [column.type.equals(field.type, check_metadata=True) for column, field in zip(fitted, TABLE, strict=True)]
    assert all(types)
    expected = given.drop_columns(["at"]).to_pylist()
    for row in expected:
        for line in row["lines"] or []:
            if line is not None:
                line["price"] = line.pop("was")
        if row["money"] is not None:
            row["money"]["unit"] = None
    assert fitted.drop_columns(["at"]).to_pylist() == expected
    assert fitted.column("at").cast(pa.int64()).equals(given.column("at").cast(pa.int64()))


def test_values_of_the_same_type_are_not_copied() -> None:
    given = batch()

    fitted = project(given.select(["lines", "at"]), pa.schema([given.schema.field("at"), given.schema.field("lines")]))

    for name in ("at", "lines"):
        addresses = [[b and b.address for b in each.column(name).buffers()] for each in (given, fitted)]
        assert addresses[0] == addresses[1]


def test_texts_and_bytes_are_not_copied() -> None:
    given = batch().select(["text", "notes"])

    fitted = project(given, pa.schema([TABLE.field("text"), TABLE.field("notes")]))

    here, there = (
        [rows.column("text"), rows.column("notes").keys, rows.column("notes").items.values] for rows in (given, fitted)
    )
    for one, other in zip(here, there, strict=True):
        assert [b and b.address for b in one.buffers()] == [b and b.address for b in other.buffers()]


def test_columns_that_are_read_with_32_bit_offsets_get_64() -> None:
    """Parquet does not say which; decoders give 64."""
    kind = pa.struct([("text", pa.string()), ("bytes", pa.list_(pa.binary()))])
    wanted = pa.struct([("text", pa.large_string()), ("bytes", pa.large_list(pa.large_binary()))])
    given = pa.RecordBatch.from_arrays([pa.array([{"text": "ä", "bytes": [b"\xff", None]}, None], kind)], names=["c"])

    fitted = project(given, pa.schema([("c", wanted)]))

    assert fitted.column("c").type == wanted
    assert fitted.to_pylist() == given.to_pylist()


def test_a_column_that_the_batch_lacks_is_null() -> None:
    fitted = project(batch().select(["number"]), pa.schema([("new", pa.large_string()), ("number", pa.int32())]))

    assert fitted.to_pydict() == {"new": [None] * 3, "number": [1, 2, None]}


def test_a_former_name_that_is_a_column_again_is_not_taken() -> None:
    target = pa.schema([("text", pa.large_string()), ("title", pa.large_string())])

    fitted = project(batch().select(["text"]), target, {"title": ("text",)})

    assert fitted.column("title").null_count == 3


@pytest.mark.parametrize(
    ("column", "target", "lost"),
    [
        ("number", pa.schema([("text", pa.string())]), "number"),
        ("money", pa.schema([("money", pa.struct([("unit", pa.string())]))]), "money.amount"),
        (
            "lines",
            pa.schema([("lines", pa.list_(pa.struct([("price", pa.float32()), ("id", pa.uuid())])))]),
            r"lines\[\].was",
        ),
    ],
)
def test_a_column_without_a_place_is_refused_and_not_dropped(column: str, target: pa.Schema, lost: str) -> None:
    with pytest.raises(IncompatibleSchemaError, match=f"has no column for the writer's fields {lost}"):
        project(batch().select([column]), target)


def test_of_two_fields_with_names_of_one_column_the_second_is_not_dropped() -> None:
    both = batch().select(["text", "number"]).rename_columns(["a", "b"])

    with pytest.raises(IncompatibleSchemaError, match="no column for the writer's fields b"):
        project(both, pa.schema([("c", pa.string())]), {"c": ("a", "b")})


UNSAFE: list[tuple[ColumnType, pa.DataType]] = [
    (Scalar("long"), pa.int32()),
    (Scalar("double"), pa.float32()),
    (Scalar("int"), pa.large_string()),
    (Scalar("long"), pa.timestamp("us", "UTC")),
    (Scalar("timestamp"), pa.timestamp("us", "UTC")),
    (Decimal(9, 2), pa.decimal128(9, 3)),
    (Decimal(9, 2), pa.decimal128(8, 2)),
    (Scalar("string"), pa.struct([("string", pa.string())])),
]


@pytest.mark.parametrize(("given", "wanted"), UNSAFE)
def test_an_unsafe_change_of_type_is_refused(given: ColumnType, wanted: pa.DataType) -> None:
    rows = pa.RecordBatch.from_arrays([pa.nulls(1, arrow_type(given))], names=["c"])

    with pytest.raises(IncompatibleSchemaError, match="c: the table has"):
        project(rows, pa.schema([("c", wanted)]))


@pytest.mark.parametrize("last", [{"b": 3}, None])
def test_a_struct_that_lost_all_its_fields_keeps_its_rows(last: object) -> None:
    given = pa.array([None, {"b": 1}, last], pa.struct([("b", pa.int32())]))[1:]
    target = pa.schema([("a", pa.struct([]))])

    fitted = fit(pa.RecordBatch.from_arrays([given], names=["a"]), target, {"a": "a"})

    fitted.validate(full=True)
    assert fitted.to_pylist() == [{"a": {}}, {"a": None if last is None else {}}]
