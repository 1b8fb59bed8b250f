"""The tag of the Delta log keeps files when others compact and expire, and is no part of the state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyiceberg.table import Table

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.doctor.tables import look_at_table
from frazil.materialize.readers.delta import announce_delta
from frazil.materialize.state import standing
from frazil.model.delta import DELTA_TAG, Announced, LogWritten
from frazil.verify.table import verify_table
from tests.fakes.watched_logs import WatchedLogs
from tests.table.small_lake import NOON, Read, SmallLake


class DiedError(BaseException):
    """The process that announces is gone."""


def announce(lake: SmallLake, reach: Callable[[str], None] = lambda moment: None) -> Announced | None:
    return announce_delta(lake.lake, lambda: WatchedLogs(lake.lake.storage, reach), lake.view)


def compact(table: Table) -> None:
    """Rewrite all rows into one new file, as another writer."""
    table.overwrite(table.scan().to_arrow())


def expire_and_sweep(lake: SmallLake) -> None:
    """All snapshots that no branch and no tag keeps expire; files that are in none of the others are deleted."""
    lake.table.maintenance.expire_snapshots().older_than(datetime.now() + timedelta(1)).commit()
    table = lake.table
    live = {
        Path(entry.data_file.file_path.removeprefix("file://"))
        for snapshot in table.snapshots()
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    }
    for file in folder(lake).glob("data/**/*.parquet"):
        if file not in live:
            file.unlink()


def folder(lake: SmallLake) -> Path:
    return Path(lake.view.location.removeprefix("file://"))


def offsets_in_delta(lake: SmallLake) -> list[tuple[int, int]]:
    rows = DeltaTable(str(folder(lake))).to_pyarrow_table(columns=["kafka_partition", "kafka_offset"]).to_pylist()
    return sorted((row["kafka_partition"], row["kafka_offset"]) for row in rows)


def offsets(lake: SmallLake) -> list[tuple[int, int]]:
    rows = lake.table.scan(selected_fields=("kafka_partition", "kafka_offset")).to_arrow().to_pylist()
    return sorted((row["kafka_partition"], row["kafka_offset"]) for row in rows)


@pytest.mark.parametrize("moment", ["before log", "after log"])
@pytest.mark.parametrize("head", ["ours", "of others"])
def test_a_log_is_whole_wherever_its_writer_died_and_others_compacted_and_expired(
    lake: SmallLake, moment: str, head: str
) -> None:
    announce(lake)
    old = offsets(lake)
    compact(lake.table)
    lake.batch(Read("orders", 1, 50, 60))
    if head == "of others":
        lake.table.append(lake.table.scan(row_filter="kafka_offset = 7").to_arrow())
    new = offsets(lake)

    def die_here(reached: str) -> None:
        if reached == moment:
            compact(lake.table)
            expire_and_sweep(lake)
            raise DiedError

    with pytest.raises(DiedError):
        announce(lake, die_here)

    assert offsets_in_delta(lake) == (old if moment == "before log" else new)
    announce(lake)
    expire_and_sweep(lake)
    assert offsets_in_delta(lake) == offsets(lake) == new


def test_the_log_that_is_withheld_keeps_the_files_of_its_older_snapshot(lake: SmallLake) -> None:
    compact(lake.table)
    announce(lake)
    old = offsets(lake)
    with lake.table.update_schema() as update:
        update.rename_column("kafka_key", "who")
    lake.table.append(lake.table.scan(row_filter="kafka_offset = 7").to_arrow())
    announce(lake)

    compact(lake.table)
    expire_and_sweep(lake)

    assert offsets_in_delta(lake) == old


def test_the_tag_is_no_part_of_the_state(lake: SmallLake) -> None:
    before = standing(lake.view, pipeline=lake.spec.pipeline)
    announce(lake)
    after = standing(lake.view, pipeline=lake.spec.pipeline)

    assert DELTA_TAG in after.view.tags
    assert replace(after, view=before.view) == before
    assert verify_table(lake.lake, lake.spec).clean
    assert list(look_at_table(lake.spec, after.view, now=NOON)) == list(look_at_table(lake.spec, before.view, now=NOON))


def test_a_compaction_between_two_batches_is_told_as_before_and_the_proof_holds(lake: SmallLake) -> None:
    announce(lake)
    compact(lake.table)
    announce(lake)
    lake.batch(Read("orders", 1, 50, 60))
    announce(lake)
    expire_and_sweep(lake)

    proof = verify_table(lake.lake, lake.spec)

    assert proof.clean, [str(finding) for finding in proof.findings]
    assert offsets_in_delta(lake) == offsets(lake)


def test_a_rollback_takes_the_log_back_and_is_seen_as_before(lake: SmallLake) -> None:
    announce(lake)
    parent = lake.view.snapshots[lake.view.head or 0].parent_id or 0
    lake.table.manage_snapshots().set_current_snapshot(snapshot_id=parent).commit()

    announced = announce(lake)

    here = standing(lake.view, pipeline=lake.spec.pipeline)
    assert announced == LogWritten(1, parent)
    assert (here.rolled_back, here.state.epoch, here.view.tags[DELTA_TAG]) == (True, 1, parent)
    assert offsets_in_delta(lake) == offsets(lake)


def test_two_processes_announce_at_once_and_the_log_stands_for_the_head(lake: SmallLake) -> None:
    def another(reached: str) -> None:
        if reached == "before log":
            announce_delta(lake.lake, lambda: DeltaRsLogs(lake.lake.storage), lake.view)

    announced = announce(lake, another)

    assert announced == LogWritten(0, lake.view.head or 0)
    assert offsets_in_delta(lake) == offsets(lake)
