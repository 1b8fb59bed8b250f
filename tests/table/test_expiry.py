"""Expiry of a real table: what is left is whole, and nothing that anything references is deleted."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.table import Table
from pyiceberg.table.statistics import BlobMetadata, StatisticsFile

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.maintain.background import Background
from frazil.maintain.expire import expiry_of
from frazil.maintain.expiring import Expiring
from frazil.materialize.readers.delta import announce_delta
from frazil.materialize.state import CHECKPOINT_TAG, standing
from frazil.model.errors import CommitRejectedError, CommitUnknownError
from frazil.model.expiry import Expiry
from frazil.model.snapshot import TableView
from frazil.model.spec import KeepSnapshots
from frazil.verify.table import verify_table
from tests.table.small_lake import Read, SmallLake

KEEP_2 = KeepSnapshots(count=2, daily=0)
NOW = datetime.now(UTC) + timedelta(hours=1)


def files_of(folder: str) -> set[str]:
    return {str(path) for path in Path(folder.removeprefix("file://")).rglob("*") if path.is_file()}


def referenced(table: Table) -> set[str]:
    """Every file that any snapshot of the table references, by reading all of them."""
    found: set[str] = set()
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            found |= {entry.data_file.file_path for entry in entries}
    return {path.removeprefix("file://") for path in found}


def reads_whole(table: Table) -> None:
    for snapshot in table.metadata.snapshots:
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def no_delta(lake: SmallLake) -> Callable[[], DeltaRsLogs]:
    return lambda: DeltaRsLogs(lake.lake.storage)


def batches(lake: SmallLake, count: int, *, dead: bool = False) -> None:
    start = max((p.next for s in lake.state.sources for n, p in s.partitions.items() if n == 0), default=0)
    for number in range(start, start + 5 * count, 5):
        lake.batch(Read("orders", 0, number, number + 5, dead=(number + 1,) if dead else ()))


def expire(lake: SmallLake, keep: KeepSnapshots = KEEP_2, view: TableView | None = None) -> bool:
    """Expire the rows' snapshots and wait for the files."""
    background = Background()
    view = lake.view if view is None else view
    done = Expiring(keep, CHECKPOINT_TAG).between_batches(lake.lake, no_delta(lake), view, background, now=NOW)
    background.finish(60)
    return done


def test_expired_snapshots_leave_with_their_files_and_the_table_stays_whole(lake: SmallLake) -> None:
    batches(lake, 6)
    rows = lake.table.scan().to_arrow().num_rows

    assert expire(lake)

    table = lake.table
    assert len(table.metadata.snapshots) == 2
    assert table.scan().to_arrow().num_rows == rows
    assert standing(lake.view, pipeline=lake.spec.pipeline).state == lake.state
    assert verify_table(lake.lake, lake.spec).clean
    reads_whole(table)
    left = {path for path in files_of(table.location()) if not path.endswith(".metadata.json")}
    assert left == referenced(table)
    batches(lake, 1)
    assert verify_table(lake.lake, lake.spec).clean


def test_snapshots_of_dead_letters_expire_and_a_rollback_still_retracts(lake: SmallLake) -> None:
    batches(lake, 4, dead=True)
    dead_letters = lake.spec.dead_letters_identifier

    assert expire(lake, view=lake.dead_view)

    assert len(lake.load(dead_letters).snapshots) == 2
    assert verify_table(lake.lake, lake.spec).clean
    lake.table.manage_snapshots().rollback_to_snapshot(lake.view.head_snapshot().parent_id).commit()
    lake.state, lake.batch_name = lake.state_before, "anew"
    batches(lake, 1, dead=True)
    assert verify_table(lake.lake, lake.spec).clean


def test_what_a_compaction_replaced_is_deleted_with_the_last_snapshot_that_held_it(lake: SmallLake) -> None:
    batches(lake, 2)
    small = {str(path) for path in lake.files()}
    lake.compact()
    assert not expire(lake, KeepSnapshots(count=100, daily=0))
    batches(lake, 1)
    assert expire(lake)
    assert not any(Path(path).exists() for path in small)
    assert verify_table(lake.lake, lake.spec).clean


