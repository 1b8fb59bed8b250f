"""Tables that Frazil does not fill, or cannot write, are not maintained, and each of many tables is."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from test_maintenance import ALWAYS, Orders, asked

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.cli.maintain import _Asked, _Running
from frazil.maintain import expiring
from frazil.materialize.maintenance.preview import preview
from frazil.materialize.maintenance.request import MaintenanceResult
from frazil.model.errors import ForeignTableError, FormatVersionError


def test_a_table_of_others_keeps_its_files_and_snapshots(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    catalog, identifier = orders.world.lake.catalog, orders.spec.identifier
    catalog.create_namespace("lake")
    theirs = catalog.create_table(identifier, pa.schema([("n", pa.int64())]))
    for number in range(4):
        theirs.append(pa.table({"n": [number]}))
    head = orders.view.head

    for compact, expire in ((True, False), (False, True)):
        with pytest.raises(ForeignTableError, match="Frazil did not create it"):
            orders.perform(asked(compact=compact, expire=expire))
        with pytest.raises(ForeignTableError, match="Frazil did not create it"):
            preview(orders.run.clients, orders.spec, compact=compact, expire=expire)

    assert orders.view.head == head
    assert len(orders.view.snapshots) == 4


def test_a_table_that_was_upgraded_to_iceberg_v3_keeps_its_files(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.batches(4)
    lake = orders.world.lake
    metadata = Path(lake.catalog.load_table(orders.spec.identifier).metadata_location.removeprefix("file://"))
    metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "format-version": 3, "next-row-id": 0}))
    orders.world.lake = IcebergLake(lake._settings)  # the first one caches metadata

    with pytest.raises(FormatVersionError, match="has Iceberg format version 3, expected 2"):
        orders.perform(asked())

    assert orders.rows_of_files() == [2, 2, 2, 2]


def test_the_files_of_a_table_are_deleted_before_the_next_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deletions that were still under way kept the snapshots of all later tables, which had "nothing to do"."""
    orders, deleted = Orders(tmp_path), list[str]()
    orders.batches(4)
    spec = replace(orders.spec, maintain=replace(orders.spec.maintain, keep_snapshots=ALWAYS))

    def slow(lake: Any, logs: Any, view: Any, *more: Any, **named: Any) -> None:
        time.sleep(0.3)
        deleted.append(view.identifier)

    monkeypatch.setattr(expiring, "clean", slow)
    only_expire = _Asked(compact=False, expire=True, budget=None, wait=0)
    running = _Running(orders.world.lake, cast(Any, None), only_expire, tmp_path, None)
    running._clients = orders.world.table(orders.spec).clients

    assert running.maintain(spec).expired_snapshots > 0
    assert spec.identifier in deleted


def test_an_error_of_one_table_leaves_out_no_other(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.batches(4)
    catalog = orders.world.lake.catalog
    catalog.create_table("lake.theirs", pa.schema([("n", pa.int64())]))
    running = _Running(orders.world.lake, cast(Any, None), _Asked(True, True, None, wait=0), tmp_path, None)
    running._clients = orders.world.table(orders.spec).clients

    done, failed = running.maintain_all([replace(orders.spec, table="theirs"), orders.spec])

    assert done[orders.spec.identifier].files == 4
    assert [type(each) for each in failed] == [ForeignTableError]


def test_a_driver_that_gives_up_is_not_asked_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others commit all the time: it has more to do, and has rewritten no file."""
    orders, answers = Orders(tmp_path), iter([MaintenanceResult(files=2, more=True), MaintenanceResult(more=True)])
    orders.batches(1)
    running = _Running(orders.world.lake, cast(Any, None), _Asked(True, True, None, wait=1), tmp_path, None)
    monkeypatch.setattr(_Running, "_by_driver", lambda *given: next(answers))
    monkeypatch.setattr(_Running, "_new_request", lambda running: asked())

    done = running.maintain(orders.spec)

    assert (done.files, done.more, [*answers]) == (2, True, [])
