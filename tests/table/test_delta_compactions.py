"""A Delta log when files are compacted: with batches between two versions, and with deleted rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.rewrite_files import rewrite_files
from frazil.delta.standing import LogStanding, log_standing
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.readers.delta import announce_delta
from frazil.materialize.rewrite_tags import REWRITE_PREFIX
from frazil.model.delta import DELTA_TAG, NEXT_DELTA_TAG, Announced, LogWritten, Withheld
from frazil.model.ingested import DeletedRows, DroppedFile
from frazil.model.rewrites import RewriteTask
from frazil.model.summary import REWRITTEN_BY
from tests.fakes.duckdb_once import engine
from tests.table.small_lake import Read, SmallLake


def announce(lake: SmallLake) -> Announced | None:
    return announce_delta(lake.lake, lambda: DeltaRsLogs(lake.lake.storage), lake.view)


def folder(lake: SmallLake) -> Path:
    return Path(lake.view.location.removeprefix("file://"))


def version(lake: SmallLake, number: int) -> tuple[int, int, set[bool]]:
    """Return how many files a version adds and removes, and whether it says that rows have changed."""
    text = (folder(lake) / "_delta_log" / f"{number:020}.json").read_text()
    actions = [json.loads(line) for line in text.splitlines()]
    added, removed = ([each[kind] for each in actions if kind in each] for kind in ("add", "remove"))
    return len(added), len(removed), {each["dataChange"] for each in (*added, *removed)}


def offsets_in_delta(lake: SmallLake, at: int | None = None) -> list[tuple[int, int]]:
    table = DeltaTable(str(folder(lake)), version=at)
    rows = table.to_pyarrow_table(columns=["kafka_partition", "kafka_offset"]).to_pylist()
    return sorted((row["kafka_partition"], row["kafka_offset"]) for row in rows)


def offsets_in_duckdb(lake: SmallLake) -> list[tuple[int, int]]:
    with engine() as connection:
        found = connection.execute(f"SELECT kafka_partition, kafka_offset FROM delta_scan('{folder(lake)}')").fetchall()
    return sorted(found)


def offsets(lake: SmallLake) -> list[tuple[int, int]]:
    rows = lake.table.scan(selected_fields=("kafka_partition", "kafka_offset")).to_arrow().to_pylist()
    return sorted((row["kafka_partition"], row["kafka_offset"]) for row in rows)


def delete_one_in(lake: SmallLake, number: int) -> None:
    """Delete rows of each data file by their positions, as a batch of a table with keys does."""
    view = lake.view
    deletes = [DeletedRows(f.path, range(0, f.rows, number)) for f in lake.lake.stored_files(view) if not f.deletes]
    assert view.head is not None
    lake.lake.stage(view, base=view.head, branch="stage", files=(), summary={}, deletes=deletes)
    lake.lake.publish(lake.view, branch="stage", tag="frazil_checkpoint", drop=["stage"])


def rewrite_all(lake: SmallLake, *, drop_deletes: bool) -> None:
    """Write all data files again without their deleted rows, as Frazil does between batches, or as Iceberg's Java."""
    view = lake.view
    files = lake.lake.stored_files(view)
    task = RewriteTask(
        target=write_target(view), files=files, prefix="r", target_bytes=1 << 20, storage=lake.lake.storage
    )
    dropped = [DroppedFile(each.path, tuple(own.path for own in each.own_deletes if drop_deletes)) for each in files]
    lake.lake.rewrite(
        view,
        files=rewrite_files(task).files,
        dropped=dropped,
        summary={REWRITTEN_BY: "w"},
        figures={},
        tag_prefix=REWRITE_PREFIX,
    )


def test_a_compaction_between_two_batches_replaces_its_files_in_one_version_without_a_change_of_rows(
    lake: SmallLake,
) -> None:
    """A stream over the log would otherwise take the compacted file for new rows, and read them twice."""
    announce(lake)
    lake.batch(Read("orders", 1, 50, 60))
    before = offsets(lake)
    lake.compact()
    lake.batch(Read("orders", 1, 60, 70))

    written = announce(lake)

    assert written == LogWritten(3, lake.view.head or 0)
    assert [version(lake, number) for number in (1, 2, 3)] == [(1, 0, {True}), (1, 3, {False}), (1, 0, {True})]
    assert offsets_in_delta(lake, 1) == offsets_in_delta(lake, 2) == before
    assert offsets_in_delta(lake) == offsets_in_duckdb(lake) == offsets(lake)
    assert (lake.view.tags[DELTA_TAG], NEXT_DELTA_TAG in lake.view.tags) == (lake.view.head, False)


@pytest.mark.parametrize("dropped", [True, False], ids=["no delete files are left", "they remove nothing any more"])
def test_the_log_of_a_table_with_deleted_rows_follows_its_compactions(lake: SmallLake, dropped: bool) -> None:
    announce(lake)
    first, begun = offsets(lake), lake.view.head
    delete_one_in(lake, 3)
    withheld, waiting = announce(lake), log_standing(lake.view, DeltaRsLogs(lake.lake.storage))
    in_between = offsets_in_delta(lake)
    applied = offsets(lake)
    rewrite_all(lake, drop_deletes=dropped)
    compacted = lake.view.head
    delete_one_in(lake, 5)

    behind = log_standing(lake.view, DeltaRsLogs(lake.lake.storage))
    written, again = announce(lake), announce(lake)

    assert isinstance(withheld, Withheld)
    assert (waiting.state, waiting.version, waiting.snapshot_id) == ("withheld", 0, begun)
    assert in_between == first != applied
    assert behind == LogStanding("behind", 0, begun)
    assert written == LogWritten(1, compacted or 0)
    assert offsets_in_delta(lake) == offsets_in_duckdb(lake) == applied
    assert (isinstance(again, Withheld), lake.view.tags[DELTA_TAG]) == (True, compacted)


def test_a_waiting_log_that_another_writer_emptied_is_repaired(lake: SmallLake) -> None:
    announce(lake)
    rows = offsets(lake)
    delete_one_in(lake, 3)
    DeltaTable(str(folder(lake))).delete()

    assert isinstance(announce(lake), LogWritten)
    assert offsets_in_delta(lake) == rows