def test_a_file_that_only_the_delta_log_names_stays_until_it_is_named_no_more(lake: SmallLake) -> None:
    batches(lake, 2)
    announce_delta(lake.lake, no_delta(lake), lake.view)
    for tag in ("frazil_delta", "frazil_delta_next"):
        if tag in lake.view.tags:
            lake.table.manage_snapshots().remove_tag(tag).commit()
    rows = DeltaTable(lake.view.location.removeprefix("file://")).to_pyarrow_table().num_rows
    lake.compact()
    batches(lake, 2)

    assert expire(lake)

    assert DeltaTable(lake.view.location.removeprefix("file://")).to_pyarrow_table().num_rows == rows


def test_each_version_of_the_time_that_snapshots_are_kept_for_can_be_read(lake: SmallLake) -> None:
    """Also one whose file neither the oldest nor the newest has, and whose snapshot expired by count."""
    for _ in range(3):
        batches(lake, 1)
        lake.compact()
        announce_delta(lake.lake, no_delta(lake), lake.view)
    batches(lake, 3)
    folder = lake.view.location.removeprefix("file://")
    expected = [DeltaTable(folder, version=n).to_pyarrow_table().num_rows for n in range(3)]
    hour = KeepSnapshots(count=2, daily=0, age=timedelta(hours=2))

    assert expire(lake, hour)

    assert len(lake.view.snapshots) == 3
    assert [DeltaTable(folder, version=n).to_pyarrow_table().num_rows for n in range(3)] == expected


def test_a_writer_whose_clock_is_behind_makes_no_version_unreadable(lake: SmallLake) -> None:
    for _ in range(3):
        batches(lake, 1)
        lake.compact()
        announce_delta(lake.lake, no_delta(lake), lake.view)
    folder = Path(lake.view.location.removeprefix("file://"))
    newest = folder / "_delta_log" / f"{2:020}.json"
    newest.write_text(re.sub(r'"timestamp":\d+', '"timestamp":1', newest.read_text()))
    batches(lake, 3)
    expected = [DeltaTable(str(folder), version=n).to_pyarrow_table().num_rows for n in range(3)]

    assert expire(lake, KeepSnapshots(count=2, daily=0, age=timedelta(hours=2)))

    assert [DeltaTable(str(folder), version=n).to_pyarrow_table().num_rows for n in range(3)] == expected


def test_files_of_versions_before_that_time_go_with_their_snapshots(lake: SmallLake) -> None:
    announce_delta(lake.lake, no_delta(lake), lake.view)
    small = lake.files()
    lake.compact()
    announce_delta(lake.lake, no_delta(lake), lake.view)
    batches(lake, 3)

    assert expire(lake, KeepSnapshots(count=2, daily=0, age=timedelta(0)))

    assert not any(path.exists() for path in small)


def test_a_delta_log_that_cannot_be_read_keeps_every_data_file(lake: SmallLake) -> None:
    batches(lake, 2)
    small = lake.files()
    lake.compact()
    batches(lake, 1)
    before = lake.view
    expiry = expiry_of(before, KEEP_2, now=NOW, checkpoint=CHECKPOINT_TAG)
    lake.lake.expire(before, expiry)

    def unreadable() -> Any:
        raise OSError("the storage is down")

    cleaned = lake.lake.delete_unreachable(before, expiry.snapshots, named_elsewhere=unreadable)

    assert all(path.exists() for path in small)
    assert cleaned.deleted > 0
    assert cleaned.left > 0
    assert "the storage is down" in cleaned.problems[0]


