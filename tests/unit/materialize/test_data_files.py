"""Data files: how they are split, when they are full, and what is said of what they hold."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal as Number
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import assign_fresh_schema_ids
from pyiceberg.transforms import parse_transform
from pyiceberg.types import PrimitiveType

from frazil.adapters.iceberg.types import to_partition_spec, to_schema
from frazil.formats.arrow import array_of
from frazil.materialize.ingest import write
from frazil.materialize.ingest.statistics import StatisticsPlan, file_statistics
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.columns import Column, ColumnType, Decimal, Fixed, ListOf, Scalar, Struct
from frazil.model.ingested import WriteTarget, WrittenFile

LONG = Scalar("long")


def files(
    folder: Path,
    column_type: ColumnType,
    *batches: Sequence[object],
    partition_by: tuple[str, ...] = (),
    target_bytes: int = 512 << 20,
    distinct: tuple[str, ...] = (),
    **properties: str,
) -> tuple[WrittenFile, ...]:
    """The files of a table with one column, `c`, written in these batches."""
    schema = assign_fresh_schema_ids(to_schema([Column("c", column_type)]))
    target = WriteTarget(
        identifier="lake.t",
        location=str(folder),
        schema_json=schema.model_dump_json(),
        partition_spec_json=to_partition_spec(schema, partition_by).model_dump_json(),
        properties=properties,
    )
    writer = DataFileWriter(target, storage={}, prefix="w", target_bytes=target_bytes, distinct=distinct)
    for batch in batches:
        column = array_of(list(batch), column_type)
        field = writer.arrow_schema.field(0)
        stored = column if field.type == column.type else column.cast(field.type)
        writer.add(pa.RecordBatch.from_arrays([stored], schema=writer.arrow_schema))
    return writer.close()


def bounds(file: WrittenFile, iceberg_type: PrimitiveType, field_id: int = 1) -> tuple[Any, Any]:
    lower, upper = file.lower_bounds.get(field_id), file.upper_bounds.get(field_id)
    return (
        None if lower is None else from_bytes(iceberg_type, lower),
        None if upper is None else from_bytes(iceberg_type, upper),
    )


def typed(column_type: ColumnType) -> PrimitiveType:
    return to_schema([Column("c", column_type)]).fields[0].field_type  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("column_type", "values", "least", "most"),
    [
        (Scalar("boolean"), [True, None, False], False, True),
        (Scalar("int"), [3, -5, None], -5, 3),
        (LONG, [2**62, -(2**63)], -(2**63), 2**62),
        (Scalar("float"), [0.5, -2.0], -2.0, 0.5),
        (Scalar("double"), [1.5, math.nan, -1.0], -1.0, 1.5),
        (Scalar("string"), ["b", "a", "ä"], "a", "ä"),
        (Scalar("string"), ["x" * 40], "x" * 16, "x" * 15 + "y"),
        (Scalar("string"), ["x" * 15 + "\ud7ff" * 9], "x" * 15 + "\ud7ff", "x" * 15 + "\ue000"),
        (Scalar("string"), ["x" * 15 + "\U0010ffff" * 9], "x" * 15 + "\U0010ffff", "x" * 14 + "y"),
        (Scalar("string"), ["\U0001f600" * 20], "\U0001f600" * 16, "\U0001f600" * 15 + "\U0001f601"),
        (Scalar("binary"), [b"\x80", b"\x7f"], b"\x7f", b"\x80"),
        (Scalar("binary"), [b"\x01" * 30], b"\x01" * 16, b"\x01" * 15 + b"\x02"),
        (Fixed(3), [b"abc", b"\xff\x00\x00"], b"abc", b"\xff\x00\x00"),
        (Decimal(5, 2), [Number("-1.00"), Number("2.50")], Number("-1.00"), Number("2.50")),
        (Decimal(38, 0), [Number(-(10**37)), Number(10**37)], Number(-(10**37)), Number(10**37)),
        (Decimal(9, 3), [Number("0.128"), Number("-0.128")], Number("-0.128"), Number("0.128")),
        (Scalar("date"), [0, 3_000_000, -800_000], -800_000, 3_000_000),
        (Scalar("timestamptz"), [-1, 2**62], -1, 2**62),
        (Scalar("timestamp"), [-(2**62), 4 * 10**17], -(2**62), 4 * 10**17),
        (Scalar("time"), [0, 86_399_999_999], 0, 86_399_999_999),
        (Scalar("uuid"), [bytes(15) + b"\x05", b"\x80" + bytes(15)], bytes(15) + b"\x05", b"\x80" + bytes(15)),
    ],
    ids=str,
)
def test_bounds_are_what_the_column_holds(
    tmp_path: Path, column_type: ColumnType, values: list[object], least: object, most: object
) -> None:
    (file,) = files(tmp_path, column_type, values)

    assert bounds(file, typed(column_type)) == (least, most)
    assert (file.value_counts, file.null_value_counts) == ({1: len(values)}, {1: values.count(None)})
    nans = sum(isinstance(value, float) and math.isnan(value) for value in values)
    assert file.nan_value_counts == ({1: nans} if column_type in (Scalar("float"), Scalar("double")) else {})
    assert file.rows == len(values)


@pytest.mark.parametrize("column_type", [Scalar("string"), Scalar("double"), Decimal(5, 2)], ids=str)
def test_a_column_of_nulls_has_counts_and_no_bounds(tmp_path: Path, column_type: ColumnType) -> None:
    (file,) = files(tmp_path, column_type, [None, None])

    assert bounds(file, typed(column_type)) == (None, None)
    assert (file.value_counts, file.null_value_counts) == ({1: 2}, {1: 2})


def test_what_is_no_number_bounds_nothing(tmp_path: Path) -> None:
    (file,) = files(tmp_path, Scalar("double"), [math.nan, math.nan])

    assert bounds(file, typed(Scalar("double"))) == (None, None)


@pytest.mark.parametrize("value", ["\U0010ffff" * 20, b"\xff" * 20], ids=["text", "bytes"])
def test_a_greatest_value_that_nothing_short_exceeds_has_no_upper_bound(tmp_path: Path, value: str | bytes) -> None:
    column_type = Scalar("string" if isinstance(value, str) else "binary")

    (file,) = files(tmp_path, column_type, [value])

    assert bounds(file, typed(column_type)) == (value[:16], None)


def test_a_value_too_long_for_parquet_to_bound_leaves_the_whole_file_unbounded(tmp_path: Path) -> None:
    """Else a reader that looks for it would pass the file over."""
    schema = to_schema([Column("c", Scalar("string"))])
    path = tmp_path / "f.parquet"
    with pq.ParquetWriter(path, pa.schema([("c", pa.string())])) as writer:
        writer.write_table(pa.table({"c": ["a", "b"]}))
        writer.write_table(pa.table({"c": ["z" * 5_000]}))

    statistics = file_statistics(pq.read_metadata(path), StatisticsPlan.of(schema, {}))

    assert (dict(statistics.lower_bounds), dict(statistics.upper_bounds)) == ({}, {})
    assert statistics.value_counts == {1: 3}


def test_bounds_are_those_of_all_row_groups(tmp_path: Path) -> None:
    schema = to_schema([Column("c", Decimal(9, 2))])
    path = tmp_path / "f.parquet"
    with pq.ParquetWriter(path, pa.schema([("c", pa.decimal128(9, 2))])) as writer:
        for value in ("5.00", "-7.25", None, "300.00"):
            writer.write_table(pa.table({"c": pa.array([value and Number(value)], pa.decimal128(9, 2))}))

    statistics = file_statistics(pq.read_metadata(path), StatisticsPlan.of(schema, {}))

    assert from_bytes(typed(Decimal(9, 2)), statistics.lower_bounds[1]) == Number("-7.25")
    assert from_bytes(typed(Decimal(9, 2)), statistics.upper_bounds[1]) == Number("300.00")
    assert statistics.null_value_counts == {1: 1}
    assert len(statistics.split_offsets) == 4 == len(set(statistics.split_offsets))


@pytest.mark.parametrize(
    ("mode", "counts", "bounded"),
    [("none", {}, None), ("counts", {1: 1}, None), ("truncate(2)", {1: 1}, "ab"), ("full", {1: 1}, "abcdef" * 9)],
)
def test_the_table_says_how_much_is_kept_of_a_column(
    tmp_path: Path, mode: str, counts: dict[int, int], bounded: str | None
) -> None:
    (file,) = files(tmp_path, Scalar("string"), ["abcdef" * 9], **{"write.metadata.metrics.default": mode})

    assert file.value_counts == counts
    assert bounds(file, typed(Scalar("string")))[0] == bounded


def test_what_is_inside_structs_and_lists_is_counted_under_its_own_id(tmp_path: Path) -> None:
    (file,) = files(tmp_path, Struct((Column("a", LONG), Column("b", ListOf(LONG)))), [{"a": 7, "b": [1, 2]}])

    assert file.value_counts == {2: 1, 4: 2}
    assert set(file.column_sizes) == {2, 4}


def test_what_is_no_number_is_counted_wherever_a_filter_reaches_it(tmp_path: Path) -> None:
    """By bounds alone, an engine that deletes the rows below 10 would drop the whole file."""
    double = Scalar("double")
    inner = Struct((Column("a", double), Column("b", ListOf(double)), Column("s", Struct((Column("d", double),)))))
    rows = [{"a": math.nan, "b": [math.nan], "s": {"d": 1.0}}, None, {"a": 2.0, "b": [], "s": None}]

    (file,) = files(tmp_path, inner, rows, [{"a": math.nan, "b": None, "s": {"d": math.nan}}])

    assert sorted(file.nan_value_counts.values()) == [1, 2]


# --- splitting ------------------------------------------------------------------------------------------------------

MICROS = int(datetime(2024, 2, 29, 13, 30, tzinfo=UTC).timestamp()) * 1_000_000
BEFORE_1970 = int(datetime(1969, 12, 31, 23, 59, tzinfo=UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("column_type", "by", "value"),
    [
        (LONG, "c", 5),
        (Scalar("boolean"), "c", True),
        (Scalar("string"), "c", "a/b=c d%é"),
        (Scalar("string"), "c", ""),
        (Scalar("binary"), "c", b"\x00\xff"),
        (Fixed(2), "c", b"\x00\xff"),
        (Decimal(9, 2), "c", Number("-1.50")),
        (Scalar("date"), "c", -3),
        (Scalar("time"), "c", 3_600_000_000),
        (Scalar("timestamptz"), "c", BEFORE_1970),
        (Scalar("double"), "c", 0.5),
        (Scalar("uuid"), "c", UUID(int=7).bytes),
        *((Scalar("timestamptz"), f"{unit}(c)", at) for unit in ("year", "month", "day", "hour")
          for at in (MICROS, BEFORE_1970)),
        *((Scalar("timestamp"), f"{unit}(c)", MICROS) for unit in ("year", "month", "day", "hour")),
        *((Scalar("date"), f"{unit}(c)", -3) for unit in ("year", "month", "day")),
        (Scalar("timestamptz"), "day(c)", 4 * 10**17),
        (Scalar("date"), "day(c)", 3_000_000),
        (Scalar("date"), "c", 3_000_000),
        (Scalar("timestamptz"), "hour(c)", 4 * 10**17),
        (Scalar("int"), "bucket(16, c)", -7),
        (LONG, "bucket(16, c)", 7),
        (Scalar("string"), "bucket(16, c)", "naïve"),
        (Scalar("binary"), "bucket(16, c)", b"\x00\xff"),
        (Fixed(2), "bucket(16, c)", b"\x00\xff"),
        (Decimal(9, 2), "bucket(16, c)", Number("14.20")),
        (Scalar("date"), "bucket(16, c)", 17_486),
        (Scalar("time"), "bucket(16, c)", 81_068_000_000),
        (Scalar("timestamptz"), "bucket(16, c)", MICROS),
        (Scalar("uuid"), "bucket(16, c)", UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes),
        (LONG, "truncate(10, c)", -7),
        (Scalar("string"), "truncate(2, c)", "éabc"),
        (Scalar("binary"), "truncate(1, c)", b"\x00\xff"),
        (Decimal(9, 2), "truncate(50, c)", Number("-10.65")),
        (LONG, "void(c)", 5),
    ],
)  # fmt: skip
def test_a_partition_is_what_iceberg_says_it_is(
    tmp_path: Path, column_type: ColumnType, by: str, value: object
) -> None:
    written = files(tmp_path, column_type, [value, None, value], partition_by=(by,))

    expected = _transformed(column_type, by, value)
    assert {file.partition: file.rows for file in written} == (
        {(None,): 3} if expected is None else {(expected,): 2, (None,): 1}
    )
    assert all(Path(file.path.removeprefix("file://")).exists() for file in written)


def _transformed(column_type: ColumnType, by: str, value: object) -> object:
    """By the library's own transform of one value."""
    name, _, rest = by.partition("(")
    width = rest.partition(",")[0] if "," in rest else ""
    transform = parse_transform("identity" if not rest else f"{name}[{width}]" if width else name)
    return transform.transform(typed(column_type))(UUID(bytes=value) if column_type == Scalar("uuid") else value)  # type: ignore[arg-type]


