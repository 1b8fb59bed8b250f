"""What a long-running process does around the batches of a transformation: renewed clients, and maintenance."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.storage.export_folder import ExportFolder
from frazil.cli.transform import queries_in
from frazil.exports.perform import Export
from frazil.exports.periods import period_between
from frazil.materialize.scheduling.schedule import Stopping
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.errors import CatalogError
from frazil.model.exports import ExportSpec, ExportWindow
from frazil.model.settings import CatalogSettings
from frazil.model.spec import KeepSnapshots, Maintain
from frazil.model.transforms import transform_state
from frazil.transforms.schedule import run_beside
from frazil.transforms.upkeep import Upkeep
from tests.fakes.in_process import InProcessRunner
from tests.table.process_clients import source_of
from tests.table.transformed_orders import Orders, by_id, spec_of

KEEP_2 = Maintain(1 << 20, keep_snapshots=KeepSnapshots(timedelta(hours=1), count=2, daily=0))


def test_old_snapshots_expire_and_the_position_stays(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    spec = spec_of("SELECT * FROM orders", maintain=KEEP_2)
    source = source_of(orders)
    made = orders.transformation(spec)
    made.upkeep = Upkeep(spec, source, "w")

    for number in range(6):
        orders.add(number)
        made.batch()
    source.now.background.finish()

    view = orders.view("lake.made")
    state = transform_state(view.snapshots[view.tags[CHECKPOINT_TAG]])
    assert len(view.snapshots) == 2
    assert state is not None and state.position is not None
    assert (state.position.epoch, state.position.snapshot_id) == (6, orders.view().head)
    orders.add(6)
    again = orders.transformation(spec).batch()
    assert again is not None
    assert (again.read, by_id(orders.rows_of())) == (1, by_id(orders.rows))


def test_small_files_are_merged_where_rows_stay(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    spec = spec_of("SELECT * FROM orders")
    source = source_of(orders, InProcessRunner())
    made = orders.transformation(spec)
    made.upkeep = Upkeep(spec, source, "w")
    most = 0

    for number in range(40):
        orders.add(number)
        made.batch()
        most = max(most, len(orders.lake.stored_files(orders.view("lake.made"))))

    assert most <= 25
    assert by_id(orders.rows_of()) == by_id(orders.rows)
    orders.add(40)
    again = orders.transformation(spec).batch()
    assert again is not None
    assert (again.read, by_id(orders.rows_of())) == (1, by_id(orders.rows))


def test_a_merge_of_files_makes_no_correction_of_an_export(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    spec = spec_of("SELECT id, CAST('2026-01-06 12:00:00' AS TIMESTAMP) AS at FROM orders")
    made, upkeep = orders.transformation(spec), Upkeep(spec, source_of(orders, InProcessRunner()), "w")
    for number in range(30):
        orders.add(number)
        made.batch()
    export = ExportSpec("exports/x.yaml", "x", "lake.made", str(tmp_path / "out"), ExportWindow("at", "week", "UTC"))
    period = period_between(ExportWindow("at", "week", "UTC"), "2026-01-05", "2026-01-12")
    run = Export(export, orders.lake, lambda at: ExportFolder(orders.lake.storage, at), lambda: datetime.now(UTC)).run
    first = run(period).written
    assert first is not None and first.rows == 30

    upkeep.after_batch()

    head = orders.view("lake.made").head_snapshot()
    assert head is not None and head.operation == "replace"
    assert run(period).written is None
    orders.add(30)
    made.batch()
    again = run(period).written
    assert again is not None and again.rows == 31


def test_the_next_batch_has_the_clients_of_renewed_secrets(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.add(1)
    spec, source = spec_of("SELECT * FROM orders"), source_of(orders)
    made, opened = orders.transformation(spec), cast(Any, object())
    made.upkeep = Upkeep(spec, source, "w")
    renewed = IcebergLake(CatalogSettings("jdbc", str(tmp_path)))
    upkeep = made.upkeep
    in_session = queries_in(lambda: opened, lambda: upkeep.clients.lake)
    duck = made.queries
    seen: list[tuple[object, object]] = []

    def queries() -> Any:
        source.now = replace(source.now, lake=renewed)  # while the batch is at work
        seen.append((made.lake, cast(Any, in_session()).lake))
        return duck()

    made.queries = queries
    made.batch()
    orders.add(2)
    made.batch()

    assert (seen[0], seen[-1]) == ((orders.lake, orders.lake), (renewed, renewed))
    assert by_id(orders.rows_of()) == by_id(orders.rows)


def test_after_a_service_failed_secrets_are_read_again_soon(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.add(1)
    spec, source = spec_of("SELECT * FROM orders"), source_of(orders)
    made = orders.transformation(spec, queries=lambda: (_ for _ in ()).throw(CatalogError("refused", hint="wait")))
    made.upkeep = Upkeep(spec, source, "w")

    with pytest.raises(CatalogError, match="refused"):
        made.batch()

    assert source.invalidated == 1


def test_a_look_beside_the_followed_table_has_the_clients_of_renewed_secrets(tmp_path: Path) -> None:
    orders, stopping = Orders(tmp_path), Stopping()
    orders.add(1)
    spec, source = spec_of("SELECT * FROM orders"), source_of(orders)
    made = orders.transformation(spec)
    made.lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path / "revoked")))
    made.lake.load = lambda identifier: (_ for _ in ()).throw(CatalogError("revoked", hint="wait"))  # type: ignore[method-assign]
    source.now = replace(source.now, lake=made.lake)
    made.upkeep = Upkeep(spec, source, "w")
    pauses: list[int] = []

    def sleep(seconds: float) -> bool:
        assert seconds == 0
        pauses.append(source.invalidated)
        source.now = replace(source.now, lake=orders.lake)
        if len(pauses) == 3:
            stopping.stop()
        return False

    stopping.sleep = sleep  # type: ignore[method-assign]
    (report,) = run_beside([made], 0, stopping, lambda _: None)

    assert pauses[0] == 1
    assert (report.rows, report.failure) == (1, None)


def test_a_published_batch_is_done_if_its_upkeep_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    orders = Orders(tmp_path)
    orders.add(1)
    spec = spec_of("SELECT * FROM orders")
    made = orders.transformation(spec)
    made.upkeep = Upkeep(spec, source_of(orders), "w")
    batch = made._batch

    def and_then_silence() -> object:
        done = batch()
        orders.lake.load = lambda identifier: (_ for _ in ()).throw(CatalogError("silent", hint="wait"))  # type: ignore[method-assign]
        return done

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(made), "_batch", lambda _: and_then_silence())
        done = made.batch()

    assert done is not None
    assert "upkeep_failed" in [each.message for each in caplog.records]
