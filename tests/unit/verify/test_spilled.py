"""Identities in a temporary file, in parts that fit in memory."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.verify import by_identity, spilled
from frazil.verify.by_identity import Identity, Numbers, counted
from frazil.verify.spilled import SpilledIdentities

HALF = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), -1, 0, 2**63 - 1])
IDENTITIES = st.lists(st.tuples(HALF, HALF), max_size=30)


def as_halves(identities: list[Identity]) -> tuple[Numbers, Numbers]:
    first, second = np.array(identities, np.int64).reshape(-1, 2).T
    return first, second


def counts_of(held: SpilledIdentities) -> list[tuple[Identity, int]]:
    found: list[tuple[Identity, int]] = []
    for number in range(held.parts):
        for each in counted(partial(held.part, number)):
            identities = zip(each.first.tolist(), each.second.tolist(), strict=True)
            found += zip(identities, each.numbers[0].tolist(), strict=True)
    return found


@pytest.mark.parametrize("most", [2, 6, by_identity.MOST_HELD])
@given(identities=IDENTITIES, again=st.integers(0, 30), block=st.integers(1, 40))
def test_each_identity_is_counted_once_in_ascending_order(
    most: int, identities: list[Identity], again: int, block: int
) -> None:
    rows = [*identities, *identities[:again]]

    with pytest.MonkeyPatch.context() as patch, SpilledIdentities(rows=len(rows), block=block) as held:
        patch.setattr(by_identity, "MOST_HELD", most)
        for some in (rows[::2], rows[1::2]):
            held.add(*as_halves(some))

        assert held.finish()
        assert counts_of(held) == sorted(Counter(rows).items())


def test_many_rows_are_divided_into_parts_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_identity, "MOST_HELD", 200)
    monkeypatch.setattr(spilled, "IN_MEMORY_BYTES", 1000)
    first, second = np.random.default_rng(7).integers(-(2**63), 2**63 - 1, (2, 10_000))

    with SpilledIdentities(rows=10_000, block=1000) as held:
        held.add(first, second)
        held.finish()
        sizes = [sum(len(half) for half, _ in held.part(number)) for number in range(held.parts)]

    assert (sum(sizes), held.parts) == (10_000, 128)
    assert max(sizes) < 200


def test_the_identities_are_not_complete_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", lambda _: Path("/dev/full").open("wb"))  # noqa: SIM115

    with SpilledIdentities(rows=10, block=2) as held:
        held.add(*as_halves([(1, 1), (2, 2), (3, 3)]))

        assert not held.finish()


@pytest.mark.parametrize(("free", "complete"), [(160_000_000, False), (320_000_000, True)])
def test_half_of_the_free_space_may_be_used(free: int, complete: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(free, 0, free))

    with SpilledIdentities(rows=10_000_000) as held:
        assert held.complete == complete


def test_the_identities_are_not_complete_without_a_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an image whose disk is read-only, or whose disks are full when Python looks for such a folder."""

    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    monkeypatch.setattr(spilled, "IN_MEMORY_BYTES", 10)

    with SpilledIdentities(rows=3) as held:
        held.add(*as_halves([(1, 1), (2, 2), (3, 3)]))

        assert not held.finish()
