"""The cells of CSV files: every type, nulls, and text that looks like a formula."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.exports.formula_guard import FULL_WIDTH, guarded
from frazil.exports.parts import Part, PartsWriter
from frazil.exports.timestamps import timestamps_as_text
from frazil.model.exports import ExportSpec, ExportWindow

BERLIN = ExportWindow("at", "week", "Europe/Berlin")


class _File(io.BytesIO):
    content = b""

    def close(self) -> None:
        self.content = self.getvalue()
        super().close()

    def abandon(self) -> None:
        super().close()


def written(rows: pa.Table, *, size: int = 1_000, **keys: Any) -> tuple[list[bytes], list[Part]]:
    """Return the files that a table becomes, and what is known of them."""
    spec = ExportSpec("exports/x.yaml", "x", "lake.x", "/out", BERLIN, **keys)
    files: list[_File] = []
    parts: list[Part] = []

    def open_file(name: str) -> _File:
        files.append(_File())
        return files[-1]

    writer = PartsWriter(spec, rows.schema, "x", open_file, lambda part, left: parts.append(part))
    for batch in rows.to_batches(max_chunksize=size):
        writer.write(batch)
    writer.close()
    return [file.content for file in files], parts


def cells(column: pa.Array, **keys: Any) -> list[str]:
    (content,), _ = written(pa.table({"n": range(len(column)), "x": column}), **keys)
    return [row[1] for row in csv.reader(io.StringIO(content.decode(), newline=""))][1:]


POINT = pa.struct([("x", pa.float64()), ("when", pa.timestamp("us", "UTC")), ("note", pa.string())])


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["a", "", None, 'q"q', "l\nm", "ä,ö"]), ["a", "", "", 'q"q', "l\nm", "ä,ö"]),
        (pa.array([1, None, -(2**63)]), ["1", "", "-9223372036854775808"]),
        (pa.array([0.1, 1e22, float("nan"), None]), ["0.1", "1e+22", "nan", ""]),
        (pa.array([True, False, None]), ["true", "false", ""]),
        (pa.array([Decimal("12.50"), None], pa.decimal128(10, 2)), ["12.50", ""]),
        (pa.array([Decimal("-0.00000001"), Decimal(3)], pa.decimal128(20, 8)), ["-0.00000001", "3.00000000"]),
        (pa.array([Decimal("1E-37")], pa.decimal128(38, 38)), ["0.00000000000000000000000000000000000010"]),
        (pa.array([date(2026, 1, 31), None]), ["2026-01-31", ""]),
        (pa.array([2**31 - 1, 0], pa.date32()), ["+5881580-07-11", "1970-01-01"]),
        (pa.array([time(12, 0, 1, 5)], pa.time64("us")), ["12:00:01.000005"]),
        (pa.array([b"\x00\xff", b"", None]), ["00ff", "", ""]),
        (pa.array([b"ab", None], pa.binary(2)), ["6162", ""]),
        (
            pa.array([bytes(range(16)), None], pa.uuid()),
            ["00010203-0405-0607-0809-0a0b0c0d0e0f", ""],
        ),
        (
            pa.array([datetime(2026, 1, 31, 12, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
            ["2026-01-31T12:00:00.000000Z", ""],
        ),
        (pa.array([datetime(2026, 1, 31, 12)], pa.timestamp("us")), ["2026-01-31T12:00:00.000000"]),
        (
            pa.array([{"x": 1.5, "when": datetime(2026, 1, 31, tzinfo=UTC), "note": "ä"}, None], POINT),
            ['{"x":1.5,"when":"2026-01-31T00:00:00.000000Z","note":"ä"}', ""],
        ),
        (pa.array([[1, None], [], None], pa.list_(pa.int32())), ["[1,null]", "[]", ""]),
        (pa.array([[("k", [b"\x01"])]], pa.map_(pa.string(), pa.list_(pa.binary()))), ['{"k":["01"]}']),
        (pa.array([[(1, Decimal("1.10"))]], pa.map_(pa.int32(), pa.decimal128(9, 2))), ["[[1,1.10]]"]),
        (pa.array([{"x": float("inf"), "when": None, "note": None}], POINT), ['{"x":"inf","when":null,"note":null}']),
    ],
)
def test_a_value_is_a_cell(column: pa.Array, expected: list[str]) -> None:
    assert cells(column) == expected
    assert cells(pa.concat_arrays([column, column])[len(column) :]) == expected, "also in a slice"


def test_null_and_empty_text_differ_and_lines_end_with_crlf() -> None:
    (content,), _ = written(pa.table({"a": ["", None], "b": [1, None]}))

    assert content == b'"a","b"\r\n"",1\r\n,\r\n'


def test_wall_clock_times_are_those_of_the_time_zone() -> None:
    at = [datetime(2026, 1, 31, 12, 0, 0, 123_456, UTC), datetime(2026, 7, 1, 12, tzinfo=UTC), None]

    assert cells(pa.array(at, pa.timestamp("us", "UTC")), timestamps="wall") == [
        "2026-01-31 13:00:00.123",
        "2026-07-01 14:00:00.000",
        "",
    ]


WITHOUT_EDGES = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.just(UTC))
ZONES = ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "America/Sao_Paulo", "Pacific/Apia", "UTC"]


@pytest.mark.parametrize("key", ZONES)
@given(st.lists(st.none() | WITHOUT_EDGES, max_size=50))
@settings(max_examples=20, deadline=None)
def test_wall_clock_times_are_those_of_pythons_zones(key: str, values: list[datetime | None]) -> None:
    found = timestamps_as_text(pa.array(values, pa.timestamp("us", "UTC")), zone := ZoneInfo(key)).to_pylist()

    clocks = [each and each.astimezone(zone).replace(tzinfo=None) for each in values]
    assert found == [each and each.isoformat(" ", timespec="milliseconds") for each in clocks]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe"])
def test_wall_clock_times_follow_each_change_of_a_clock(zone: str) -> None:
    """Also after 2037, where Arrow knows no summer time, and in years that Python does not have."""
    seconds = [at + n for at in (1_774_746_000, 1_792_886_400, 2_532_135_600) for n in range(-7300, 7300, 50)]
    cycle = 146_097 * 86_400
    near, far = (
        timestamps_as_text(
            pa.array([(s + later) * 1_000_000 for s in seconds], pa.timestamp("us", "UTC")), ZoneInfo(zone)
        )
        for later in (0, 25 * cycle)
    )

    known = [datetime.fromtimestamp(each, ZoneInfo(zone)).replace(tzinfo=None) for each in seconds]
    assert near.to_pylist() == [each.isoformat(" ", timespec="milliseconds") for each in known]
    assert [each[6:] for each in far.to_pylist()] == [each[4:] for each in near.to_pylist()]


def test_wall_clock_times_need_no_zones_of_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow reads these alone, and an image may have none: that of a function of Lambda, for instance."""
    monkeypatch.setattr(pc, "local_timestamp", None)
    at = pa.array([datetime(2026, 7, 1, 12, tzinfo=UTC)], pa.timestamp("us", "UTC"))

    assert timestamps_as_text(at, ZoneInfo("Europe/Berlin")).to_pylist() == ["2026-07-01 14:00:00.000"]


