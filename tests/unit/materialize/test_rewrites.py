"""Data files that make scans slow are written again between batches, and the table stays what it is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from changelogs import Changelog

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.maintain import rewriting
from frazil.materialize import rewrite_files
from frazil.materialize.rewrite_files import ROWS_OF_A_TASK, task_shares
from frazil.materialize.state import standing
from frazil.model.ingested import DeletedRows
from frazil.model.probe import StoredFile
from frazil.model.rewrites import RewriteTask, Rewritten
from frazil.model.summary import is_rewrite
from tests.fakes.watched_lake import Commit, WatchedLake


@pytest.fixture
def changelog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Changelog:
    monkeypatch.setattr(rewriting, "WORTH_A_SNAPSHOT", 1)
    return Changelog.at(tmp_path)


def half_deleted(changelog: Changelog) -> None:
    changelog.send(*((key, 1) for key in "abcd"))
    changelog.catch_up()
    changelog.send(("a", 2), ("b", None))
    changelog.catch_up()


def rewrites(changelog: Changelog) -> int:
    view = changelog.view
    return sum(is_rewrite(snapshot) for snapshot in view.ancestry(view.head))


def test_files_become_one_and_the_table_stays_what_it_is(changelog: Changelog) -> None:
    half_deleted(changelog)

    changelog.check()
    head = changelog.view.head_snapshot()
    assert head is not None and is_rewrite(head)
    assert head.figure("total-position-deletes") == 0
    assert sorted((file.rows, file.deletes) for file in changelog.files()) == [(3, ())]
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


def test_a_snapshot_keeps_no_manifest_of_files_that_were_removed_before(changelog: Changelog) -> None:
    """Readers open each manifest: after about 134 batches, 100 of 112 named no file of the table any more."""
    half_deleted(changelog)
    for number in range(5):
        changelog.send(("a", number), ("b", number))
        changelog.catch_up()

    table = changelog.view.current
    head = table.current_snapshot()
    manifests = [] if head is None else head.manifests(table.io)
    old = [each for each in manifests if head and each.added_snapshot_id != head.snapshot_id]
    assert rewrites(changelog) > 1
    assert [each for each in old if not each.fetch_manifest_entry(table.io)] == []
    changelog.check()


def test_the_share_can_be_that_of_the_spec(changelog: Changelog) -> None:
    changelog.spec = replace(changelog.spec, maintain=replace(changelog.spec.maintain, rewrite_deleted=1.0))
    half_deleted(changelog)

    changelog.check()
    assert rewrites(changelog) == 0


def test_files_without_deleted_rows_become_one(changelog: Changelog) -> None:
    for key in "abc":
        changelog.send((key, 1))
        changelog.catch_up()

    changelog.check()
    assert sorted((file.rows, file.deletes) for file in changelog.files()) == [(3, ())]


def test_files_of_different_partitions_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "WORTH_A_SNAPSHOT", 1)
    changelog = Changelog.at(tmp_path, partition_by=("truncate(1, kafka_key)",))
    changelog.send(("a1", 1), ("b1", 1), ("c1", 1))
    changelog.catch_up()
    before = {file.path for file in changelog.files()}
    changelog.send(("a2", 1))
    changelog.catch_up()

    changelog.check()
    now = {file.path: (file.rows, file.partition) for file in changelog.files()}
    assert rewrites(changelog) == 1
    assert len(before & now.keys()) == 2
    assert sorted(rows for rows, _ in now.values()) == [1, 1, 2]
    assert len({partition for _, partition in now.values()}) == 3


@pytest.mark.parametrize(("copies", "made"), [(2, [0, 1, 1, 2, 2, 3]), (8, [0, 1, 2, 3, 4, 5])])
def test_batches_that_add_little_copy_little(
    changelog: Changelog, monkeypatch: pytest.MonkeyPatch, copies: int, made: list[int]
) -> None:
    monkeypatch.setattr(rewrite_files, "COPIES", copies)
    changelog.spec = replace(changelog.spec, trigger=replace(changelog.spec.trigger, rows=1))
    changelog.send(*((key, 1) for key in "abcdaa"))
    table = changelog.world.table(changelog.spec)
    found = []
    for _ in range(6):
        table.batch()
        found.append(rewrites(changelog))

    changelog.check()
    assert found == made


def test_files_of_a_partition_are_in_one_task_unless_they_have_too_many_rows() -> None:
    few = [StoredFile(f"{day}{n}", ROWS_OF_A_TASK // 4, partition=(0, day)) for n in range(2) for day in "ab"]
    many = [StoredFile(f"c{n}", ROWS_OF_A_TASK // 2, partition=(0, "c")) for n in range(6)]

    def paths(files: Sequence[StoredFile], at_most: int) -> list[str]:
        return sorted(" ".join(sorted(each.path for each in share)) for share in task_shares(files, at_most=at_most))

    assert paths(few, 2) == ["a0 a1 b0 b1"]
    assert paths([*few, few[0]], 2) == ["a0 a0 a1", "b0 b1"]
    assert paths(many, 2) == ["c0 c2 c4", "c1 c3 c5"]
    assert paths([*few, *many], 1) == ["a0 a1 b0 b1 c0 c1 c2 c3 c4 c5"]


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
    assert "2 files with 4 rows that are not deleted became 0 files with 0" in problem