@pytest.mark.parametrize("change", ["tag", "branch", "commit", "expire"])
def test_a_commit_of_another_since_the_look_refuses_the_expiry(lake: SmallLake, change: str) -> None:
    batches(lake, 4)
    view = lake.view
    expiry = expiry_of(view, KEEP_2, now=NOW, checkpoint=CHECKPOINT_TAG)
    gone = expiry.snapshots[0]
    match change:
        case "tag":
            lake.table.manage_snapshots().create_tag(gone, "theirs").commit()
        case "branch":
            lake.table.manage_snapshots().create_branch(gone, "theirs").commit()
        case "commit":
            lake.table.delete("kafka_offset = 3")
        case _:
            lake.table.maintenance.expire_snapshots().by_id(gone).commit()
    before = lake.view.snapshots.keys()

    with pytest.raises(CommitRejectedError):
        lake.lake.expire(view, expiry)

    assert lake.view.snapshots.keys() == before


def test_a_process_that_dies_after_the_commit_leaves_orphans_and_a_whole_table(lake: SmallLake) -> None:
    batches(lake, 4)
    before = lake.view
    files = files_of(before.location)

    lake.lake.expire(before, expiry_of(before, KEEP_2, now=NOW, checkpoint=CHECKPOINT_TAG))

    assert {path for path in files if not path.endswith(".metadata.json")} <= files_of(before.location)
    reads_whole(lake.table)
    batches(lake, 3)
    assert expire(lake)
    assert verify_table(lake.lake, lake.spec).clean
    reads_whole(lake.table)


