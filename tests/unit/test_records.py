"""Records in Arrow: their headers, their sizes, and parts of them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from frazil.records import BINARY_HEADERS, HEADER_MEMORY, Headers, Records, UnreadableHeaders
from tests.headers import header_lists

AS_TEXT = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary()), ("added", pa.int32())]))
FETCHED = Headers(
    pa.array(
        [
            None,
            [{"key": b"k", "value": b"\xff"}, {"key": b"k", "value": None}],
            [],
            [{"key": b"fine", "value": b""}, {"key": b"\xfe", "value": b""}, {"key": b"\xfd" * 50, "value": b""}],
            None,
            [{"key": "ž".encode(), "value": b"1"}],
        ],
        BINARY_HEADERS,
    ),
    pa.array([None, None, None, None, "too many", None], pa.string()),
)
"""Of six records: none, two of one name, an empty list, some whose keys are not UTF-8, refused ones, and a text."""


def test_headers_with_a_key_that_is_not_text_have_a_problem_instead() -> None:
    checked = FETCHED.checked()

    assert checked.problems.to_pylist() == [None, None, None, "a header key is not UTF-8: 0xfe", "too many", None]
    assert checked.lists.cast(AS_TEXT).to_pylist() == [
        None,
        [{"key": "k", "value": b"\xff", "added": None}, {"key": "k", "value": None, "added": None}],
        [],
        None,
        None,
        [{"key": "ž", "value": b"1", "added": None}],
    ]


def test_a_part_of_headers_is_checked_alone() -> None:
    rest = FETCHED.slice(3, 2).checked()

    assert rest.problems.to_pylist() == ["a header key is not UTF-8: 0xfe", "too many"]
    assert FETCHED.slice(4).checked().lists.cast(AS_TEXT).to_pylist()[0] is None
    assert FETCHED.take(pa.array([5, None, 3])).checked().problems.to_pylist() == [
        None,
        None,
        "a header key is not UTF-8: 0xfe",
    ]


keys, values = st.sampled_from([b"k", b"\xff", "ž".encode()]), st.sampled_from([None, b"v"])
one_list = st.none() | st.lists(st.fixed_dictionaries({"key": keys, "value": values}), max_size=3)


@example([[{"key": b"k", "value": None}], [{"key": b"\xff", "value": None}]], 0, 1, False)
@given(st.lists(one_list, max_size=8), st.integers(0, 8), st.integers(0, 8), st.booleans())
def test_a_part_of_headers_is_checked_as_if_it_were_the_whole(
    found: list[list[dict[str, bytes | None]] | None], start: int, length: int, taken: bool
) -> None:
    """Also a cast to text reads no key of the records around the part."""
    whole = Headers(pa.array(found, BINARY_HEADERS), pa.nulls(len(found), pa.string()))
    part, alone = whole.slice(start, length), found[start : start + length]
    if taken:
        part = part.slice(0, max(len(part) - 1, 0)).take(pa.array(range(max(len(part) - 1, 0)), pa.int64()))
        alone = alone[:-1]

    checked = part.checked()

    good = [None if any(each["key"] == b"\xff" for each in headers or ()) else headers for headers in alone]
    assert checked.lists.to_pylist() == good
    assert [problem is None for problem in checked.problems.to_pylist()] == [
        all(each["key"] != b"\xff" for each in headers or ()) for headers in alone
    ]
    as_text = checked.lists.cast(AS_TEXT)
    as_text.validate(full=True)
    assert [None if row is None else [each["key"].encode() for each in row] for row in as_text.to_pylist()] == [
        None if headers is None else [each["key"] for each in headers] for headers in good
    ]


def test_a_long_key_that_is_not_text_is_shown_in_part() -> None:
    only = Headers(pa.array([[{"key": b"\xfd" * 50, "value": None}]], BINARY_HEADERS), pa.nulls(1, pa.string()))

    assert only.checked().problems.to_pylist() == [f"a header key is not UTF-8: 0x{'fd' * 40}…"]


def test_headers_become_what_python_gave() -> None:
    given = [None, [], [("a", b"1"), ("ž", None)], UnreadableHeaders("too many")]

    assert header_lists(Headers.of(given)) == given
    assert header_lists(Headers.of([None, None])) == [None, None]
    assert Headers.of([]).lists.type == Headers.of(given).lists.type == BINARY_HEADERS


def test_headers_count_as_the_memory_that_they_take() -> None:
    assert FETCHED.memory == 6 * HEADER_MEMORY + 3 + 4 + 1 + 50 + 3
    assert FETCHED.slice(5).memory == HEADER_MEMORY + 3
    assert FETCHED.slice(0, 1).memory == 0


def test_parts_have_all_columns_of_their_records() -> None:
    texts = [("h", b"%d" % n) for n in range(4)]
    whole = replace(
        Records.of(
            [5, 6, 8, 9], [1, None, 3, 4], [b"a", None, b"c", b"d"], [b"1", b"2", None, b"4"], [[t] for t in texts], 12
        ),
        timestamp_types=pa.array(["CREATE_TIME"] * 3 + [None]),
    )

    first, after, some = whole.first(2), whole.after(3), whole.filter(pa.array([False, True, True, False]))

    assert [part.offsets.to_pylist() for part in (first, after, some)] == [[5, 6], [9], [6, 8]]
    assert [part.next_offset for part in (first, after, some)] == [8, 12, 12]
    assert [header_lists(part.headers) for part in (first, after, some)] == [
        [[texts[0]], [texts[1]]],
        [[texts[3]]],
        [[texts[1]], [texts[2]]],
    ]
    assert some.timestamps_ms.to_pylist() == [None, 3]
    assert (some.keys.to_pylist(), some.values.to_pylist()) == ([None, b"c"], [b"2", None])
    assert (after.timestamp_types.to_pylist(), after.leader_epochs) == ([None], None)
    assert (whole.first(4), whole.filter(pa.array([True] * 4))) == (whole, whole)


def test_sizes_count_no_bytes_of_nulls_and_none_outside_a_slice() -> None:
    ends = pa.array([0, 2, 5, 9], pa.int64()).buffers()[1]
    second_is_null = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        3,
        [pa.array([1, 0, 1], pa.int8()).cast(pa.bool_()).buffers()[1], ends, pa.py_buffer(b"x" * 9)],
    )
    keys = [b"k", None, b"kk"]
    whole = replace(Records.of([0, 1, 2], [0] * 3, keys, [None] * 3, [None] * 3, 3), values=second_is_null)

    assert whole.sizes.tolist() == [3, 0, 6]
    assert whole.payload_bytes == 9
    assert whole.after(2).sizes.tolist() == [6]
    assert whole.after(2).payload_bytes == 6
    assert whole.first(0).payload_bytes == 0
