"""Files that nothing needs are found, and no other is: by all snapshots, branches, tags, statistics and Delta logs."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from pyiceberg.table.statistics import BlobMetadata, StatisticsFile

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.listing import StoredObject
from frazil.adapters.iceberg.orphans import Orphans, OrphanSearch, local_time
from frazil.adapters.iceberg.puffin import write_blob
from frazil.cli.app import run
from frazil.cli.orphans import _lines
from frazil.materialize.branches import STAGE_PREFIX
from frazil.materialize.readers.delta import announce_delta
from frazil.model.errors import CatalogError
from frazil.verify.table import verify_table
from tests.sampling import examples
from tests.table.small_lake import Read, SmallLake, rows

Captured = pytest.CaptureFixture[str]
OLD = timedelta(days=4)


def all_files(lake: SmallLake) -> set[str]:
    return {str(path) for path in Path(lake.view.location.removeprefix("file://")).rglob("*") if path.is_file()}


def age(*paths: str, by: timedelta = OLD) -> None:
    for path in paths:
        then = datetime.now(UTC).timestamp() - by.total_seconds()
        os.utime(path, (then, then))


def orphan(lake: SmallLake, name: str, folder: str = "data") -> str:
    path = Path(lake.view.location.removeprefix("file://")) / folder / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(b"nobody needs it")
    return str(path)


def found(lake: SmallLake, between: Callable[[], None] = lambda: None) -> list[str]:
    search = OrphanSearch(lake.lake, between=between)
    orphans = search.find(lake.spec.identifier, now=local_time())
    assert orphans is not None
    return [each.address for each in orphans.files]


def all_old(lake: SmallLake) -> None:
    age(*all_files(lake))


def test_files_of_no_snapshot_are_orphans_and_all_others_stay(lake: SmallLake) -> None:
    wanted = [orphan(lake, "w-1.parquet"), orphan(lake, "snap-1.avro", "metadata")]
    all_old(lake)

    assert sorted(found(lake)) == sorted(wanted)


def test_young_files_are_counted_only(lake: SmallLake) -> None:
    young = orphan(lake, "w-1.parquet")
    all_old(lake)
    age(young, by=timedelta(days=2, hours=23))

    orphans = OrphanSearch(lake.lake).find(lake.spec.identifier, now=local_time())

    assert orphans is not None
    assert (orphans.files, orphans.younger) == ((), 1)


@pytest.mark.parametrize(
    ("younger", "said"),
    [
        (0, "no orphans of 9 files"),
        (1, "no orphans of 9 files; 1 more is too young to be sure"),
        (2, "no orphans of 9 files; 2 more are too young to be sure"),
    ],
)
def test_young_files_are_named_only_if_there_are_some(younger: int, said: str) -> None:
    assert list(_lines(Orphans("lake.orders", (), 9, younger), None)) == [f"lake.orders: {said}"]


def test_files_of_other_folders_are_never_touched(lake: SmallLake) -> None:
    for folder in ("_delta_log", "exports", "data_of_mine"):
        orphan(lake, "00000000000000000000.txt", folder)
    all_old(lake)

    assert found(lake) == []


def test_what_branches_tags_and_statistics_have_is_needed(lake: SmallLake) -> None:
    view = lake.view
    assert view.head is not None
    files = lake._files(view, [rows(lake.spec, "orders", 0, [1_000])])
    lake.lake.stage(view, base=view.head, branch=f"{STAGE_PREFIX}x_1", files=files, summary={})
    lake.table.manage_snapshots().create_tag(view.head, "export").commit()
    lake.compact()
    lake.table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    blob = write_blob(lake.table.io, lake.table.metadata, b"{}")
    head = lake.view.head
    assert head is not None
    statistics = StatisticsFile(
        snapshot_id=head,
        statistics_path=blob.path,
        file_size_in_bytes=1,
        file_footer_size_in_bytes=1,
        blob_metadata=[
            BlobMetadata(type="apache-datasketches-theta-v1", snapshot_id=head, sequence_number=1, fields=[])
        ],
    )
    with lake.table.update_statistics() as update:
        update.set_statistics(statistics)
    all_old(lake)

    orphans = found(lake)
    assert orphans, "the library's expiry deletes no file"
    assert all("/metadata/snap-" in path for path in orphans)
    lists = {each.manifest_list for each in lake.table.metadata.snapshots}
    assert lists.isdisjoint(orphans)


def test_a_file_that_a_property_names_is_needed(lake: SmallLake) -> None:
    path = orphan(lake, "rebuilt.puffin", "metadata")
    lake.lake.set_properties(lake.spec.identifier, put={"frazil.rebuild-ready": json.dumps({"statistics": path})})
    all_old(lake)

    assert found(lake) == []


def test_what_the_delta_log_names_is_needed(lake: SmallLake) -> None:
    announce_delta(lake.lake, lambda: DeltaRsLogs(lake.lake.storage), lake.view)
    named = [orphan(lake, name) for name in ("w-1.parquet", "w-2.parquet", "w 3%.parquet", "w-4.parquet")]
    orphan_of_none = orphan(lake, "w-5.parquet")
    file = {"size": 1, "partitionValues": {}, "modificationTime": 0, "deletionTimestamp": 0, "dataChange": True}
    absolute = {"path": quote(named[3]), **file}
    actions = [{"add": {"path": path, **file}} for path in ("data/w-1.parquet", "data/w%203%25.parquet")]
    removed = {"remove": {"path": "data/w-2.parquet", **file}}
    log_version(lake, 1, *actions, removed, {"add": absolute})
    log_version(lake, 2, {"remove": absolute})
    all_old(lake)
    age(str(log_version(lake, 3, {"remove": actions[0]["add"]})), by=timedelta(hours=1))

    assert sorted(found(lake)) == [named[1], named[3], orphan_of_none]


def test_what_the_delta_log_removed_is_needed_for_as_long_as_its_readers_may_travel(lake: SmallLake) -> None:
    announce_delta(lake.lake, lambda: DeltaRsLogs(lake.lake.storage), lake.view)
    old = orphan(lake, "w-1.parquet")
    file = {"path": "data/w-1.parquet", "size": 1, "partitionValues": {}, "modificationTime": 0, "dataChange": True}
    log_version(lake, 1, {"remove": file})
    all_old(lake)
    search = OrphanSearch(lake.lake, travel=timedelta(days=5))

    orphans = search.find(lake.spec.identifier, now=local_time())

    assert orphans is not None
    assert orphans.files == ()
    assert found(lake) == [old]


def log_version(lake: SmallLake, number: int, *actions: object) -> Path:
    """Write a version of the Delta log as another writer does, without a time of its own."""
    path = Path(lake.view.location.removeprefix("file://")) / "_delta_log" / f"{number:020}.json"
    path.write_text("\n".join(map(json.dumps, actions)) + "\n")
    return path


def test_a_file_that_is_committed_while_the_command_runs_is_needed(lake: SmallLake) -> None:
    view = lake.view
    files = lake._files(view, [rows(lake.spec, "orders", 0, [1_000])])
    all_old(lake)

    def committed() -> None:
        assert view.head is not None
        lake.lake.stage(view, base=view.head, branch="theirs", files=files, summary={})

    assert found(lake, between=committed) == []


def test_a_table_that_is_made_again_meanwhile_loses_nothing(lake: SmallLake) -> None:
    all_old(lake)

    with pytest.raises(CatalogError, match="dropped and made again meanwhile; nothing was deleted"):
        found(lake, between=lambda: void(lake.make_rows_again()))


def void(value: object) -> None:
    del value


def test_metadata_that_cannot_be_read_keeps_every_file(lake: SmallLake) -> None:
    orphan(lake, "w-1.parquet")
    head = lake.table.current_snapshot()
    assert head is not None
    manifest = head.manifests(lake.table.io)[0]
    Path(manifest.manifest_path.removeprefix("file://")).write_bytes(b"damaged")
    all_old(lake)
    lake.restart()

    with pytest.raises(CatalogError, match="cannot know which files are needed"):
        found(lake)


def test_another_table_in_the_folder_is_refused(lake: SmallLake) -> None:
    orphan(lake, "00001-aa.metadata.json", "data/inner/metadata")
    all_old(lake)

    with pytest.raises(CatalogError, match="there is another table in its folder"):
        found(lake)


def test_the_files_of_a_renamed_table_whose_name_is_used_again_stay(lake: SmallLake) -> None:
    lake.lake.catalog.rename_table(lake.spec.identifier, "lake.kept")
    again = SmallLake(lake.folder, lake.spec, batch_name="again")
    all_old(lake)

    with pytest.raises(CatalogError, match=r"another table has files in its folder, by .*; nothing was deleted"):
        found(again)
    assert again.lake.catalog.load_table("lake.kept").scan().to_arrow().num_rows > 0


def test_files_in_the_folder_of_a_table_of_others_stay(config: str, lake: SmallLake, capsys: Captured) -> None:
    columns = lake.table.schema()
    lake.lake.catalog.drop_table(lake.spec.identifier)
    lake.lake.catalog.create_table(lake.spec.identifier, columns, location=f"{lake.folder}/theirs")
    theirs = orphan(lake, "000000_0")
    all_old(lake)

    assert run(["maintain", "--orphans", "--delete", "--config", config]) == 1
    assert "Frazil did not create it" in capsys.readouterr().err
    assert Path(theirs).exists()


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_file_that_is_no_metadata_is_an_orphan_whatever_its_name(lake: SmallLake, content: str) -> None:
    path = orphan(lake, "00001-aa.metadata.json", "metadata")
    Path(path).write_text(content)
    all_old(lake)

    assert found(lake) == [path]


def test_a_listing_that_lacks_a_file_of_the_table_is_refused(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    all_old(lake)
    monkeypatch.setattr(
        "frazil.adapters.iceberg.orphans.list_objects",
        lambda io, folder: [StoredObject(f"{folder}/x%20y.parquet", 1, datetime(2026, 1, 1, tzinfo=UTC))],
    )

    with pytest.raises(CatalogError, match="does not list"):
        found(lake)


def test_no_file_is_found_that_any_snapshot_reaches(empty_lake: SmallLake) -> None:
    """A search over random histories: batches, compactions, branches, tags, rollbacks and expiry."""
    lake, offset = empty_lake, 0
    for seed in range(examples(1, 20)):
        chance = random.Random(seed)
        for _ in range(8):
            match chance.choice(("batch", "batch", "compact", "tag", "branch", "expire", "orphan")):
                case "batch":
                    lake.batch(Read("orders", 0, offset, offset + 5, dead=(offset + 1,)))
                    offset += 5
                case "compact" if lake.files():
                    lake.compact()
                case "tag" if lake.view.head is not None:
                    lake.table.manage_snapshots().create_tag(lake.view.head, f"t{len(lake.view.tags)}").commit()
                case "branch" if lake.view.head is not None:
                    name = f"b{len(lake.view.branches)}"
                    lake.table.manage_snapshots().create_branch(lake.view.head, name).commit()
                case "expire":
                    lake.table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
                case "orphan":
                    orphan(lake, f"o{seed}-{chance.random()}.parquet")
                case _:
                    pass
        all_old(lake)
        orphans = OrphanSearch(lake.lake).find(lake.spec.identifier, now=local_time())
        assert orphans is not None
        OrphanSearch(lake.lake).delete(orphans)

        for snapshot in lake.table.metadata.snapshots:
            lake.table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        assert not [path for path in all_files(lake) if "/data/o" in path]
        assert found(lake) == []
    assert verify_table(lake.lake, lake.spec).findings == ()


def test_a_listing_deletes_nothing_and_says_how_to(config: str, lake: SmallLake, capsys: Captured) -> None:
    path = orphan(lake, "w-1.parquet")
    all_old(lake)

    assert run(["maintain", "--orphans", "--config", config]) == 0

    said = capsys.readouterr()
    first, listed, dead = said.out.splitlines()
    assert first.startswith("lake.orders: 1 orphan of 15 bytes, of ")
    assert listed.endswith(f"             15  {path}")
    assert dead.startswith("lake.orders__dead_letters: no orphans of ")
    assert "run it again with --delete" in said.err
    assert Path(path).exists()


def test_orphans_are_deleted_on_request(config: str, lake: SmallLake, capsys: Captured) -> None:
    path = orphan(lake, "w-1.parquet")
    all_old(lake)
    before = all_files(lake)

    assert run(["maintain", "--orphans", "--delete", "--config", config]) == 0

    assert ", 1 deleted\n" in capsys.readouterr().out
    assert all_files(lake) == before - {path}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--orphans", "--older-than", "2d"], "expected 3 days at least"),
        (["--delete"], "--delete deletes nothing without --orphans"),
        (["--orphans", "--compact"], "--orphans does nothing else"),
        (["--orphans", "--delete", "--dry-run"], "exclude each other"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    config: str, options: list[str], problem: str, capsys: Captured
) -> None:
    assert run(["maintain", *options, "--config", config]) == 2

    assert problem in capsys.readouterr().err


def test_the_time_of_the_storage_is_that_of_a_new_file(lake: SmallLake) -> None:
    files = all_files(lake)
    earlier = datetime.now(UTC) - timedelta(seconds=5)

    assert OrphanSearch(lake.lake).storage_time(lake.spec.identifier) >= earlier
    assert all_files(lake) == files


def test_bytes_are_those_of_the_orphans() -> None:
    when = datetime(2026, 1, 1, tzinfo=UTC)

    assert Orphans("t", (StoredObject("a", 3, when), StoredObject("b", 4, when)), 2, 0).bytes == 7
