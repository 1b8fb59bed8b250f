"""Transformations in `frazil status --json` and in the metrics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from frazil.monitoring.prometheus import exposition
from frazil.monitoring.transform_metrics import transform_metrics
from frazil.transforms.standing import TransformStanding, transform_standing
from tests.table.transformed_orders import Orders, spec_of

GROUPS = spec_of("SELECT symbol, count(*) AS orders FROM orders GROUP BY symbol")


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path)


def metrics(found: TransformStanding, now: datetime) -> dict[str, str]:
    lines = exposition(transform_metrics([found], now=now)).splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    label = 'transform="made",table="lake.made"'
    return {name.replace(label, "").removeprefix("frazil_transform_"): value for name, _, value in samples}


def test_unread_rows_and_their_time_are_the_lag_of_a_transformation(orders: Orders) -> None:
    orders.add(1, 6, 2, 11)
    orders.transformation(GROUPS).batch()
    read = orders.view().head_snapshot()
    first = orders.add(1, 4)
    orders.add(3)
    view = orders.view()
    assert read is not None
    now = view.snapshots[first].committed_at + timedelta(seconds=90)

    found = transform_standing(orders.lake, GROUPS)

    made = orders.view("lake.made").head_snapshot()
    assert made is not None
    value = found.to_json(now)
    last = value.pop("last_batch")
    assert (last["rows"], last["snapshot_id"]) == (3, made.id)
    assert datetime.fromisoformat(value.pop("read_through")) == read.committed_at
    assert value == {
        "transform": "made",
        "table": "lake.made",
        "follows": "lake.orders",
        "state": "behind",
        "problem": None,
        "lag": 3,
        "lag_epochs": 2,
        "lag_seconds": 90.0,
        "read_epoch": 1,
        "age_seconds": (now - read.committed_at).total_seconds(),
        "epoch": 1,
        "rows": 3,
        "keys": ["symbol"],
        "snapshots": 2,
        "outputs": [],
    }
    shown = metrics(found, now)
    assert (shown["lag_rows{}"], shown["lag_seconds{}"], shown["rows{}"]) == ("3", "90", "3")
    assert shown['state{,state="behind"}'] == "1"
    assert shown['state{,state="caught up"}'] == "0"


def test_a_transformation_that_has_read_everything_has_no_lag(orders: Orders) -> None:
    orders.add(1, 2)
    orders.transformation(spec_of()).batch()

    value = transform_standing(orders.lake, spec_of()).to_json(datetime.now(UTC))

    assert (value["state"], value["lag"], value["lag_epochs"], value["lag_seconds"]) == ("caught up", 0, 0, 0.0)


def test_before_its_first_batch_all_rows_are_unread(orders: Orders) -> None:
    orders.add(1, 2)
    now = datetime.now(UTC)

    found = transform_standing(orders.lake, spec_of())

    assert (found.state, found.unread_rows, found.lag_seconds(now)) == ("no table", 2, None)
    assert "lag_seconds{}" not in metrics(found, now)


def test_a_halted_transformation_shows_why_and_what_its_table_has(orders: Orders) -> None:
    orders.add(1, 2)
    orders.transformation(spec_of()).batch()

    value = transform_standing(orders.lake, spec_of("SELECT id FROM orders")).to_json(datetime.now(UTC))

    assert (value["state"], value["rows"], value["epoch"], value["lag"]) == ("in trouble", 2, 1, None)
    assert "has changed since the table was filled" in value["problem"]
