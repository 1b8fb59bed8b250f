"""Two columns are compared bit for bit, and as deep as they go."""

from __future__ import annotations

import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from frazil.verify.columns import differing

OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
PAIR = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])


@pytest.mark.parametrize(
    ("kind", "one", "other", "expected"),
    [
        (pa.int64(), [1, 2, None, None], [1, 3, None, 0], [1, 3]),
        (pa.string(), ["a", "", None], ["a", None, None], [1]),
        (pa.binary(), [b"\x00", b"a"], [b"", b"a"], [0]),
        (pa.bool_(), [True, False, None], [True, True, False], [1, 2]),
        (pa.decimal128(5, 2), [Decimal("1.10"), Decimal("1.10")], [Decimal("1.10"), Decimal("1.11")], [1]),
        (pa.float64(), [float("nan"), 0.0, 1.5, float("nan")], [OTHER_NAN, -0.0, 1.5, None], [1, 3]),
        (pa.float32(), [float("nan"), 0.0], [1.0, 0.0], [0]),
        (pa.list_(pa.float64()), [[0.0], [1.0, 2.0], None, []], [[-0.0], [1.0], [], None], [0, 1, 2, 3]),
        (pa.list_(pa.int32()), [[1, 2], [], [3]], [[1, 2], [], [3]], []),
        (PAIR, [{"a": 1, "b": ["x"]}, None, None], [{"a": 1, "b": ["y"]}, None, {"a": None, "b": None}], [0, 2]),
        (pa.map_(pa.string(), pa.int32()), [[("k", 1)], [("k", 1)]], [[("k", 1)], [("k", 2)]], [1]),
        (pa.map_(pa.string(), pa.int32()), [[("k", 1)], []], [[("j", 1)], []], [0]),
        (pa.list_(PAIR), [[{"a": 1, "b": []}], None], [[{"a": 1, "b": [None]}], None], [0]),
    ],
)
def test_rows_that_differ(kind: pa.DataType, one: list[object], other: list[object], expected: list[int]) -> None:
    assert np.flatnonzero(differing(pa.array(one, kind), pa.array(other, kind))).tolist() == expected


def test_slices_are_compared_where_they_lie() -> None:
    kind = pa.list_(pa.int32())
    one = pa.array([[9], [1], None, [2, 3], [4]], kind).slice(1)
    other = pa.array([[1], None, [2, 5], [4]], kind)

    assert np.flatnonzero(differing(one, other)).tolist() == [2]
