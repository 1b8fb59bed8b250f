"""What readers of Delta see of a world's table."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from deltalake import DeltaTable

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.delta.standing import LogStanding, log_standing
from frazil.model.delta import DELTA_TAG, NEXT_DELTA_TAG
from tests.fakes.duckdb_once import engine
from tests.faults.world import World

COLUMNS = ("n", "kafka_partition", "kafka_offset")


def with_delta(world: World) -> World:
    spec = replace(world.spec, formats=("iceberg", "delta"))
    return replace(world, setting=replace(world.setting, spec=spec))


def assert_delta_is_current(world: World) -> None:
    """Check that the log and its tag show the head, and that both of its readers see the rows of Iceberg's readers."""
    view = world.lake.load(world.spec.identifier)
    assert view is not None
    standing = log_standing(view, DeltaRsLogs(world.lake.storage))
    assert standing == LogStanding("current", standing.version, view.head)
    assert view.tags[DELTA_TAG] == view.head
    assert NEXT_DELTA_TAG not in view.tags
    rows = world.scanned(world.spec.identifier, *COLUMNS)
    folder = view.location.removeprefix("file://")
    assert _in_order(DeltaTable(folder).to_pyarrow_table(columns=list(COLUMNS))) == rows
    with engine() as connection:
        found = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM delta_scan('{folder}')").to_arrow_table()
    assert _in_order(found) == rows


def _in_order(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted((tuple(row[c] for c in COLUMNS) for row in table.to_pylist()), key=repr)