def test_an_expiry_without_an_answer_deletes_nothing_and_fails_no_batch(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches(lake, 4)
    files = files_of(lake.view.location)
    commit = lake.lake.expire

    def lost(view: TableView, expiry: Expiry) -> None:
        commit(view, expiry)
        raise CommitUnknownError("no answer")

    monkeypatch.setattr(lake.lake, "expire", lost)

    assert not expire(lake)
    assert {path for path in files if not path.endswith(".metadata.json")} <= files_of(lake.view.location)


def test_no_expiry_is_committed_while_the_files_of_others_are_being_deleted(lake: SmallLake) -> None:
    batches(lake, 4)
    before, background, hold = lake.view, Background(), threading.Event()
    while background.start(lambda: hold.wait(30) and None, before=lambda: True):
        pass

    done = Expiring(KEEP_2, CHECKPOINT_TAG).between_batches(lake.lake, no_delta(lake), before, background, now=NOW)
    hold.set()

    assert not done
    assert lake.view.snapshots.keys() == before.snapshots.keys()


def test_statistics_files_of_expired_snapshots_leave_with_them(lake: SmallLake) -> None:
    batches(lake, 3)
    old = lake.view.head
    assert old is not None
    path = Path(lake.view.location.removeprefix("file://")) / "metadata" / "old.stats"
    path.write_bytes(b"puffin")
    blob = BlobMetadata(
        **{"type": "apache-datasketches-theta-v1", "snapshot-id": old, "sequence-number": 1, "fields": [1]}
    )
    statistics = StatisticsFile(
        **{"snapshot-id": old, "statistics-path": str(path), "file-size-in-bytes": 6, "file-footer-size-in-bytes": 1,
           "blob-metadata": [blob]}
    )  # fmt: skip
    with lake.table.update_statistics() as update:
        update.set_statistics(statistics)
    batches(lake, 3)

    assert expire(lake)

    assert lake.table.metadata.statistics == []
    assert not path.exists()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_others_did_no_file_that_is_referenced_is_deleted(lake: SmallLake, seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(14):
        act(lake, choose)
        if choose.random() < 0.3:
            expire(lake, KeepSnapshots(count=choose.randint(1, 4), daily=0), lake.view)
            reads_whole(lake.table)
    expire(lake, KeepSnapshots(age=timedelta(microseconds=1), count=1, daily=0))
    table = lake.table

    reads_whole(table)
    there = {path for path in files_of(table.location()) if not path.endswith(".metadata.json")}
    assert referenced(table) <= there


def act(lake: SmallLake, choose: random.Random) -> None:
    """Something that happens to tables."""
    happening = choose.choice((batches_of_one, batches_of_one, abandon, compact, delete, tag, untag, branch, merge))
    happening(lake, choose)


def batches_of_one(lake: SmallLake, choose: random.Random) -> None:
    del choose
    batches(lake, 1)


def abandon(lake: SmallLake, choose: random.Random) -> None:
    """An attempt that is staged and never published."""
    view, name = lake.view, f"frazil_stage_x_{choose.random()}"
    files = lake._files(view, lake._row_batches(Read("orders", 0, 900_000, 900_005)))
    lake.lake.stage(view, base=view.head or 0, branch=name, files=files, summary={})
    if choose.random() < 0.7:
        lake.lake.drop_branches(lake.view, [name])


def compact(lake: SmallLake, choose: random.Random) -> None:
    del choose
    lake.compact()


def delete(lake: SmallLake, choose: random.Random) -> None:
    lake.table.delete(f"kafka_offset = {choose.randint(0, 99)}")


def tag(lake: SmallLake, choose: random.Random) -> None:
    some = choose.choice(list(lake.view.snapshots))
    lake.table.manage_snapshots().create_tag(some, f"t{choose.random()}").commit()


def untag(lake: SmallLake, choose: random.Random) -> None:
    del choose
    for name in [name for name in lake.view.tags if name.startswith("t")][:1]:
        lake.table.manage_snapshots().remove_tag(name).commit()


def branch(lake: SmallLake, choose: random.Random) -> None:
    some, name = choose.choice(list(lake.view.snapshots)), f"b{choose.random()}"
    lake.table.manage_snapshots().create_branch(some, name).commit()
    lake.table.delete(f"kafka_offset = {choose.randint(0, 99)}", branch=name)


def merge(lake: SmallLake, choose: random.Random) -> None:
    """An append that merges manifests."""
    del choose
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    with lake.table.transaction() as transaction:
        transaction.set_properties(merging)
    lake.table.append(lake.table.scan().to_arrow().slice(0, 1))


def staged(lake: SmallLake, files: Any, name: str) -> int:
    view = lake.view
    return lake.lake.stage(view, base=view.head or 0, branch=name, files=files, summary={})


def expire_only(lake: SmallLake, snapshot_id: int) -> None:
    before = lake.view
    lake.lake.expire(before, Expiry((snapshot_id,)))
    cleaned = lake.lake.delete_unreachable(before, (snapshot_id,), named_elsewhere=frozenset)
    assert cleaned.left == 0


def test_an_abandoned_attempt_takes_its_own_files_and_none_of_its_base(lake: SmallLake) -> None:
    files = lake._files(lake.view, lake._row_batches(Read("orders", 0, 900_000, 900_005)))
    attempt = staged(lake, files, "frazil_stage_x_1")
    lake.lake.drop_branches(lake.view, ["frazil_stage_x_1"])
    batches(lake, 2)

    expire_only(lake, attempt)

    assert not any(Path(file.path.removeprefix("file://")).exists() for file in files)
    reads_whole(lake.table)
    assert verify_table(lake.lake, lake.spec).clean


def test_a_file_of_an_abandoned_attempt_that_was_staged_again_stays_while_a_snapshot_holds_it(lake: SmallLake) -> None:
    files = lake._files(lake.view, lake._row_batches(Read("orders", 0, 900_000, 900_005)))
    attempt = staged(lake, files, "frazil_stage_x_1")
    lake.lake.drop_branches(lake.view, ["frazil_stage_x_1"])
    staged(lake, files, "frazil_stage_x_2")
    lake.lake.publish(lake.view, branch="frazil_stage_x_2", tag="published", drop=["frazil_stage_x_2"])
    lake.compact()

    expire_only(lake, attempt)

    assert all(Path(file.path.removeprefix("file://")).exists() for file in files)
    reads_whole(lake.table)
