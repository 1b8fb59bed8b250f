"""Which small files of a table with all records are merged."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from frazil.maintain.merging import (
    FEWEST_FILES,
    LAST_SHARE,
    Merge,
    is_time_to_look,
    pays_after,
    to_merge,
)
from frazil.maintain.rewriting import FILE_ROWS, NEVER, PASS_BYTES, WORTH_A_SNAPSHOT
from frazil.model.probe import StoredFile
from frazil.model.snapshot import Snapshot

FULL = PASS_BYTES
SMALL = 1 << 20


def files(count: int, *, rows: int = 1_000, size: int = SMALL, day: int = 1, name: str = "f") -> list[StoredFile]:
    return [StoredFile(f"{name}{day}-{n:04}", rows, (), size, (0, day)) for n in range(count)]


def merges(
    found: Sequence[StoredFile], *hot: int, share: float = 0.25, copies: int = 10**9, worth: int = 0
) -> list[Merge]:
    partitions = [(0, day) for day in hot]
    return to_merge(found, share, full=FULL, copies=copies, hot=partitions, worth=worth)


def test_small_files_of_a_cold_partition_become_one() -> None:
    (merge,) = merges(files(20))

    assert len(merge.files) == 20
    assert merge.saved == 19 * FILE_ROWS
    assert merge.rows == 20_000


def test_files_of_different_partitions_stay_apart() -> None:
    found = merges([*files(3, day=1), *files(4, day=2), *files(1, day=3)])

    assert sorted({each.partition for each in merge.files} == {merge.files[0].partition} for merge in found) == [
        True,
        True,
    ]
    assert sorted(len(merge.files) for merge in found) == [3, 4]


def test_files_that_are_full_enough_stay() -> None:
    assert merges(files(5, size=FULL * 3 // 4)) == []


def test_merged_files_are_not_larger_than_the_target() -> None:
    found = to_merge(files(20, size=FULL // 6), 0.25, full=FULL, copies=10**9, hot=(), pass_bytes=10 * FULL, worth=0)

    assert sorted(len(merge.files) for merge in found) == [2, 6, 6, 6]
    assert all(merge.size <= FULL for merge in found)


def test_one_merge_is_made_even_if_it_has_more_bytes_than_a_pass() -> None:
    (merge,) = to_merge(files(20, size=FULL // 6), 0.25, full=FULL, copies=10**9, hot=(), pass_bytes=1, worth=0)

    assert len(merge.files) == 6


def test_files_with_many_rows_for_their_number_are_not_worth_a_copy() -> None:
    rows = int(FILE_ROWS / LAST_SHARE)

    assert merges(files(4, rows=rows)) == []
    assert len(merges(files(4, rows=rows // 2))) == 1


def test_few_files_of_a_hot_partition_wait_for_more() -> None:
    assert merges(files(FEWEST_FILES - 1), 1) == []
    (merge,) = merges(files(FEWEST_FILES), 1)
    assert not merge.is_cold


def test_rows_of_a_hot_partition_are_copied_for_more_benefit() -> None:
    rows = int(FILE_ROWS / 0.25)

    assert merges(files(10, rows=rows), 1) == []
    assert len(merges(files(10, rows=rows))) == 1


def test_files_of_a_hot_partition_that_fill_one_are_merged_for_the_last_time() -> None:
    rows = int(FILE_ROWS / 0.25)

    (merge,) = merges(files(10, rows=rows, size=FULL // 10), 1)

    assert len(merge.files) == 10


def test_a_large_file_of_a_hot_partition_is_not_copied_with_a_few_small_ones() -> None:
    large = files(1, rows=50_000, size=40 * SMALL, name="large")

    (merge,) = merges([*large, *files(10)], 1)
    assert large[0] not in merge.files
    (merge,) = merges([*large, *files(40)], 1)
    assert large[0] in merge.files


def test_cold_partitions_are_first() -> None:
    found = merges([*files(20, day=1), *files(10, day=2, rows=5_000)], 1)

    assert [merge.files[0].partition for merge in found] == [(0, 2), (0, 1)]


def test_no_more_rows_are_copied_than_it_is_told() -> None:
    found = [*files(10, day=1), *files(10, day=2)]

    assert len(merges(found, copies=20_000)) == 2
    assert len(merges(found, copies=19_999)) == 1
    assert merges(found, copies=9_999) == []


def test_merges_that_save_little_altogether_wait() -> None:
    assert merges(files(10), worth=WORTH_A_SNAPSHOT) == []
    assert len(merges(files(11), worth=WORTH_A_SNAPSHOT)) == 1


def test_the_cost_of_a_copy_is_told_in_scans() -> None:
    assert pays_after(copied_rows=1_000, saved_rows=10_000) == 3
    assert pays_after(copied_rows=10_001, saved_rows=10_000) == 26
    assert pays_after(copied_rows=10, saved_rows=0) == 0


@pytest.mark.parametrize(
    ("count", "before", "is_time"),
    [(10, None, False), (11, None, True), (40, 31, False), (40, 30, True), (5_000, 4_960, False), (5_000, 4_950, True)],
)
def test_files_are_looked_at_after_some_new_ones(count: int, before: int | None, is_time: bool) -> None:
    head = Snapshot(1, None, "append", {"total-data-files": str(count)}, datetime.now(UTC))

    assert is_time_to_look(head, 0.25, files_before=before) is is_time
    assert not is_time_to_look(head, NEVER, files_before=None)
