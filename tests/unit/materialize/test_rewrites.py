"""Data files of which many rows are deleted are written again between batches, and the table stays what it is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from changelogs import Changelog

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.maintain import rewriting
from frazil.materialize.state import standing
from frazil.model.ingested import DeletedRows
from frazil.model.rewrites import RewriteTask, Rewritten
from frazil.model.summary import is_rewrite
from tests.fakes.watched_lake import Commit, WatchedLake


@pytest.fixture
def changelog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Changelog:
    monkeypatch.setattr(rewriting, "FEW_ROWS", 1)
    return Changelog.at(tmp_path)


def half_deleted(changelog: Changelog) -> None:
    changelog.send(*((key, 1) for key in "abcd"))
    changelog.catch_up()
    changelog.send(("a", 2), ("b", None))
    changelog.catch_up()


def rewrites(changelog: Changelog) -> int:
    view = changelog.view
    return sum(is_rewrite(snapshot) for snapshot in view.ancestry(view.head))


def test_a_file_is_rewritten_and_the_table_stays_what_it_is(changelog: Changelog) -> None:
    half_deleted(changelog)

    changelog.check()
    head = changelog.view.head_snapshot()
    assert head is not None and is_rewrite(head)
    assert head.figure("total-position-deletes") == 0
    assert sorted((file.rows, file.deletes) for file in changelog.files()) == [(1, ()), (2, ())]
    assert changelog.against_kafka().findings == ()


def test_it_is_no_commit_of_others(changelog: Changelog, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        half_deleted(changelog)
        changelog.send(("c", 3))
        changelog.catch_up()

    assert rewrites(changelog)
    assert standing(changelog.view, pipeline=changelog.spec.pipeline).state.foreign.snapshots == 0
    assert changelog.verify().foreign.snapshots == 0
    assert "changed_by_others" not in caplog.messages
    assert "files_rewritten" in caplog.messages


def test_rows_of_rewritten_files_are_found(changelog: Changelog) -> None:
    half_deleted(changelog)
    for key in "cdab":
        changelog.send((key, 5))
        changelog.catch_up()

        changelog.check()


def test_the_share_can_be_that_of_the_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "FEW_ROWS", 1)
    changelog = Changelog.at(tmp_path)
    changelog.spec = replace(changelog.spec, maintain=replace(changelog.spec.maintain, rewrite_deleted=1.0))
    half_deleted(changelog)

    changelog.check()
    assert rewrites(changelog) == 0


def test_rows_that_others_deleted_stay_deleted(changelog: Changelog) -> None:
    changelog.send(*((key, 1) for key in "abcd"))
    changelog.catch_up()
    (file,) = changelog.files()
    gone = changelog.rows()
    changelog.others(deletes=[DeletedRows(file.path, [1])])
    for key in gone.keys() - changelog.rows().keys():
        changelog.state.pop(key)
    changelog.send(("d", 2))
    changelog.catch_up()

    assert rewrites(changelog)
    changelog.check()


def test_it_gives_way_to_another_commit(changelog: Changelog) -> None:
    def around(name: str, commit: Commit) -> object:
        if name == "rows rewrite":
            (file, *_) = [each for each in changelog.files() if each.rows == 4]
            changelog.world.lake = IcebergLake(lake._settings)
            changelog.others(deletes=[DeletedRows(file.path, [2])])
            changelog.world.lake = lake
            changelog.state.pop("c")
        return commit()

    lake = WatchedLake(changelog.world.lake._settings, around=around)
    changelog.world.lake = lake
    half_deleted(changelog)

    changelog.check()
    assert rewrites(changelog) == 0


def test_a_lost_row_changes_nothing(
    changelog: Changelog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lossy(tasks: Sequence[RewriteTask], *, name: str) -> list[Rewritten]:
        del name
        return [Rewritten((), 1) for _ in tasks]

    monkeypatch.setattr(changelog.world, "rewrite", lossy, raising=False)
    half_deleted(changelog)

    assert rewrites(changelog) == 0
    changelog.check()
    assert "rewrite_failed" in caplog.messages
    (problem,) = {each.problem for each in caplog.records if each.message == "rewrite_failed"}  # type: ignore[attr-defined]
    assert "1 file with 3 rows that are not deleted became 0 files with 0" in problem
