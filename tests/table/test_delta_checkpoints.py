"""Checkpoints of a Delta log, and the versions that are deleted because a checkpoint contains them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.delta.standing import log_standing
from frazil.model.delta import ExtendLog
from frazil.model.settings import CatalogSettings
from tests.table.delta_trades import Trades, by_delta_in_duckdb, by_delta_rs, by_iceberg


@pytest.fixture
def trades(tmp_path: Path) -> Trades:
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path / "lake")))
    return Trades(lake, DeltaRsLogs(lake.storage))


def versions_without_files(trades: Trades, *, up_to: int) -> None:
    """Write versions that say nothing new, as far as this one."""
    log = trades.logs.read(trades.view.location)
    assert log is not None and log.snapshot_id is not None
    for base in range(log.version, up_to):
        trades.logs.write(trades.view.location, ExtendLog(log.snapshot_id, base, log.metadata, (), ()))


def a_month_ago(path: Path) -> None:
    moment = time.time() - 31 * 86_400
    os.utime(path, (moment, moment))


def test_a_checkpoint_alone_is_read_as_its_versions_were(trades: Trades) -> None:
    trades.create(partition_by=("symbol",))
    trades.append(*range(5))
    trades.announce()
    trades.compact()
    trades.append(*range(5, 9))
    trades.announce()
    versions_without_files(trades, up_to=10)
    log = trades.folder / "_delta_log"
    for version in range(10):
        (log / f"{version:020}.json").unlink()

    assert (json.loads((log / "_last_checkpoint").read_text())["version"], len(trades.versions())) == (9, 1)
    assert by_delta_rs(trades) == by_delta_in_duckdb(trades) == by_iceberg(trades)
    assert log_standing(trades.view, trades.logs).state == "current"


def test_a_checkpoint_has_the_statistics_and_every_file_that_was_removed(trades: Trades) -> None:
    trades.create(partition_by=("symbol",))
    trades.append(*range(5))
    trades.announce()
    trades.compact()
    trades.announce()
    versions_without_files(trades, up_to=9)

    actions = pq.read_table(trades.folder / "_delta_log" / f"{9:020}.checkpoint.parquet").to_pylist()
    added, removed, transactions = ([a[kind] for a in actions if a[kind]] for kind in ("add", "remove", "txn"))

    assert {each["path"] for each in added} == {each["path"] for each in _added(trades, 1)}
    assert {each["stats"] for each in added} == {each["stats"] for each in _added(trades, 1)}
    assert {each["path"] for each in removed} == {each["path"] for each in _added(trades, 0)}
    assert all(each["deletionTimestamp"] for each in removed)
    assert [(each["appId"], each["version"]) for each in transactions] == [
        ("frazil.iceberg.snapshot", trades.view.head)
    ]


def _added(trades: Trades, version: int) -> list[dict[str, str]]:
    lines = (trades.folder / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [action["add"] for action in map(json.loads, lines) if "add" in action]


def test_versions_go_after_30_days_once_a_checkpoint_has_them(trades: Trades) -> None:
    trades.create()
    trades.append(1)
    trades.announce()
    versions_without_files(trades, up_to=15)
    log = trades.folder / "_delta_log"
    young = len(trades.versions())
    for version in range(13):
        a_month_ago(log / f"{version:020}.json")
    a_month_ago(log / f"{9:020}.checkpoint.parquet")

    versions_without_files(trades, up_to=20)

    left = [int(name.removesuffix(".json")) for name in trades.versions()]
    assert (young, left) == (16, list(range(9, 21)))
    assert by_delta_rs(trades) == by_iceberg(trades)
    oldest = DeltaTable(str(trades.folder), version=left[0])
    assert oldest.to_pyarrow_table().num_rows == 1


def test_a_version_that_no_checkpoint_has_stays_however_old_it_is(trades: Trades) -> None:
    trades.create()
    trades.append(1)
    trades.announce()
    for name in trades.versions():
        a_month_ago(trades.folder / "_delta_log" / name)

    versions_without_files(trades, up_to=8)

    assert len(trades.versions()) == 9
