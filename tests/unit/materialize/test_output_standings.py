"""What `status`, `explain` and `doctor` say of an output, by the table's metadata."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from output_worlds import TOPIC, OutputWorld

from frazil.doctor.tables import look_at_table
from frazil.fail_on import met_by, parse_conditions
from frazil.materialize.preview.explain import explain, lines
from frazil.model.moments import rfc3339
from frazil.monitoring.remarks import remarks
from frazil.status import TableStatus, table_statuses

NOW = datetime(2026, 11, 20, tzinfo=UTC)
SENT = f"output {TOPIC} has sent epoch 1 to {TOPIC}"


@pytest.fixture
def world(tmp_path: Path) -> OutputWorld:
    return OutputWorld.at(tmp_path)


def status(world: OutputWorld) -> TableStatus:
    source = world.source
    (found,) = table_statuses(source.lake, source.topics, [world.spec], delta_logs=lambda: cast(Any, None), now=NOW)
    return found


def said(world: OutputWorld) -> str:
    """What all three say, which is the same."""
    (text,) = [str(each) for each in status(world).outputs]
    assert f"lake.orders: {text}" in remarks([status(world)])
    assert f"  {text}" in lines(explain(world.run()))
    (finding,) = [f for f in look_at_table(world.spec, world.view, now=NOW) if f.what.startswith("output ")]
    assert (finding.what, finding.found) == (f"output {TOPIC} of lake.orders", text)
    assert (finding.verdict == "failed") == (status(world).output_problem is not None)
    return text


def test_a_table_that_is_not_made_yet_begins_its_output(world: OutputWorld) -> None:
    world.produce(1)

    assert f"  output {TOPIC} begins with the next epoch" in lines(explain(world.run()))


def test_an_output_that_lacks_nothing(world: OutputWorld) -> None:
    world.produce(2)
    world.drain()

    assert said(world) == f"{SENT}, and lacks none"


def test_what_is_unsent_and_since_when(world: OutputWorld) -> None:
    world.produce(2)
    world.drain()
    world.cluster.partitions_of.clear()
    world.produce(4)
    world.drain()

    first = next(each for each in world.view.snapshots.values() if each.summary["frazil.epoch"] == "2")
    assert said(world) == f"{SENT}: 2 epochs unsent with 4 rows, since {rfc3339(first.committed_at)}"
    (output,) = status(world).to_json()["outputs"]
    assert (output["epoch"], output["unsent"], output["since"]) == (1, 2, rfc3339(first.committed_at))


def test_an_output_that_is_halted(world: OutputWorld) -> None:
    world.produce(6)
    world.drain()
    parent = world.view.snapshots[world.view.head or 0].parent_id
    table = world.source.lake.catalog.load_table(world.spec.identifier)
    table.manage_snapshots().rollback_to_snapshot(parent or 0).commit()

    assert said(world).startswith(f"output {TOPIC} is halted: lake.orders: the output {TOPIC} has sent epoch 2")
    (reason,) = met_by([status(world)], parse_conditions("problem"))
    assert "rolled back or rebuilt" in reason
