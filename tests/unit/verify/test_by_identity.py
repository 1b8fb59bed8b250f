"""Numbers by identity, in as many passes as it takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.verify.by_identity import LOWEST, ByIdentity, Combined, Identity

HALF = st.integers(-2, 2) | st.sampled_from([-(2**63), 2**63 - 1])
ROWS = st.lists(st.tuples(HALF, HALF, st.integers(0, 9)), max_size=40)


def in_passes(rows: list[tuple[int, int, int]], combine: np.ufunc, *, most: int, parts: int) -> dict[Identity, int]:
    found: dict[Identity, int] = {}
    start: Identity | None = LOWEST
    while start is not None:
        held = ByIdentity(combine, start=start, most=most)
        for part in range(parts):
            columns = np.array(rows[part::parts], np.int64).reshape(-1, 3).T
            held.add(*columns)
        one = held.combined()
        assert len(one.first) <= most
        found |= as_dict(one)
        start = held.end
    return found


def as_dict(combined: Combined) -> dict[Identity, int]:
    identities = list(zip(combined.first.tolist(), combined.second.tolist(), strict=True))
    assert identities == sorted(set(identities))
    return dict(zip(identities, combined.number.tolist(), strict=True))


@given(rows=ROWS, most=st.integers(2, 10), parts=st.integers(1, 3))
def test_each_identity_has_its_greatest_number_however_few_fit(
    rows: list[tuple[int, int, int]], most: int, parts: int
) -> None:
    expected: dict[Identity, int] = {}
    for first, second, number in rows:
        expected[first, second] = max(expected.get((first, second), 0), number)

    assert in_passes(rows, np.maximum, most=most, parts=parts) == expected


@pytest.mark.parametrize("most", [2, 3, 100])
def test_each_identity_has_the_sum_of_its_numbers(most: int) -> None:
    rows = [(1, 1, 1), (1, 2, 1), (1, 1, 1), (-5, 0, 1), (1, 1, 1)]

    assert in_passes(rows, np.add, most=most, parts=2) == {(-5, 0): 1, (1, 1): 3, (1, 2): 1}
