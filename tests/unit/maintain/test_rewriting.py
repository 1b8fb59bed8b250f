"""Which data files are written again without their deleted rows."""

from __future__ import annotations

from datetime import UTC, datetime

from frazil.maintain.rewriting import FEW_ROWS, MANY_FILES, PASS_BYTES, may_be_due, to_rewrite
from frazil.model.probe import DeleteFile, StoredFile
from frazil.model.snapshot import Snapshot

ROWS = 100_000
BYTES = 10 << 20


def file(name: str, *deleted: int, rows: int = ROWS, size: int = BYTES, is_own: bool = True) -> StoredFile:
    deletes = tuple(DeleteFile(f"{name}-{n}", "PARQUET", count, is_own) for n, count in enumerate(deleted))
    return StoredFile(name, rows, deletes, size)


def names(files: list[StoredFile]) -> list[str]:
    return [each.path for each in files]


def test_files_with_the_share_of_deleted_rows_are_rewritten_the_emptiest_first() -> None:
    files = [file("a", 10_000, 20_000), file("b", 29_999), file("c", 90_000), file("d")]

    assert names(to_rewrite(files, 0.3)) == ["c", "a"]


def test_a_table_with_few_deleted_rows_waits() -> None:
    files = [file("a", 30_000), *(file(f"f{n}") for n in range(10))]

    assert to_rewrite(files[:6], 0.3) != []
    assert to_rewrite(files, 0.3) == []


def test_a_small_table_is_rewritten_when_it_has_many_files() -> None:
    files = [file(f"f{n:02}", 9, rows=10) for n in range(MANY_FILES)]

    assert to_rewrite(files[:-1], 0.3) == []
    assert len(to_rewrite(files, 0.3)) == MANY_FILES
    assert to_rewrite([file("a", FEW_ROWS, rows=FEW_ROWS * 2)], 0.3) != []


def test_a_rewrite_has_a_bound_and_takes_one_file_at_least() -> None:
    wide = [file(f"f{n}", ROWS // 2, size=PASS_BYTES) for n in range(5)]

    assert names(to_rewrite(wide, 0.3)) == ["f0", "f1"]
    assert names(to_rewrite([file("a", ROWS // 2, size=9 * PASS_BYTES)], 0.3)) == ["a"]


def test_rows_of_shared_files_of_deletes_are_not_counted() -> None:
    assert to_rewrite([file("a", 90_000, is_own=False)], 0.3) == []


def test_no_share_rewrites_a_file_without_deletes() -> None:
    assert to_rewrite([file("a"), file("b", 50_000)], 0.0) == [file("b", 50_000)]


def test_the_summary_of_the_head_says_whether_to_look() -> None:
    def head(deleted: int) -> Snapshot:
        summary = {"total-records": "1000", "total-position-deletes": str(deleted)}
        return Snapshot(1, None, "overwrite", summary, datetime.now(UTC))

    assert [may_be_due(head(deleted), 0.3) for deleted in (49, 50)] == [False, True]
