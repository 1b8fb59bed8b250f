"""Numbers by identity, in as many passes as it takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.verify.by_identity import LOWEST, ByIdentity, Combine, Combined, Identity, greatest, summed

HALF = st.integers(-2, 2) | st.sampled_from([-(2**63), 2**63 - 1])
ROWS = st.lists(st.tuples(HALF, HALF, st.integers(0, 9)), max_size=40)


def in_passes(rows: list[tuple[int, int, int]], combine: Combine, *, most: int, parts: int) -> dict[Identity, int]:
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
    return dict(zip(identities, combined.numbers[0].tolist(), strict=True))


@given(rows=ROWS, most=st.integers(2, 10), parts=st.integers(1, 3))
def test_each_identity_has_its_greatest_number_however_few_fit(
    rows: list[tuple[int, int, int]], most: int, parts: int
) -> None:
    expected: dict[Identity, int] = {}
    for first, second, number in rows:
        expected[first, second] = max(expected.get((first, second), 0), number)

    assert in_passes(rows, greatest, most=most, parts=parts) == expected


@pytest.mark.parametrize("most", [2, 3, 100])
def test_each_identity_has_the_sum_of_its_numbers(most: int) -> None:
    rows = [(1, 1, 1), (1, 2, 1), (1, 1, 1), (-5, 0, 1), (1, 1, 1)]

    assert in_passes(rows, summed, most=most, parts=2) == {(-5, 0): 1, (1, 1): 3, (1, 2): 1}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-2, 2), st.integers(-2, 2)), min_size=1, max_size=20))
def test_rows_of_several_numbers_are_compared_from_the_first_on(rows: list[tuple[int, int, int]]) -> None:
    held = ByIdentity(greatest, columns=2, most=100)
    first, *numbers = np.array(rows, np.int64).T
    held.add(first, np.zeros(len(first), np.int64), *numbers)

    found = held.combined()
    expected = {identity: max(row[1:] for row in rows if row[0] == identity) for identity, *_ in rows}
    one, other = (each.tolist() for each in found.numbers)
    assert dict(zip(found.first.tolist(), zip(one, other, strict=True), strict=True)) == expected
