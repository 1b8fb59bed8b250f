"""How many rows of a row group may be decoded at once, by what its footer and its dictionaries say."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.adapters.iceberg.parquet_slices import FEW_ROWS, SLICE_BYTES, opened_for_dictionaries, slices

BATCH_BYTES = 4 << 20
ROWS = 4_000
LONG = "x" * 10_000

TEXT = pa.string()
SHAPES: Mapping[str, tuple[Any, Any]] = {
    "text": (LONG, TEXT),
    "large text": (LONG, pa.large_string()),
    "binary": (LONG.encode(), pa.binary()),
    "fixed": (LONG.encode(), pa.binary(len(LONG))),
    "list": ([LONG[:5_000]] * 2, pa.list_(TEXT)),
    "map": ([("k", LONG)], pa.map_(TEXT, TEXT)),
    "struct": ({"inner": LONG}, pa.struct([("inner", TEXT)])),
    "list of structs": ([{"inner": LONG}], pa.list_(pa.struct([("inner", TEXT)]))),
}


def _long() -> pa.Array:
    return pa.array([LONG] * ROWS)


def _parts(column: pa.Array, **settings: Any) -> list[pa.RecordBatch]:
    return _slices(pa.table({"v": column, "n": range(len(column))}), **settings)


def _slices(table: pa.Table, **settings: Any) -> list[pa.RecordBatch]:
    file = io.BytesIO()
    pq.write_table(table, file, **settings)
    assert len(file.getvalue()) < 2_000_000
    parquet = pq.ParquetFile(file, pre_buffer=False)
    dictionaries = opened_for_dictionaries(file, parquet.metadata)
    return list(slices(parquet, dictionaries, 0, table.column_names, BATCH_BYTES))


def _sizes(parts: Sequence[pa.RecordBatch]) -> list[int]:
    assert [n for part in parts for n in part["n"].to_pylist()] == list(range(ROWS))
    return [part.nbytes for part in parts]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stored", [True, False], ids=["arrow", "plain"])
def test_what_a_dictionary_holds_once_is_counted_for_each_row(shape: str, stored: bool) -> None:
    value, kind = SHAPES[shape]
    column = pa.array([value] * ROWS, kind)

    assert max(_sizes(_parts(column, store_schema=stored))) < 2 * BATCH_BYTES


def test_long_values_after_a_run_of_short_ones_fit_as_well() -> None:
    column = pa.array(["s"] * (ROWS // 2) + [LONG] * (ROWS // 2))

    assert max(_sizes(_parts(column))) < SLICE_BYTES + BATCH_BYTES


def test_an_encoding_without_a_bound_gets_few_rows() -> None:
    """Each value of DELTA_BYTE_ARRAY is stored without the start that it shares with the value before it."""
    parts = _parts(_long(), use_dictionary=False, column_encoding={"v": "DELTA_BYTE_ARRAY", "n": "PLAIN"})

    assert max(_sizes(parts)) < 2 * BATCH_BYTES
    assert max(part.num_rows for part in parts) <= FEW_ROWS


NOT_FOUND: Mapping[str, Callable[[], Mapping[str, Any]]] = {
    "empty list first": lambda: {"v": pa.array([[]] + [[LONG]] * (ROWS - 1), pa.list_(TEXT))},
    "null list first": lambda: {"v": pa.array([None] + [[LONG]] * (ROWS - 1), pa.list_(TEXT))},
    "empty map first": lambda: {"v": pa.array([[]] + [[("k", LONG)]] * (ROWS - 1), pa.map_(TEXT, TEXT))},
    "list of fixed size": lambda: {"v": pa.array([[LONG, LONG]] * ROWS, pa.list_(TEXT, 2))},
    "json": lambda: {"v": _long().cast(pa.json_())},
    "dotted": lambda: {"v.b": _long(), "v": pa.array([{"b": 1}] * ROWS)},
    "dotted twice": lambda: {"v.b": _long(), "v": pa.array([{"b": "s"}] * ROWS)},
}


@pytest.mark.parametrize("shape", NOT_FOUND)
def test_a_dictionary_that_is_not_found_gets_few_rows(shape: str) -> None:
    parts = _slices(pa.table(NOT_FOUND[shape]()))

    assert sum(part.num_rows for part in parts) == ROWS
    assert max(part.num_rows for part in parts) <= FEW_ROWS
    assert max(part.nbytes for part in parts) < 2 * BATCH_BYTES


@pytest.mark.parametrize("value", [None, [], [None]])
def test_a_column_without_values_is_decoded_many_rows_at_a_time(value: list[None] | None) -> None:
    assert len(_parts(pa.array([value] * ROWS, pa.list_(TEXT)))) == 1


def test_a_slice_of_a_column_of_a_dictionary_type_has_its_own_values_only() -> None:
    """Slices of one dictionary would each count the whole dictionary, and be cut down to single rows."""
    values = pa.array([f"{n:06}" * 300 for n in range(ROWS)]).dictionary_encode()
    table = pa.table(
        {
            "plain": values,
            "list": pa.ListArray.from_arrays(range(ROWS + 1), values),
            "struct": pa.StructArray.from_arrays([values], ["inner"]),
            "map": pa.MapArray.from_arrays(range(ROWS + 1), pa.array(range(ROWS)), values),
        }
    )

    parts = _slices(table, compression="zstd", dictionary_pagesize_limit=64 << 20)

    assert all(part.nbytes < part.num_rows * 8_000 for part in parts)
    assert [row for part in parts for row in part.to_pylist()] == table.to_pylist()


def test_plain_values_that_are_long_in_part_of_a_row_group_get_few_rows() -> None:
    column = pa.array(["s"] * (ROWS // 2) + [LONG] * (ROWS // 2))

    parts = _parts(column, use_dictionary=False, compression="zstd")

    assert max(_sizes(parts)) < 2 * BATCH_BYTES
    assert max(part.num_rows for part in parts) <= FEW_ROWS


def test_short_values_are_decoded_many_at_a_time() -> None:
    parts = _parts(pa.array([f"v{n % 9}" for n in range(ROWS)]))

    assert [part.num_rows for part in parts] == [ROWS]


def test_dictionaries_of_a_row_group_that_is_one_slice_anyway_are_not_read() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"v": ["some", "text"] * 1_000}), file)
    parquet = pq.ParquetFile(file, pre_buffer=False)
    unreadable: Any = None

    (part,) = slices(parquet, unreadable, 0, ["v"], BATCH_BYTES)

    assert part["v"].to_pylist() == ["some", "text"] * 1_000
