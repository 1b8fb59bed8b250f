"""Which data files are written again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from frazil.maintain.rewriting import (
    DELETED_ROWS,
    FILE_ROWS,
    NEVER,
    PASS_BYTES,
    WORTH_A_SNAPSHOT,
    ScanCost,
    may_be_due,
    to_rewrite,
)
from frazil.model.probe import DeleteFile, StoredFile
from frazil.model.snapshot import Snapshot

ROWS = 1_000_000
BYTES = PASS_BYTES // 10


def file(
    name: str, *deleted: int, rows: int = ROWS, size: int = BYTES, is_own: bool = True, day: int = 1
) -> StoredFile:
    deletes = tuple(DeleteFile(f"{name}-{n}", "PARQUET", count, is_own) for n, count in enumerate(deleted))
    return StoredFile(name, rows, deletes, size, (0, day))


def chosen(files: Sequence[StoredFile], share: float = 0.25, *, full: int = PASS_BYTES, copies: int = 10**9) -> str:
    """Return the names of the files to rewrite, one after the other."""
    return " ".join(each.path for each in to_rewrite(files, share, full=full, copies=copies))


def test_the_cost_of_a_scan_is_that_after_a_compaction_and_what_is_wasted() -> None:
    files = [file("a", 10, 20), file("b"), file("c", day=2)]

    assert ScanCost.of(files, PASS_BYTES) == ScanCost(3 * ROWS - 30 + 2 * FILE_ROWS, 30 * DELETED_ROWS + FILE_ROWS)


def test_files_that_are_full_are_not_to_be_merged() -> None:
    files = [file(name, rows=ROWS, size=PASS_BYTES) for name in "abc"]

    assert ScanCost.of(files, PASS_BYTES).wasted == 0
    assert ScanCost.of([*files, file("d", size=1), file("e", size=1)], PASS_BYTES).wasted == FILE_ROWS


def test_deleted_rows_make_a_file_less_full() -> None:
    halves = [file(name, ROWS // 2, size=PASS_BYTES) for name in "ab"]

    assert ScanCost.of(halves, PASS_BYTES).wasted == DELETED_ROWS * ROWS + FILE_ROWS


def test_the_emptiest_files_are_rewritten_until_a_scan_wastes_enough_less() -> None:
    files = [file("a", 100_000), file("b", 300_000), file("c", 900_000), file("d", 300_000), file("e")]

    assert chosen(files, 1.0) == ""
    assert chosen(files, 0.8) == "c"
    assert chosen(files, 0.5) == "c b"
    assert chosen(files, 0.3) == "c b d"


def test_a_table_that_wastes_little_waits() -> None:
    files = [file("a", ROWS // 2), *(file(f"f{n}", size=PASS_BYTES) for n in range(2))]

    assert chosen(files, 0.39) == "a"
    assert chosen(files, 0.41) == ""


def test_small_files_are_merged_without_the_large_one() -> None:
    small = [file(f"s{n:02}", rows=100, size=1_000) for n in range(30)]

    assert chosen([file("large", rows=ROWS), *small]) == " ".join(f"s{n:02}" for n in range(11))


def test_a_small_table_waits_until_the_waste_is_worth_a_snapshot() -> None:
    count = WORTH_A_SNAPSHOT // FILE_ROWS + 1
    small = [file(f"f{n:02}", rows=10, size=1_000) for n in range(count)]

    assert chosen(small[:-1]) == ""
    assert len(to_rewrite(small, 0.25, full=PASS_BYTES, copies=10**9)) == count


def test_a_file_without_deleted_rows_is_left_where_no_other_of_its_partition_is_rewritten() -> None:
    days = [file(f"s{day}", rows=100, size=1_000, day=day) for day in range(20)]
    whole = [file(f"w{day}", rows=ROWS // 20, size=BYTES, day=day) for day in range(20)]

    found = to_rewrite([*days, *whole], 0.1, full=PASS_BYTES, copies=10**9)

    partitions = [each.partition for each in found]
    assert found
    assert all(partitions.count(each) == 2 for each in partitions)


def test_a_rewrite_has_a_bound_and_takes_one_file_at_least() -> None:
    wide = [file(f"f{n}", ROWS // 2, size=PASS_BYTES) for n in range(5)]

    assert chosen(wide) == "f0 f1"
    assert chosen([file("a", ROWS // 2, size=9 * PASS_BYTES)]) == "a"


def test_a_large_file_does_not_wait_for_ever_behind_small_ones() -> None:
    large = file("large", 3 * ROWS, rows=10 * ROWS, size=4 * PASS_BYTES)
    small = [file(f"s{n}", rows=100, size=1_000) for n in range(3)]

    assert chosen([large, *small]) == "large"
    assert chosen([large, *small], copies=6 * ROWS) == "s0 s1 s2"
    assert chosen([large, *(file(f"f{n}", 4 * ROWS, rows=5 * ROWS) for n in range(3))], 0.1) == "f0 f1 f2"


def test_no_more_rows_are_copied_than_it_is_told() -> None:
    files = [file("a", 600_000), file("b", 500_000), file("c", 400_000)]

    assert chosen(files, copies=399_999) == ""
    assert chosen(files, copies=400_000) == "a"
    assert chosen(files, copies=900_000) == "a b"


def test_rows_of_shared_files_of_deletes_are_not_counted() -> None:
    assert chosen([file("a", 900_000, is_own=False)]) == ""


@pytest.mark.parametrize(("deleted", "files", "due"), [(130_000, 1, True), (120_000, 1, False), (0, 27, True)])
def test_the_summary_of_the_head_says_whether_to_look(deleted: int, files: int, due: bool) -> None:
    summary = {
        "total-records": str(ROWS + deleted),
        "total-position-deletes": str(deleted),
        "total-data-files": str(files),
    }
    head = Snapshot(1, None, "overwrite", summary, datetime.now(UTC))

    assert may_be_due(head, 0.25) is due
    assert not may_be_due(head, NEVER)
