"""Which snapshots get a version in the Delta log."""

from __future__ import annotations

from dataclasses import replace

import pytest
from delta_tables import log, view

from frazil.delta.follow import snapshots_to_log
from frazil.model.delta import DeltaLog
from frazil.model.snapshot import TableView


def table(*history: str) -> TableView:
    """One snapshot for each operation; `+` marks those with delete files."""
    plain = view(*(each.rstrip("+") for each in history))
    counts = {number: str(int(each.endswith("+"))) for number, each in enumerate(history, start=1)}
    snapshots = {n: replace(s, summary={"total-delete-files": counts[n]}) for n, s in plain.snapshots.items()}
    return replace(plain, snapshots=snapshots)


@pytest.mark.parametrize(
    ("history", "logged", "expected"),
    [
        (["append"], None, [1]),
        (["append", "append", "append"], 1, [3]),
        (["append", "append"], 2, [2]),
        (["append", "replace"], 1, [2]),
        (["append", "append", "replace"], 1, [2, 3]),
        (["append", "replace", "append"], 1, [2, 3]),
        (["append", "append", "replace", "replace", "append"], 1, [2, 4, 5]),
        (["append", "append", "replace", "append"], None, [4]),
        (["append", "append", "replace", "append"], 77, [4]),
    ],
)
def test_a_compaction_has_a_version_of_its_own(history: list[str], logged: int | None, expected: list[int]) -> None:
    assert _heads(table(*history), logged) == expected


@pytest.mark.parametrize(
    ("history", "logged", "expected"),
    [
        (["append", "overwrite+"], None, [1, 2]),
        (["append", "overwrite+", "overwrite+"], 1, [1, 3]),
        (["append", "overwrite+", "replace"], 1, [3]),
        (["append", "overwrite+", "replace", "overwrite+"], 1, [3, 4]),
        (["append", "overwrite+", "replace+", "overwrite+"], 1, [1, 3, 4]),
        (["append", "overwrite+", "replace", "overwrite+", "replace+", "overwrite+"], 3, [3, 5, 6]),
        (["append", "overwrite+", "replace", "overwrite+"], 2, [3, 4]),
        (["append+", "overwrite+"], None, [2]),
        (["append+", "overwrite+"], 77, [2]),
    ],
    ids=[
        "it begins with what can be represented",
        "the log waits",
        "all deletes are applied",
        "batches went on after the compaction",
        "a compaction may have left deletes of files that are gone",
        "a compaction of some files",
        "never back",
        "none can be represented",
        "none since the log's snapshot expired",
    ],
)
def test_the_log_of_a_table_with_deletes_follows_its_compactions(
    history: list[str], logged: int | None, expected: list[int]
) -> None:
    assert _heads(table(*history), logged) == expected


def test_a_table_without_snapshots_has_none_to_log() -> None:
    assert snapshots_to_log(view(), None) == ()


def _heads(at: TableView, logged: int | None) -> list[int | None]:
    known: DeltaLog | None = None if logged is None else log(logged)
    return [each.head for each in snapshots_to_log(at, known)]