INFINITY = 9_223_372_036_825_200_000
"""As Debezium writes it of a timestamp in PostgreSQL; that of a date is the greatest int."""


@pytest.mark.parametrize(
    ("column_type", "by", "value", "expected"),
    [
        ("date", "year(c)", 2**31 - 1, 5_879_610),
        ("date", "month(c)", 2**31 - 1, 70_555_326),
        ("date", "year(c)", -(2**31), -5_879_611),
        ("timestamptz", "year(c)", INFINITY, 292_277),
        ("timestamp", "month(c)", INFINITY, 3_507_324),
        ("timestamp", "year(c)", -(2**63), -292_278),
    ],
)
def test_years_and_months_are_those_that_spark_has(
    tmp_path: Path, column_type: Any, by: str, value: int, expected: int
) -> None:
    """The library finds none, and readers would skip the rows."""
    written = files(tmp_path, Scalar(column_type), [value, None, 0], partition_by=(by,))

    assert {file.partition: file.rows for file in written} == {(expected,): 1, (None,): 1, (0,): 1}


def test_combined_partitions_keep_their_rows_apart(tmp_path: Path) -> None:
    written = files(tmp_path, LONG, [1, 11, 2, None, 12], partition_by=("truncate(10, c)", "bucket(2, c)"))

    assert sum(file.rows for file in written) == 5
    assert len({file.partition for file in written}) == len(written) >= 3


