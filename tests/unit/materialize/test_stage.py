"""The rows of a batch are staged on the head that the table has then."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
from values_of_tables import NOW, SPEC, progress, snapshot, state, view

from frazil.materialize import table_change
from frazil.materialize.account import Ingested
from frazil.materialize.branches import Staged, branch_names
from frazil.materialize.stage import ReadBatch
from frazil.materialize.state import standing
from frazil.model.ingested import WrittenFile
from frazil.model.plan import BatchPlan, WriterSchemas
from frazil.model.probe import FoundRows, StoredFile
from frazil.model.snapshot import TableView
from frazil.model.updates import RowUpdates
from frazil.modes.append import APPEND
from frazil.modes.mode import BatchChange, Find, Mode, Written
from frazil.ports import Lake

BEFORE = state({0: progress(0, 7)})
BASE = snapshot(1, None, carries=BEFORE, total_records=7)
THEIRS = snapshot(2, 1, operation="delete", deleted_records=3, total_records=4)


class LakeThatStages:
    """Notes the files of each stage, which gets the snapshot id 100, 101 and so on."""

    def __init__(self) -> None:
        self.files: list[list[str]] = []

    def stage(self, _: TableView, *, files: Sequence[WrittenFile], **__: object) -> int:
        self.files.append([file.path for file in files])
        return 99 + len(self.files)


def replace_what_is_found(_: Written, find: Find) -> BatchChange:
    """Add one file that is named after the file in which rows are found, and write these rows anew."""
    (found,) = find(np.array([1]), np.array([2]))
    file = WrittenFile(f"for-{found.file.path}", rows=2, size=1, partition=(), spec_id=0)
    updates = RowUpdates((found.file.path,), found.place, found.position)
    return BatchChange([file], {"added-records": 2, "added-position-deletes": len(found.place)}, updates=updates)


def anew(head: TableView, updates: RowUpdates) -> list[WrittenFile]:
    return [WrittenFile(f"anew-on-{head.head}", rows=len(updates), size=1, partition=(), spec_id=0)]


def every_row_of(head: TableView, _: object, __: object, ___: object) -> list[FoundRows]:
    snapshot = head.head_snapshot()
    assert snapshot is not None
    rows = array("q", range(snapshot.figure("total-records")))
    return [FoundRows(StoredFile(str(snapshot.id), len(rows)), len(rows), rows, rows, rows, rows, rows)]


def test_the_write_mode_is_asked_again_for_each_head(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = Mode("append", change=replace_what_is_found, prove_rows=APPEND.prove_rows)
    monkeypatch.setattr(table_change, "open_mode", lambda _: mode)
    lake = LakeThatStages()
    batch = ReadBatch(
        lake=cast(Lake, lake),
        spec=SPEC,
        writer="w1",
        names=branch_names("stage_", "w1"),
        plan=BatchPlan(SPEC.identifier, "batch4", 1, BEFORE, (), WriterSchemas({}, {}), ()),
        got=Ingested((), (), (), (), 0),
        planned_at=NOW,
        read_by=NOW,
        seconds={},
        find=every_row_of,
        update=anew,
    )

    staged = [batch.stage_on(standing(view(*chain), pipeline=SPEC.pipeline)) for chain in ([BASE], [BASE, THEIRS])]

    assert lake.files == [["for-1", "anew-on-1"], ["for-2", "anew-on-2"]]
    assert staged == [
        Staged("stage_w1_1", 100, base=1, figures={"added-records": 2, "added-position-deletes": 7}, read_by=()),
        Staged("stage_w1_2", 101, base=2, figures={"added-records": 2, "added-position-deletes": 4}, read_by=()),
    ]
