"""What a table has used comes from its snapshots and receipts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from frazil.cli.app import run
from frazil.monitoring.cost.observed import observe, observe_transforms
from tests.table.small_lake import PAYLOAD_BYTES, Read, SmallLake
from tests.table.transformed_orders import Orders, spec_of

NOW = datetime.now(UTC) + timedelta(hours=1)


def test_batches_are_observed_with_what_they_read_and_wrote(lake: SmallLake) -> None:
    last = lake.view.snapshots[lake.view.head or 0].committed_at
    head = lake.view.snapshots[lake.view.head or 0]

    found = observe(lake.lake, lake.spec, now=last + timedelta(hours=1))

    assert found is not None
    assert [(each.read_bytes, each.files, round(each.seconds, 3)) for each in found.batches] == [
        (109 * PAYLOAD_BYTES, 1, 0.3),
        (40 * PAYLOAD_BYTES, 1, 0.3),
    ]
    assert sum(each.written_bytes for each in found.batches) == head.figure("total-files-size")
    assert (found.letter_batches, found.letter_files) == (1, 1)
    assert found.stored_bytes == head.figure("total-files-size") + found.letter_bytes
    assert found.begin == found.batches[0].at - timedelta(seconds=0.3)
    assert found.end - found.batches[1].at == timedelta(hours=1)


def test_files_that_retained_snapshots_still_need_are_stored(lake: SmallLake) -> None:
    before = observe(lake.lake, lake.spec, now=lake.view.snapshots[lake.view.head or 0].committed_at)
    lake.table.delete("kafka_offset >= 0")

    after = observe(lake.lake, lake.spec, now=lake.view.snapshots[lake.view.head or 0].committed_at)

    assert before is not None
    assert after is not None
    assert lake.view.snapshots[lake.view.head or 0].figure("total-files-size") == 0
    assert after.stored_bytes == before.stored_bytes


def test_table_without_a_batch_has_no_figures(empty_lake: SmallLake) -> None:
    view = empty_lake.view

    assert observe(empty_lake.lake, empty_lake.spec, now=view.snapshots[view.head or 0].committed_at) is None


def test_batches_of_a_transformation_are_observed_with_their_time_and_read_nothing_from_kafka(tmp_path: Path) -> None:
    orders, spec = Orders(tmp_path), spec_of()
    assert list(observe_transforms(orders.lake, [spec], now=NOW)) == []
    for numbers in ((1, 6), (2,)):
        orders.add(*numbers)
        orders.transformation(spec).batch()

    (found,) = observe_transforms(orders.lake, [spec], now=NOW)

    head = orders.view(spec.identifier).head_snapshot()
    assert head is not None
    assert (found.table, found.end, found.stored_bytes) == (spec.identifier, NOW, head.figure("total-files-size"))
    assert [(each.read_bytes, each.files) for each in found.batches] == [(0, 1), (0, 1)]
    assert sum(each.written_bytes for each in found.batches) == found.stored_bytes
    assert all(each.seconds > 0 for each in found.batches)
    assert found.begin < found.batches[0].at


def test_command_prints_both_deployments(config: str, lake: SmallLake, capfd: pytest.CaptureFixture[str]) -> None:
    lake.batch(Read("orders", 0, 100, 110))

    assert run(["cost", "--mode", "scheduled", "--trigger", "1h", "--config", config]) == 0

    out = capfd.readouterr().out
    assert "streaming, as often as observed, workers 2x8, 4x16, x86_64, 0.454 an hour while it runs:" in out
    assert "scheduled, every 60 min, workers 2x8, 4x16, x86_64, 0.454 an hour while it runs:" in out
    assert "prices of 2026-" in out
    assert "  32.85  NAT gateway" in out
    assert out.rstrip().endswith("USD a month")


def test_json_has_each_part_of_the_cost(config: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["cost", "orders", "--json", "--config", config]) == 0

    found = json.loads(capfd.readouterr().out)
    (cost,) = found["costs"]
    (table,) = cost["tables"]
    assert table["table"] == "lake.orders"
    assert table["total"] == pytest.approx(
        sum(table[part] for part in ("job", "s3_requests", "s3_storage", "glue", "nat_data", "cloudwatch"))
    )
    assert cost["total"] == pytest.approx(table["total"] + sum(cost["shared"].values()))
    assert table["per_gb"] == pytest.approx(table["total"] / table["usage"]["read_gb"])


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--workers", "4x16"], "--workers: expected the sizes of a driver and of executors"),
        (["--workers", "4,16"], "--workers: expected the sizes of a driver and of executors"),
        (["--mode", "batch"], "--mode: expected one of streaming, scheduled"),
        (["--trigger", "soon"], "--trigger: expected a time"),
        (["--nat", "vpn"], "--nat: expected one of gateway, instance, none"),
    ],
)
def test_options_that_cannot_be_are_refused(
    config: str, options: list[str], what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["cost", *options, "--config", config]) == 2

    assert what in capfd.readouterr().err