def test_batches_of_one_partition_share_a_file(tmp_path: Path) -> None:
    written = files(tmp_path, LONG, [1, 2], [2, 1], [1], partition_by=("c",))

    assert {file.partition: file.rows for file in written} == {(1,): 3, (2,): 2}


def test_partitions_of_floats_are_told_apart_by_their_bits_and_what_is_no_number_is_one(tmp_path: Path) -> None:
    written = files(tmp_path, Scalar("double"), [0.0, -0.0, math.nan], [math.nan, -0.0], partition_by=("c",))

    assert sorted((str(file.partition[0]), file.rows) for file in written) == [("-0.0", 2), ("0.0", 1), ("nan", 2)]


def test_a_file_is_closed_when_it_is_as_large_as_it_should_be(tmp_path: Path) -> None:
    seeded = random.Random(7)
    batches = [[seeded.randbytes(50) for _ in range(1_000)] for _ in range(20)]

    written = files(tmp_path, Scalar("binary"), *batches, target_bytes=100_000)

    assert len(written) == 5
    assert all(100_000 <= file.size < 300_000 for file in written[:-1])
    assert sum(file.rows for file in written) == 20_000
    assert all(pq.read_metadata(file.path.removeprefix("file://")).num_rows == file.rows for file in written)
    assert all(file.size == Path(file.path.removeprefix("file://")).stat().st_size for file in written)


