"""The freshness of an external table over a Delta log, as `frazil status` shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.delta.in_snowflake import Look
from frazil.materialize.readers.delta import announce_delta
from frazil.model.errors import BrokerError, SnowflakeError
from frazil.model.plan import TopicFacts
from frazil.model.snowflake import Served
from frazil.model.spec import TableSpec
from frazil.monitoring.remarks import remarks
from frazil.status import TableStatus, table_statuses
from tests.table.small_lake import Read, SmallLake

SECOND = timedelta(seconds=1)


class NoBroker:
    def describe(self, topic: str) -> TopicFacts | None:
        raise BrokerError("the Kafka cluster does not answer", hint="start it")

    def names(self) -> list[str]:
        return []

    def first_offsets(self, facts: TopicFacts, start: object) -> dict[int, int]:
        raise NotImplementedError


@dataclass
class Account:
    """`answer` may raise."""

    answer: Callable[[], datetime | None]
    asked: int = 0

    def refresh(self, table: str) -> None:
        raise NotImplementedError

    def refreshed_at(self, table: str) -> datetime | None:
        assert table == "ORDERS__DELTA"
        self.asked += 1
        return self.answer()

    def served(self, table: str) -> Served:
        raise NotImplementedError


@pytest.fixture
def both(lake: SmallLake) -> TableSpec:
    announce_delta(lake.lake, lambda: DeltaRsLogs(lake.lake.storage), lake.view)
    return replace(lake.spec, formats=("iceberg", "delta"), readers=("snowflake", "duckdb"))


def statuses(lake: SmallLake, account: Account, *specs: TableSpec, later: timedelta = SECOND) -> list[TableStatus]:
    now = committed(lake) + later
    logs = DeltaRsLogs(lake.lake.storage)
    return list(table_statuses(lake.lake, NoBroker(), specs, delta_logs=lambda: logs, now=now, snowflake=account))


def committed(lake: SmallLake) -> datetime:
    head = lake.view.head_snapshot()
    assert head is not None
    return head.committed_at


def test_who_looked_after_the_publish_has_seen_it(lake: SmallLake, both: TableSpec) -> None:
    at = committed(lake) + SECOND

    (found,) = statuses(lake, Account(lambda: at), both, later=timedelta(days=1))

    assert found.delta_in_snowflake == Look(at)
    told = json.loads(json.dumps(found.to_json()["delta_in_snowflake"]))
    assert told == {"looked_at": at.isoformat().replace("+00:00", "Z"), "behind_seconds": None, "problem": None}


def test_who_looked_before_is_behind_since_the_publish(lake: SmallLake, both: TableSpec) -> None:
    at = committed(lake) - 5 * SECOND

    (found,) = statuses(lake, Account(lambda: at), both, later=90 * SECOND)

    assert found.delta_in_snowflake == Look(at, 90.0)
    assert any("and is 90 s behind: the next run refreshes it" in line for line in remarks([found]))


def test_who_never_looked_is_behind_as_well(lake: SmallLake, both: TableSpec) -> None:
    (found,) = statuses(lake, Account(lambda: None), both)

    assert found.delta_in_snowflake == Look(None, 1.0)
    assert "lake.orders: Snowflake has not read the Delta log yet" in "\n".join(remarks([found]))


def test_a_newer_snapshot_that_the_log_lacks_is_the_logs_delay_and_not_snowflakes(
    lake: SmallLake, both: TableSpec
) -> None:
    at = datetime.now(UTC)
    lake.batch(Read("orders", 0, 100, 110))

    (found,) = statuses(lake, Account(lambda: at), both)

    assert found.delta is not None and found.delta_in_snowflake is not None
    assert (found.delta.state, found.delta_in_snowflake.behind_seconds) == ("behind", None)


def test_an_account_that_does_not_answer_is_asked_once_and_told(lake: SmallLake, both: TableSpec) -> None:
    def down() -> datetime | None:
        raise SnowflakeError("Snowflake refused the login of READER: 250001", hint="wait")

    account = Account(down)

    found = statuses(lake, account, both, both)

    assert account.asked == 1
    assert {each.delta_in_snowflake for each in found} == {
        Look(problem="Snowflake refused the login of READER: 250001")
    }
    assert all(each.rows is not None for each in found)


def test_only_who_reads_a_log_that_is_there_is_asked_for(lake: SmallLake) -> None:
    account = Account(lambda: None)
    without_log = replace(lake.spec, formats=("iceberg", "delta"), readers=("snowflake",))
    others = [lake.spec, replace(lake.spec, formats=("iceberg", "delta"))]

    found = statuses(lake, account, without_log, *others)

    assert [each.delta_in_snowflake for each in found] == [None, None, None]
    assert account.asked == 0
