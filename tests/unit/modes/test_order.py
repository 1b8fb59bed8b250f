"""Values of every type that orders records, as longs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from frazil.modes.order import as_order


@pytest.mark.parametrize(
    ("values", "longs"),
    [
        (pa.array([3, None], pa.int32()), [3, None]),
        (pa.array([1 << 40], pa.int64()), [1 << 40]),
        (pa.array([19_000], pa.int32()).cast(pa.date32()), [19_000]),
        (pa.array([7], pa.timestamp("us")), [7]),
        (pa.array([7], pa.timestamp("us", tz="UTC")), [7]),
        (pa.array([7], pa.timestamp("ms", tz="UTC")), [7_000]),
    ],
    ids=str,
)
def test_a_value_is_a_long_in_the_same_order(values: pa.Array, longs: list[int | None]) -> None:
    assert as_order(values).to_pylist() == longs
