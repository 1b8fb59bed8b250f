"""Columns of Arrow where code expects sequences of Python values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from frazil.records import HEADER_OBJECTS, ColumnView, HeaderColumn, Records, UnreadableHeaders, binary

HEADERS = pa.large_list(pa.struct([("key", pa.large_binary()), ("value", pa.large_binary())]))
FOUND = [
    None,
    [{"key": b"k", "value": b"\xff"}, {"key": b"k", "value": None}],
    [],
    [{"key": b"\xfe", "value": b""}],
    None,
]
PROBLEMS = [None, None, None, None, "too many"]
"""Of five records: none, two of one name, an empty list, one whose key is not UTF-8, and some that are refused."""


def test_a_column_is_a_sequence_of_python_values() -> None:
    column: ColumnView[int | None] = ColumnView(pa.array([5, None, 7]))

    assert list(column) == [5, None, 7]
    assert (column[0], column[-1], len(column)) == (5, 7, 3)
    assert list(column[1:]) == [None, 7]
    assert bool(column)
    assert not ColumnView(pa.array([], pa.int64()))


def test_numpy_and_arrow_take_a_column_as_it_is() -> None:
    array = pa.array([5, 6])
    column: ColumnView[int] = ColumnView(array)

    assert pa.array(column) is array
    assert pa.array(column, pa.int32()).type == pa.int32()
    assert np.shares_memory(np.asarray(column, np.int64), array.to_numpy())


def test_a_column_of_texts_becomes_any_type_of_text() -> None:
    kinds = pa.array(["CREATE_TIME", None]).dictionary_encode()

    assert pa.array(ColumnView(kinds), pa.string()).to_pylist() == ["CREATE_TIME", None]


def test_headers_are_read_when_they_are_asked_for() -> None:
    headers = HeaderColumn(pa.array(FOUND, HEADERS), pa.array(PROBLEMS, pa.string()))
    bad, refused = UnreadableHeaders("a header key is not UTF-8: 0xfe"), UnreadableHeaders("too many")

    assert list(headers) == [None, [("k", b"\xff"), ("k", None)], [], bad, refused]
    assert [headers[n] for n in (1, 3, 4)] == [[("k", b"\xff"), ("k", None)], bad, refused]
    assert list(headers[2:]) == [[], bad, refused]


def test_headers_count_as_the_memory_that_they_take_when_they_are_read() -> None:
    headers = HeaderColumn(pa.array(FOUND, HEADERS), pa.array(PROBLEMS, pa.string()))

    assert headers.memory == 3 * HEADER_OBJECTS + 4
    assert headers[2:].memory == HEADER_OBJECTS + 1
    assert headers[:1].memory == 0


def test_sizes_count_no_bytes_of_nulls_and_none_outside_a_slice() -> None:
    ends = pa.array([0, 2, 5, 9], pa.int64()).buffers()[1]
    second_is_null = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        3,
        [pa.array([1, 0, 1], pa.int8()).cast(pa.bool_()).buffers()[1], ends, pa.py_buffer(b"x" * 9)],
    )
    whole = Records([0, 1, 2], [0, 0, 0], binary([b"k", None, b"kk"]), second_is_null, [None] * 3, next_offset=3)

    assert whole.sizes.tolist() == [3, 0, 6]
    assert whole.total_size == 9
    assert whole.after(2).sizes.tolist() == [6]
    assert whole.after(2).total_size == 6
    assert whole.first(0).total_size == 0
