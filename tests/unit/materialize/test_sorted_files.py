"""Data files of a table with a sort order: their rows, their row groups, and which of them say that they are sorted."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Decimal as Number
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import assign_fresh_schema_ids

from frazil.adapters.iceberg.types import to_partition_spec, to_schema, to_sort_order
from frazil.formats.arrow import array_of
from frazil.materialize.ingest import write
from frazil.materialize.ingest.write import DataFileWriter
from frazil.model.columns import Column, ColumnType, Decimal, Fixed, ListOf, Scalar, Struct
from frazil.model.ingested import WriteTarget, WrittenFile

Columns = dict[str, tuple[ColumnType, Sequence[object]]]
LONG, TEXT, DOUBLE = Scalar("long"), Scalar("string"), Scalar("double")
MINUS_NAN = struct.unpack(">d", b"\xff\xf8" + bytes(6))[0]


def files(
    folder: Path,
    columns: Columns,
    *sort_by: str,
    partition_by: Sequence[str] = (),
    order: str = "",
    size: int = 1 << 20,
) -> tuple[WrittenFile, ...]:
    """The files of a table with these columns, written in batches of 100 rows."""
    schema = assign_fresh_schema_ids(to_schema([Column(name, kind) for name, (kind, _) in columns.items()]))
    target = WriteTarget(
        identifier="lake.t",
        location=str(folder),
        schema_json=schema.model_dump_json(),
        partition_spec_json=to_partition_spec(schema, partition_by).model_dump_json(),
        properties={},
        sort_order_json=order or to_sort_order(schema, sort_by).model_dump_json(),
    )
    writer = DataFileWriter(target, storage={}, prefix="w", target_bytes=size)
    arrays = [array_of(list(values), kind) for kind, values in columns.values()]
    rows = pa.Table.from_arrays(arrays, names=list(columns)).cast(writer.arrow_schema)
    for batch in rows.to_batches(max_chunksize=100):
        writer.add(batch)
    return writer.close()


def column(file: WrittenFile, name: str = "c") -> list[Any]:
    values: list[Any] = pq.read_table(file.path)[name].to_pylist()
    return values


IN_ORDER: dict[str, tuple[ColumnType, list[Any]]] = {
    "boolean": (Scalar("boolean"), [False, True]),
    "int": (Scalar("int"), [-(2**31), -1, 0, 2**31 - 1]),
    "long": (LONG, [-(2**63), 0, 2**63 - 1]),
    "string": (TEXT, ["", "B", "a", "ab", "ä", "\uffff", "\U0001f600"]),
    "binary": (Scalar("binary"), [b"", b"\x00", b"\x7f", b"\x80"]),
    "fixed": (Fixed(2), [b"\x00\x01", b"\x7f\x00", b"\x80\x00"]),
    "decimal": (Decimal(38, 2), [Number("-1e35"), Number("-0.01"), Number("0.00"), Number("1e35")]),
    "date": (Scalar("date"), [-800_000, 0, 3_000_000]),
    "time": (Scalar("time"), [0, 86_399_999_999]),
    "timestamptz": (Scalar("timestamptz"), [-(2**62), 0, 2**62]),
    "uuid": (Scalar("uuid"), [bytes(16), bytes(15) + b"\x01", b"\x80" + bytes(15)]),
}


def stored(kind: ColumnType, value: Any) -> Any:
    return UUID(bytes=value) if kind == Scalar("uuid") else value


@pytest.mark.parametrize("case", IN_ORDER)
@pytest.mark.parametrize(
    ("field", "descending", "nulls_first"),
    [
        ("c", False, True),
        ("c nulls last", False, False),
        ("c desc", True, False),
        ("c desc nulls first", True, True),
    ],
)
def test_values_of_every_type_are_in_their_order(
    tmp_path: Path, case: str, field: str, *, descending: bool, nulls_first: bool
) -> None:
    kind, values = IN_ORDER[case]
    shuffled = [values[-1], None, *values[1:-1][::-1], None, values[0]]
    numbers = {"n": (LONG, list(range(len(shuffled))))}

    (file,) = files(tmp_path, {"c": (kind, shuffled), **numbers}, field)

    expected = values[::-1] if descending else values
    places = [shuffled.index(value) for value in expected]
    nulls = [n for n, value in enumerate(shuffled) if value is None]
    assert column(file, "n") == ([*nulls, *places] if nulls_first else [*places, *nulls])
    assert file.sort_order_id == 1


@pytest.mark.parametrize("kind", [DOUBLE, Scalar("float")])
def test_numbers_that_are_none_are_at_both_ends(tmp_path: Path, kind: ColumnType) -> None:
    """Iceberg specification, "Sort Orders": -NaN, -Infinity, -value, -0, 0, value, Infinity, NaN."""
    expected = [None, MINUS_NAN, -math.inf, -2.0, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]

    (file,) = files(tmp_path, {"c": (kind, expected[::-1])}, "c")
    (reverse,) = files(tmp_path, {"c": (kind, expected)}, "c desc")

    assert list(map(as_bits, column(file))) == list(map(as_bits, expected))
    assert list(map(as_bits, column(reverse))) == list(map(as_bits, expected[::-1]))


def as_bits(value: float | None) -> bytes | None:
    return None if value is None else struct.pack(">d", value)


def test_rows_with_equal_values_are_sorted_by_the_next_field_and_then_as_they_were_read(tmp_path: Path) -> None:
    count = 1000
    columns: Columns = {
        "symbol": (TEXT, [f"S{n % 3}" for n in range(count)]),
        "at": (Scalar("timestamptz"), [(n % 5) * 86_400_000_000 + n for n in range(count)]),
        "n": (LONG, list(range(count))),
        "tags": (ListOf(TEXT), [[str(n)] if n % 2 else None for n in range(count)]),
        "o": (Struct((Column("d", DOUBLE),)), [{"d": n / 2} if n % 3 else None for n in range(count)]),
    }

    (file,) = files(tmp_path, columns, "symbol desc", "day(at)")

    by_hand = sorted(range(count), key=lambda n: (-(n % 3), n % 5, n))
    assert column(file, "n") == by_hand
    assert column(file, "tags") == [[str(n)] if n % 2 else None for n in by_hand]
    assert column(file, "o") == [{"d": n / 2} if n % 3 else None for n in by_hand]


def test_each_partition_has_its_own_sorted_file(tmp_path: Path) -> None:
    columns: Columns = {"p": (LONG, [n % 2 for n in range(400)]), "c": (LONG, [n * 7919 % 400 for n in range(400)])}

    made = files(tmp_path, columns, "truncate(10, c) desc", partition_by=["p"])

    assert [file.sort_order_id for file in made] == [1, 1]
    for file in made:
        tens = [value // 10 for value in column(file)]
        assert tens == sorted(tens, reverse=True)


def test_row_groups_of_a_sorted_file_have_narrow_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "ROW_GROUP_ROWS", 800)
    monkeypatch.setattr(write, "SORTED_ROW_GROUP_ROWS", 200)
    columns: Columns = {"c": (LONG, [n * 7919 % 800 for n in range(800)])}

    (file,) = files(tmp_path, columns, "c")
    (unsorted,) = files(tmp_path, columns)

    assert ranges(file) == [(0, 199), (200, 399), (400, 599), (600, 799)]
    assert ranges(unsorted) == [(0, 799)]
    assert (file.sort_order_id, unsorted.sort_order_id) == (1, None)
    assert len(file.split_offsets) == 4


def ranges(file: WrittenFile) -> list[tuple[int, int]]:
    footer = pq.read_metadata(file.path)
    found = [footer.row_group(n).column(0).statistics for n in range(footer.num_row_groups)]
    return [(each.min, each.max) for each in found]


def test_a_file_that_is_sorted_in_parts_only_does_not_say_that_it_is_sorted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "ROW_GROUP_ROWS", 400)
    monkeypatch.setattr(write, "SORTED_ROW_GROUP_ROWS", 100)
    columns: Columns = {"c": (LONG, [n * 7919 % 800 for n in range(800)])}

    (file,) = files(tmp_path, columns, "c")
    rolled = files(tmp_path, columns, "c", size=1)

    assert file.sort_order_id is None
    for begin in (0, 400):
        part = column(file)[begin : begin + 400]
        assert part == sorted(part)
    assert column(file) != sorted(column(file))
    assert {each.sort_order_id for each in rolled} == {1}, "each is sorted as a whole"
    assert len(rolled) > 1


@pytest.mark.parametrize("transform", ["void", "zorder"])
def test_an_order_that_another_writer_made_of_unknown_transforms_sorts_nothing(tmp_path: Path, transform: str) -> None:
    order = (
        f'{{"order-id": 3, "fields": [{{"source-id": 1, "transform": "{transform}", "direction": "asc",'
        ' "null-order": "nulls-first"}]}'
    )

    (file,) = files(tmp_path, {"c": (LONG, [3, 1, 2])}, order=order)

    assert column(file) == [3, 1, 2]
    assert file.sort_order_id is None
