"""The benchmark of Delta logs measures what it says: each log that it times has the files of the table's head."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from deltalake import DeltaTable

from bench import delta
from bench.commits import Orders


def test_the_log_has_the_files_of_the_table_after_each_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "FILES_AT_ONCE", 5)
    monkeypatch.setattr(delta, "COMPACTED", 3)
    table = delta.Mirrored(Orders(tmp_path, partitions=1))

    found = delta.measure(table, files=5, removed=7, commits=1)

    assert [len(each.cpu) for each in found] == [1, 1, 1, 1, 1]
    stored = {each.path.removeprefix("file://") for each in table.orders.lake.stored_files(table.orders.view)}
    logged = DeltaTable(table.orders.view.location.removeprefix("file://")).file_uris()
    assert {*map(str, logged)} == stored
    text = delta.section(found, argparse.Namespace(files=5, removed=7, commits=1))
    assert "python -m bench.delta --files 5 --removed 7 --commits 1" in text
    assert text.count("\n| ") == 6