@given(st.lists(st.none() | st.datetimes(timezones=st.just(UTC)), max_size=50))
@settings(max_examples=60, deadline=None)
def test_timestamps_are_those_of_pythons_calendar(values: list[datetime | None]) -> None:
    column = pa.array(values, pa.timestamp("us", "UTC"))

    found = timestamps_as_text(column, None).to_pylist()

    assert found == [
        None if each is None else each.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z" for each in values
    ]


def test_nanoseconds_are_cut_to_microseconds() -> None:
    """Tables of other writers, in version 3 of Iceberg's format, have them."""
    column = pa.array([1_700_000_000_123_456_789, -1, None], pa.timestamp("ns", "UTC"))

    assert timestamps_as_text(column, None).to_pylist() == [
        "2023-11-14T22:13:20.123456Z",
        "1969-12-31T23:59:59.999999Z",
        None,
    ]


def test_years_of_more_digits_have_a_sign() -> None:
    column = pa.array([2**60, -(2**60), None, 0], pa.timestamp("us", "UTC"))

    assert timestamps_as_text(column, None).to_pylist() == [
        "+38504-08-17T21:30:06.846976Z",
        "-34565-05-17T02:29:53.153024Z",
        None,
        "1970-01-01T00:00:00.000000Z",
    ]
    assert timestamps_as_text(column[3:], ZoneInfo("Asia/Kolkata")).to_pylist() == ["1970-01-01 05:30:00.000"]


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", *(f"{each}1" for each in FULL_WIDTH)]
HARMLESS = ["a=1", "", " =1", "'=1", "1-1", None, "\uff02", "\uff40", "ä"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_text_that_looks_like_a_formula_gets_an_apostrophe(kind: pa.DataType) -> None:
    column = pa.array([*HARMLESS, *FORMULAS, *HARMLESS], kind)

    found, count = guarded(column[2:])

    assert found.to_pylist() == [*HARMLESS[2:], *(f"'{each}" for each in FORMULAS), *HARMLESS]
    assert (count, found.type) == (len(FORMULAS), kind)


def test_guarded_cells_are_counted_and_numbers_are_left_as_they_are() -> None:
    rows = pa.table({"=a": ["=1", "x", "-2"], "n": [-1, -2, -3]})

    (content,), (part,) = written(rows)
    (plain,), (not_guarded,) = written(rows, formula_guard=False)

    assert content == b'"\'=a","n"\r\n"\'=1",-1\r\n"x",-2\r\n"\'-2",-3\r\n'
    assert plain == b'"=a","n"\r\n"=1",-1\r\n"x",-2\r\n"-2",-3\r\n'
    assert (part.guarded, not_guarded.guarded) == (2, 0)


def test_a_byte_order_mark_is_the_first_of_each_file() -> None:
    files, _ = written(pa.table({"a": range(4)}), part_rows=2, byte_order_mark=True)

    assert files == [b'\xef\xbb\xbf"a"\r\n0\r\n1\r\n', b'\xef\xbb\xbf"a"\r\n2\r\n3\r\n']


def test_gzip_has_the_same_rows_and_the_same_bytes_each_time() -> None:
    rows = pa.table({"a": [f"text {n}" for n in range(5_000)]})

    (packed,), (part,) = written(rows, gzip=True)
    (again,), _ = written(rows, gzip=True)
    (plain,), _ = written(rows)

    assert gzip.decompress(packed) == plain
    assert packed == again
    assert (part.name, part.bytes) == ("x_part_1.csv.gz", len(packed))
    assert len(packed) < len(plain) / 2


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_parts_of_any_batches_have_the_same_rows(size: int) -> None:
    files, parts = written(pa.table({"a": range(50)}), size=size, part_rows=20)

    assert [part.rows for part in parts] == [20, 20, 10]
    assert [row for file in files for row in file.decode().splitlines()[1:]] == [str(n) for n in range(50)]


def test_parquet_keeps_the_types() -> None:
    rows = pa.table({"a": pa.array([1, None]), "p": pa.array([{"x": 1.0, "when": None, "note": "=1"}, None], POINT)})

    files, (part,) = written(rows, format="parquet")

    assert pq.read_table(io.BytesIO(files[0])).equals(rows)
    assert (part.name, part.guarded) == ("x_part_1.parquet", 0)


def test_part_that_ends_reports_the_rows_left(tmp_path: Any) -> None:
    left: list[int] = []
    spec = ExportSpec("exports/x.yaml", "x", "lake.x", "/out", BERLIN, part_rows=2)
    opened: Callable[[str], _File] = lambda name: _File()  # noqa: E731
    writer = PartsWriter(spec, pa.schema([("a", pa.int64())]), "x", opened, lambda part, rest: left.append(rest))

    writer.write(pa.record_batch({"a": [1, 2, 3, 4, 5]}))

    assert left == [3, 1]
