"""The names of messages, read from many payloads at once, are those that each payload names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.faults import Broken
from frazil.formats.protobuf.indexes import read_indexes, written_indexes
from frazil.formats.protobuf.message_names import MessageNameDecoder
from frazil.records import binary

NAMES = {(0,): "A", (0, 1): "A.B", (3,): "C", (200,): "D", (1, 0, 2): "E"}
HEADS = st.one_of(
    st.sampled_from([written_indexes(path) for path in (*NAMES, (1,), (0, 7))]),
    st.sampled_from([b"", b"\x02", b"\x02\x80", b"\x02\0", b"\x80\0", b"\xff" * 11, b"\x7f", b"\x01", b"\xca\x01"]),
    st.binary(max_size=6),
)


@given(st.lists(st.tuples(HEADS, st.binary(max_size=3)), max_size=40), st.integers(0, 5))
def test_many_payloads_are_named_as_each_of_them_is(given: list[tuple[bytes, bytes]], skip: int) -> None:
    payloads = [head + data for head, data in given]
    expected = [named(payload) for payload in payloads]

    found = MessageNameDecoder(NAMES).decode(binary([b"\0" * skip + each for each in payloads]), skip=skip)

    assert found.rows.column(0).to_pylist() == [each for each in expected if each is not None]
    assert [each.index for each in found.rejects] == [n for n, each in enumerate(expected) if each is None]


def named(payload: bytes) -> str | None:
    try:
        return NAMES.get(read_indexes(payload)[0])
    except Broken:
        return None
