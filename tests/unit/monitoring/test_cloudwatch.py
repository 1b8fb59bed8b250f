"""Metrics for CloudWatch in log lines, as its specification of the embedded metric format has them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from test_prometheus import AT, HOSTILE, ORDERS

from frazil.cli.watch import cloudwatch_lines
from frazil.model.progress import Counts
from frazil.model.receipt import Receipt
from frazil.monitoring.cloudwatch import CloudWatchLines
from frazil.status import TableStatus

NOW = AT + timedelta(seconds=42.5)
LINES = CloudWatchLines("Frazil/dev", "streaming")
RECEIPT = Receipt(
    table="lake.orders",
    epoch=4,
    batch_id="b4",
    ranges=(),
    counts=Counts(read=100, rows=97, dead_letters=3),
    skipped_by_reason={},
    dead_letters_by_reason={"bad_utf8": 3},
    payload_bytes=0,
    file_bytes=0,
    files=1,
    truncated_nanos=0,
    complete_through=AT,
    seconds={"ingest": 1.25, "publish": 0.5},
)


def values(line: str) -> dict[str, Any]:
    """Return what CloudWatch makes of a line: each metric with its value and its unit."""
    said = json.loads(line)
    about, *of_run = said["_aws"]["CloudWatchMetrics"]
    assert said["_aws"]["Timestamp"] == int(NOW.timestamp() * 1000)
    assert about["Namespace"] == "Frazil/dev"
    assert about["Dimensions"] == [["Table"]]
    lag = {"Namespace": "Frazil/dev", "Dimensions": [["Run"]], "Metrics": [{"Name": "LagSeconds", "Unit": "Seconds"}]}
    assert of_run == ([lag] if "LagSeconds" in said else [])
    assert isinstance(said["Table"], str)
    assert isinstance(said["Run"], str)
    return {each["Name"]: (said[each["Name"]], each["Unit"]) for each in about["Metrics"]}


def test_a_batch_is_one_line_with_what_it_did() -> None:
    line = LINES.of_batch(RECEIPT, now=NOW)

    assert "\n" not in line
    assert values(line) == {
        "RowsAdded": (97, "Count"),
        "DeadLetters": (3, "Count"),
        "FreshnessSeconds": (42.5, "Seconds"),
    }
    assert {"Table": "lake.orders", "Run": "streaming", "BatchSeconds": 1.75, "Epoch": 4}.items() <= json.loads(
        line
    ).items()


def test_a_batch_of_a_first_backfill_has_no_freshness() -> None:
    assert "FreshnessSeconds" not in LINES.of_batch(replace(RECEIPT, complete_through=None), now=NOW)


def test_each_table_that_exists_is_a_line_without_what_is_unknown() -> None:
    unknown = replace(ORDERS, partitions=(), files=None)
    lines = list(LINES.of_tables([ORDERS, unknown, TableStatus("lake.new", problem="not created yet")], now=NOW))

    assert [values(line) for line in lines] == [
        {
            "LagRecords": (10, "Count"),
            "LagSeconds": (90.5, "Seconds"),
            "SmallFiles": (3, "Count"),
            "DeleteFiles": (1, "Count"),
        },
    ]


def test_hostile_names_stay_within_their_value() -> None:
    line = LINES.of_batch(replace(RECEIPT, table=HOSTILE), now=NOW)

    assert "\n" not in line
    assert json.loads(line)["Table"] == HOSTILE


def test_only_a_driver_that_is_told_a_namespace_writes_lines() -> None:
    assert cloudwatch_lines({}) is None
    assert cloudwatch_lines({"FRAZIL_METRICS_NAMESPACE": "Frazil/dev", "FRAZIL_METRICS_RUN": "streaming"}) == LINES
