"""Transformations in the real Spark, whose process, process group or worker is killed within a batch."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from tests.faults.own_groups import OwnGroups
from tests.faults.query_driver import IN_A_TASK, QUERIES
from tests.sampling import sampled
from tests.table.transformed_orders import Orders

KILLED, DONE = -signal.SIGKILL, 0
TRIALS = sampled(
    [
        ("worker", "rows", IN_A_TASK, DONE),
        ("worker", "totals", IN_A_TASK, DONE),
        ("driver", "rows", IN_A_TASK, KILLED),
        ("group", "totals", IN_A_TASK, KILLED),
        ("group", "rows", "after stage", KILLED),
        ("driver", "totals", "after stage", KILLED),
        ("driver", "rows", "before publish", KILLED),
        ("group", "totals", "before publish", KILLED),
        ("group", "rows", "after publish", KILLED),
        ("driver", "totals", "after publish", KILLED),
    ],
    keep=lambda trial: trial[:3] in (
        ("group", "totals", IN_A_TASK),
        ("driver", "rows", "before publish"),
        ("worker", "totals", IN_A_TASK),
    ),
)  # fmt: skip
"""Who is killed, in the batch of which table, when, and how the process ends."""


def test_after_each_kill_the_tables_are_the_queries_over_all_rows(tmp_path: Path, own_groups: OwnGroups) -> None:
    lake = tmp_path / "lake"
    orders = Orders(lake)
    for number, (who, whom, moment, end) in enumerate(TRIALS):
        orders.add(*range(10 * number, 10 * number + 10))
        run(own_groups, lake, who, whom, moment, end)
        if moment == IN_A_TASK:
            assert (lake / f"{who} died in {whom}").exists()
    orders.add(1000)
    run(own_groups, lake, "nobody", "rows", "never", DONE)

    for name in QUERIES:
        assert in_order(orders.rows_of(f"lake.{name}")) == in_order(expected(name, orders.rows))
        assert files_on_disk(lake, name) > len(orders.lake.stored_files(orders.view(f"lake.{name}")))


def run(groups: OwnGroups, lake: Path, who: str, whom: str, moment: str, end: int) -> None:
    assert groups.run("tests.faults.query_driver", lake, who, whom, moment) == end, groups.log.read_text()


def expected(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the query means, in Python."""
    if name == "rows":
        return [
            {"id": row["id"], "symbol": row["symbol"] and row["symbol"].upper(), "next": row["n"] + 1}
            for row in rows
            if row["n"] is not None and row["n"] != 3
        ]
    groups = {row["symbol"]: [each for each in rows if each["symbol"] == row["symbol"]] for row in rows}
    return [
        {
            "symbol": symbol,
            "orders": len(group),
            "total": sum(numbers) if (numbers := [row["n"] for row in group if row["n"] is not None]) else None,
            "last": max(row["id"] for row in group),
        }
        for symbol, group in groups.items()
    ]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({name: row[name] for name in sorted(row)} for row in rows), key=repr)


def files_on_disk(lake: Path, name: str) -> int:
    return len([*lake.glob(f"**/{name}/data/**/*.parquet")])
