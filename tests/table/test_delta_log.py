"""A Delta log beside a real Iceberg table: Iceberg, delta-rs and DuckDB read the same rows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import boto3
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from moto.server import ThreadedMotoServer

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg import manifests
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.delta.standing import log_standing
from frazil.model.changes import AddColumn, Change, RenameColumn, WidenType
from frazil.model.columns import Scalar
from frazil.model.delta import BeginLog, ExtendLog, LogIsCurrent, ReplaceLog, Withheld
from frazil.model.errors import CommitRejectedError
from frazil.model.settings import CatalogSettings
from tests.table.delta_trades import Trades, by_delta_in_duckdb, by_delta_rs, by_iceberg


@pytest.fixture
def trades(tmp_path: Path) -> Trades:
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path / "lake")))
    return Trades(lake, DeltaRsLogs(lake.storage))


@pytest.mark.parametrize("partition_by", [(), ("symbol",), ("day(at)", "bucket(2, symbol)")])
def test_all_three_read_the_same_rows(trades: Trades, partition_by: tuple[str, ...]) -> None:
    trades.create(partition_by=partition_by)
    trades.append(*range(7))
    first = trades.announce()
    trades.append(*range(7, 12))
    trades.change(AddColumn("venue", Scalar("string")), AddColumn("party.city", Scalar("string")))
    trades.append(*range(12, 15))
    second = trades.announce()

    assert isinstance(first, BeginLog)
    assert isinstance(second, ExtendLog)
    assert len(by_iceberg(trades)) == 15
    assert by_iceberg(trades) == by_delta_rs(trades) == by_delta_in_duckdb(trades)


def test_the_log_follows_manifests_that_are_merged(trades: Trades, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "AT_MOST_ALIKE", 2)
    trades.create(partition_by=("symbol",))
    for number in range(9):
        trades.append(number)
        if number % 2:
            trades.announce()
    trades.announce()

    assert len(trades.lake.catalog.load_table("lake.trades").current_snapshot().manifests(trades.view.current.io)) < 5
    assert len(by_iceberg(trades)) == 9
    assert by_iceberg(trades) == by_delta_rs(trades) == by_delta_in_duckdb(trades)


def test_a_log_that_names_a_file_twice_and_an_old_one_is_noticed_and_repaired(trades: Trades) -> None:
    """As if a compaction had added files and removed none: every row is there twice."""
    trades.create(partition_by=("symbol",))
    trades.append(*range(5))
    trades.announce()
    trades.compact()
    plan = trades.plan()
    assert isinstance(plan, ExtendLog)
    trades.logs.write(trades.view.location, replace(plan, remove=()))
    damaged = (log_standing(trades.view, trades.logs), len(by_delta_rs(trades)))

    trades.announce()

    assert (damaged[0].state, damaged[1]) == ("behind", 10)
    assert log_standing(trades.view, trades.logs).state == "current"
    assert by_delta_rs(trades) == by_iceberg(trades) == by_delta_in_duckdb(trades)


def test_a_table_without_rows_has_a_log_without_files(trades: Trades) -> None:
    trades.create()
    trades.announce()

    log = trades.logs.read(trades.view.location)

    assert log is not None
    assert (log.version, log.snapshot_id, log.files) == (0, trades.view.head, ())
    assert by_delta_rs(trades) == by_delta_in_duckdb(trades) == []


def test_one_version_a_snapshot_however_often_it_is_announced(trades: Trades) -> None:
    trades.create()
    trades.append(1, 2)
    trades.announce()
    trades.append(3)
    trades.announce()

    assert trades.announce() == LogIsCurrent(1, trades.view.head or 0)
    assert trades.versions() == ["00000000000000000000.json", "00000000000000000001.json"]


def test_a_missing_version_is_caught_up_by_one_with_the_difference(trades: Trades) -> None:
    trades.create()
    trades.append(1)
    trades.announce()
    trades.append(2)  # and the process dies before it announces
    trades.append(3)

    trades.announce()

    assert len(trades.versions()) == 2
    assert by_delta_rs(trades) == by_iceberg(trades)


def test_a_crash_after_the_columns_is_caught_up(trades: Trades) -> None:
    trades.create()
    trades.append(1)
    trades.announce()
    trades.change(AddColumn("venue", Scalar("string")))
    trades.append(2)
    plan = trades.plan()
    assert isinstance(plan, ExtendLog)
    columns_only = ExtendLog(1, plan.base, plan.metadata, (), (), plan.new_columns)
    trades.logs.write(trades.view.location, columns_only)

    again = trades.announce()

    assert isinstance(again, ExtendLog)
    assert again.new_columns == ()
    assert by_delta_rs(trades) == by_iceberg(trades) == by_delta_in_duckdb(trades)


def test_a_plan_that_somebody_overtook_is_refused(trades: Trades) -> None:
    trades.create()
    trades.append(1)
    begun = trades.plan()
    trades.announce()
    trades.append(2)
    overtaken = trades.plan()
    trades.append(3)
    trades.announce()

    for plan in (begun, overtaken):
        assert isinstance(plan, BeginLog | ExtendLog)
        with pytest.raises(CommitRejectedError):
            trades.logs.write(trades.view.location, plan)

    assert by_delta_rs(trades) == by_iceberg(trades)
    assert len(trades.versions()) == 2


def test_compaction_removes_and_adds_in_one_version(trades: Trades) -> None:
    trades.create()
    trades.append(1)
    trades.append(2)
    trades.announce()
    trades.compact()

    plan = trades.announce()

    assert isinstance(plan, ExtendLog)
    assert (len(plan.add), len(plan.remove)) == (1, 2)
    assert by_delta_rs(trades) == by_iceberg(trades) == by_delta_in_duckdb(trades)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (RenameColumn("id", "number"), "id was renamed to number"),
        (WidenType("id", Scalar("int"), Scalar("long")), "id changed from integer to long"),
        (RenameColumn("legs[].n", "lots"), "legs[].n was renamed to legs[].lots"),
    ],
)
def test_what_readers_would_misread_waits_for_a_compaction(trades: Trades, change: Change, said: str) -> None:
    trades.create()
    trades.append(1)
    trades.announce()
    before = by_delta_rs(trades)
    trades.change(change)
    trades.append(2)

    withheld = trades.announce()
    after = by_delta_rs(trades)
    trades.compact()
    replaced = trades.announce()

    assert isinstance(withheld, Withheld)
    assert said in withheld.reason
    assert after == before
    assert isinstance(replaced, ReplaceLog)
    assert by_delta_rs(trades) == by_iceberg(trades) == by_delta_in_duckdb(trades)


def test_a_log_does_not_begin_over_files_that_readers_would_misread(trades: Trades) -> None:
    trades.create()
    trades.append(1)
    trades.change(RenameColumn("id", "number"))
    trades.append(2)

    withheld = trades.announce()

    assert isinstance(withheld, Withheld)
    assert "id was renamed to number" in withheld.reason
    assert trades.versions() == []


def test_the_log_asks_for_reader_version_1_and_writer_version_2_and_copies_nothing(trades: Trades) -> None:
    trades.create(partition_by=("symbol",))
    trades.append(*range(5))
    files = sorted(trades.folder.rglob("*.parquet"))
    trades.announce()

    protocol = DeltaTable(str(trades.folder)).protocol()

    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert sorted(trades.folder.rglob("*.parquet")) == files


def test_statistics_prune(trades: Trades) -> None:
    trades.create()
    trades.append(1, 2)
    trades.announce()

    [action] = pa.table(DeltaTable(str(trades.folder)).get_add_actions(flatten=True)).to_pylist()

    assert (action["num_records"], action["min.id"], action["max.id"], action["null_count.id"]) == (2, 1, 2, 0)
    assert action["max.at"] == datetime(2026, 1, 3, 2, 0, 0, 123456, tzinfo=UTC)


def test_a_vacuum_leaves_the_files_of_iceberg_alone(trades: Trades) -> None:
    """Also after a version that states the metadata anew. Without its setting the log would give all of them up."""
    trades.create()
    trades.append(1)
    trades.announce()
    trades.change(RenameColumn("id", "number"))
    trades.compact()
    assert isinstance(trades.announce(), ReplaceLog)
    trades.append(2)
    a_year_ago = time.time() - 365 * 86_400
    for path in trades.folder.rglob("*.*"):
        os.utime(path, (a_year_ago, a_year_ago))
    in_delta = DeltaTable(str(trades.folder))

    everything = sorted(trades.folder.rglob("*.*"))
    found = [in_delta.vacuum(dry_run=False, full=full) for full in (False, True)]

    assert found == [[], []]
    assert {*everything} <= {*trades.folder.rglob("*.*")}
    with pytest.raises(DeltaError, match="minimum retention"):
        in_delta.vacuum(retention_hours=24 * 30, dry_run=True, full=True)
    forced = in_delta.vacuum(retention_hours=24, dry_run=True, full=True, enforce_retention_duration=False)
    assert any(path.endswith(".metadata.json") for path in forced), "what a forced one would delete"


@pytest.fixture
def on_s3(tmp_path: Path) -> Iterator[Trades]:
    bucket = f"lake-{uuid4()}"  # what the double holds outlives its server
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.region": "us-east-1"}
    storage = {"s3.endpoint": f"http://{host}:{port}", **keys}
    client = boto3.client(
        "s3",
        endpoint_url=storage["s3.endpoint"],
        region_name="us-east-1",
        aws_access_key_id="k",
        aws_secret_access_key="s",
    )
    client.create_bucket(Bucket=bucket)
    catalog = {"uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": f"s3://{bucket}/w", **storage}
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path), catalog))
    yield Trades(lake, DeltaRsLogs(storage))
    server.stop()


def test_on_s3_a_version_is_put_only_where_none_is(on_s3: Trades) -> None:
    on_s3.create()
    on_s3.append(1)
    begun = on_s3.announce()
    on_s3.append(2)
    overtaken = on_s3.plan()
    on_s3.announce()

    for plan in (begun, overtaken):
        assert isinstance(plan, BeginLog | ExtendLog)
        with pytest.raises(CommitRejectedError):
            on_s3.logs.write(on_s3.view.location, plan)

    location = on_s3.view.location
    log = on_s3.logs.read(location)
    assert log is not None
    assert (log.version, log.snapshot_id, len(log.files)) == (1, on_s3.view.head, 2)
    assert [each.paths for each in on_s3.logs.removals(location, newest=1)] == [(), ()]
    assert list(on_s3.logs.removals(location, newest=9)) == [], "a version that was deleted"
    assert on_s3.logs.removed(location) == frozenset()
    io = on_s3.view.current.io
    with io.new_output(f"{location}/_delta_log/{1:020}.json").create(overwrite=True) as stream:
        stream.write(b'{"commitInfo": {"timestamp": 0}}')
    [of_one, of_zero] = on_s3.logs.removals(location, newest=1)
    assert of_one.committed_at.year > 1970, "by the clock of the storage"
    assert of_zero.committed_at - timedelta(minutes=1) < of_one.committed_at


def test_on_s3_the_surroundings_say_who_asks_where_the_settings_do_not(
    on_s3: Trades, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_s3.create()
    keys = {name: value for name, value in on_s3.lake.storage.items() if name in ("s3.endpoint", "s3.region")}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-role")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    logs = DeltaRsLogs(keys)

    options = logs._options(on_s3.view.location)

    assert options is not None
    assert [options[f"AWS_{name}"] for name in ("ACCESS_KEY_ID", "SESSION_TOKEN")] == ["of-the-role", "token"]
    assert logs.read(on_s3.view.location) is None


def test_on_s3_one_of_several_at_once_gets_the_version(on_s3: Trades) -> None:
    on_s3.create()
    on_s3.append(1)
    on_s3.announce()
    location, log = on_s3.view.location, on_s3.logs.read(on_s3.view.location)
    assert log is not None

    def attempt(snapshot_id: int) -> bool:
        try:
            on_s3.logs.write(location, ExtendLog(snapshot_id, log.version, log.metadata, (), ()))
        except CommitRejectedError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = [n for n, has_won in enumerate(pool.map(attempt, range(4))) if has_won]

    after = on_s3.logs.read(location)
    assert after is not None
    assert (after.version, [after.snapshot_id]) == (1, won)