@pytest.mark.parametrize(("name", "ascii_name"), [("größe", "gr_xF6_xDFe"), ("my-ts", "my-ts")])
def test_a_table_is_partitioned_by_a_column_of_any_name(name: str, ascii_name: str) -> None:
    schema = to_schema((Column(name, Scalar("timestamptz")),))

    (field,) = to_partition_spec(schema, [f"day({name})"]).fields

    assert (str(field.transform), field.source_id, field.name) == ("day", 1, f"{ascii_name}_day")


def test_random_days_open_a_bounded_number_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "BUFFERED_ROWS", 0)
    monkeypatch.setattr(write, "FILES_OPEN", 3)
    most = 0
    flush = write._OpenFile.flush

    def counting(file: Any) -> None:
        nonlocal most
        flush(file)
        alive.add(file)
        most = max(most, sum(each._stream is not None and not each._stream.closed for each in alive))

    alive: set[Any] = set()
    monkeypatch.setattr(write._OpenFile, "flush", counting)
    days = [n * 86_400_000_000 for n in (5, 1, 9, 1, 7, 3, 5, 11, 2, 8, 4, 9)]

    written = files(tmp_path, Scalar("timestamptz"), days, days, partition_by=("day(c)",))

    assert most <= 4
    assert sum(file.rows for file in written) == 2 * len(days)
    assert {file.partition for file in written} == {(n,) for n in (1, 2, 3, 4, 5, 7, 8, 9, 11)}


@pytest.mark.parametrize("distinct", [(), ("c",)])
@pytest.mark.parametrize("codec", ["zstd", "gzip", "brotli", "snappy", "lz4", "uncompressed"])
def test_a_property_of_the_table_chooses_the_codec(tmp_path: Path, codec: str, distinct: tuple[str, ...]) -> None:
    chosen: Any = {"write.parquet.compression-codec": codec}

    (file,) = files(tmp_path, Scalar("string"), ["a" * 1000], distinct=distinct, **chosen)

    group = pq.read_metadata(file.path.removeprefix("file://")).row_group(0)
    assert group.column(0).compression == codec.upper()
    assert pq.read_table(file.path.removeprefix("file://")).column("c").to_pylist() == ["a" * 1000]
