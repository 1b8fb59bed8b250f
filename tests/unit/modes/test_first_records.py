"""Which rows of a batch are the first ones of their identities, as values."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from frazil.model.ingested import DeletedRows, FollowedRecords, FollowedRows, WrittenFile
from frazil.model.probe import FoundRows, StoredFile
from frazil.modes.deduplicate import keep_the_first
from frazil.modes.mode import BatchChange, Written
from frazil.modes.wanted import Numbers

Record = tuple[int, int, int, int, int]
"""The halves of an identity, a timestamp, a partition and an offset."""


def changed(*files: Sequence[Record], stored: frozenset[tuple[int, int]] = frozenset()) -> BatchChange:
    def find(first: Numbers, second: Numbers) -> Sequence[FoundRows]:
        wanted = list(zip(first.tolist(), second.tolist(), strict=True))
        assert len(set(wanted)) == len(wanted)
        places = [place for place, each in enumerate(wanted) if each in stored]
        none = array("q", [0] * len(places))
        return [FoundRows(StoredFile("s", 9), 9, array("q"), none, array("q", places), none, none)]

    written = [WrittenFile(f"f{n}", len(file), 0, (), 0) for n, file in enumerate(files)]
    followed = [FollowedRows(f"f{n}", records(file)) for n, file in enumerate(files)]
    return keep_the_first(Written(written, sum(map(len, files)), followed), find)


def records(file: Sequence[Record]) -> FollowedRecords:
    first, second, order, partition, offset = (array("q", column) for column in zip(*file, strict=True))
    return FollowedRecords(first, second, partition, offset, (order,))


def test_the_least_timestamp_partition_and_offset_is_first_across_files() -> None:
    change = changed([(1, 1, 5, 0, 7), (2, 1, 5, 0, 8)], [(1, 1, 5, 0, 6), (2, 1, 4, 1, 9)])

    assert change.deletes == []
    assert [file.path for file in change.files] == ["f1"]
    assert {number: (late.rows.rows, late.deletes) for number, late in change.late.items()} == {0: (2, 0)}
    assert change.figures["added-records"] == 2


def test_rows_of_duplicates_are_taken_out_of_a_file_that_keeps_others() -> None:
    change = changed([(1, 1, 1, 0, 0), (1, 1, 2, 0, 1), (2, 2, 3, 0, 2)], stored=frozenset([(2, 2)]))

    (gone,) = change.deletes
    assert isinstance(gone, DeletedRows)
    assert (gone.path, list(gone.positions)) == ("f0", [1, 2])
    assert (change.figures["added-records"], change.figures["added-position-deletes"]) == (3, 2)


def test_identities_with_the_same_first_half_are_different() -> None:
    change = changed([(5, 1, 1, 0, 0), (5, 2, 1, 0, 1), (5, 1, 1, 0, 2)], stored=frozenset([(5, 2)]))

    (gone,) = change.deletes
    assert isinstance(gone, DeletedRows)
    assert list(gone.positions) == [1, 2]


def test_a_batch_without_rows_changes_nothing() -> None:
    change = changed()

    assert (tuple(change.files), change.deletes, change.late) == ((), [], {})


def test_the_extremes_of_longs_are_identities() -> None:
    low, high = -(2**63), 2**63 - 1
    change = changed([(low, low, low, 0, 0), (high, high, high, 0, 1), (low, high, 0, 0, 2)])

    assert np.size(change.deletes) == 0
