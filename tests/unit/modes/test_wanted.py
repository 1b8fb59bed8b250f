"""The identities of a batch, found among others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.modes.wanted import MOST_BITS, Wanted

LONGS = st.integers(-(2**63), 2**63 - 1)
FEW = st.integers(-2, 2)
"""Halves that are often equal."""

Identity = tuple[int, int]


def longs(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@given(
    st.lists(st.tuples(FEW | LONGS, FEW | LONGS), unique=True, max_size=30),
    st.lists(st.tuples(FEW | LONGS, FEW | LONGS), max_size=30),
)
def test_rows_are_found_as_a_dictionary_finds_them(
    wanted: list[tuple[int, int]], others: list[tuple[int, int]]
) -> None:
    stored = others + wanted[::2]
    place_of = {each: place for place, each in enumerate(wanted)}
    first, second = longs([a for a, _ in stored]), longs([b for _, b in stored])
    search = Wanted(longs([a for a, _ in wanted]), longs([b for _, b in wanted]))

    likely, begin = search.candidates(first)
    found = search.find(first[likely], second[likely], begin)

    assert found.tolist() == search.find(first[likely], second[likely]).tolist()
    assert dict(zip(likely[found >= 0].tolist(), found[found >= 0].tolist(), strict=True)) == {
        index: place_of[each] for index, each in enumerate(stored) if each in place_of
    }


def test_identities_with_the_same_first_half_are_told_apart_by_the_second() -> None:
    search = Wanted(longs([7, 7, 7]), longs([30, 10, 20]))
    first, second = longs([7, 7, 7, 7]), longs([10, 40, 20, 30])

    likely, begin = search.candidates(first)
    assert likely.tolist() == [0, 1, 2, 3]
    assert search.find(first, second).tolist() == [1, -1, 2, 0] == search.find(first, second, begin).tolist()


@pytest.mark.parametrize("bits", [12, MOST_BITS], ids=["few identities", "many"])
def test_first_halves_that_differ_in_high_bits_only_are_no_candidates(bits: int) -> None:
    count = 1 if bits == 12 else 1 << 20
    search = Wanted(np.arange(count, dtype=np.int64), np.zeros(count, np.int64))

    assert search.candidates(longs([0, 1 << 40]))[0].tolist() == [0]


def test_nothing_is_found_without_identities() -> None:
    assert Wanted(longs([]), longs([])).candidates(longs([0, 1]))[0].tolist() == []
