"""`frazil status --fail-on`: which tables make a scheduler's check fail."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from frazil.fail_on import AgeAbove, InTrouble, LagAbove, Paused, met_by, parse_conditions
from frazil.materialize.pause.pausing import Pause
from frazil.model.errors import Misuse
from frazil.status import PartitionLag, TableStatus

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


def table(*, lag: int | None = 0, age: float | None = 10.0, **more: object) -> TableStatus:
    partitions = (PartitionLag("orders", 0, 100, None if lag is None else 100 + lag),)
    return TableStatus("lake.orders", epoch=1, partitions=partitions, age_seconds=age, **more)  # type: ignore[arg-type]


def test_conditions_are_parsed() -> None:
    assert parse_conditions("paused, problem,lag>10000,age>15m") == (
        Paused(),
        InTrouble(),
        LagAbove(10_000),
        AgeAbove(900.0, "15m"),
    )


@pytest.mark.parametrize("text", ["", "slow", "lag", "lag>many", "age>15", "paused>1", "lag<3", "paused,,lag>1"])
def test_an_unknown_condition_is_misuse(text: str) -> None:
    with pytest.raises(Misuse) as refused:
        parse_conditions(text)

    assert "--fail-on" in refused.value.what


@pytest.mark.parametrize(
    ("status", "condition", "expected"),
    [
        (table(lag=10_000), "lag>10000", []),
        (table(lag=10_001), "lag>10000", ["lake.orders: lag 10,001, more than 10,000"]),
        (table(lag=None), "lag>10000", ["lake.orders: lag unknown"]),
        (TableStatus("lake.orders", problem="not created yet"), "lag>10000", ["lake.orders: lag unknown"]),
        (table(lag=1, age=900.0), "age>15m", []),
        (table(age=901.0), "age>15m", []),
        (table(lag=1, age=901.0), "age>15m", ["lake.orders: age 901 s, more than 15m"]),
        (
            table(lag=None, age=None),
            "age>15m",
            ["lake.orders: age unknown: the table is not complete through any moment yet"],
        ),
        (table(), "paused,problem,lag>0,age>15m", []),
        (table(pause=Pause(by="ann", why="a test", at=AT)), "paused", ["lake.orders: paused"]),
        (table(problem="the topic is gone"), "problem", ["lake.orders: the topic is gone"]),
    ],
)
def test_a_table_meets_what_it_exceeds_and_what_is_unknown(
    status: TableStatus, condition: str, expected: list[str]
) -> None:
    assert list(met_by([status], parse_conditions(condition))) == expected


def test_the_lag_of_a_table_that_does_not_exist_is_not_known() -> None:
    assert TableStatus("lake.orders", problem="not created yet").lag is None
