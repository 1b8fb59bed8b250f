"""What the doctor says of what Snowflake shows, against a real table: equal, behind, or somewhere else."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from frazil.adapters.iceberg.scan import metadata_location
from frazil.doctor import snowflake
from frazil.doctor.asking import Asking
from frazil.doctor.examine import ProcessEnvironment, examine
from frazil.doctor.finding import Finding
from frazil.doctor.snowflake import FRESH, ask_snowflake
from frazil.model.errors import ServiceError, SnowflakeError
from frazil.model.snapshot import TableView
from frazil.model.snowflake import Served
from tests.table.small_lake import Read, SmallLake, spec_of


@dataclass
class Account:
    """Returns the rows that a test gives it."""

    answer: Callable[[], Served]
    asked: list[str] = field(default_factory=list)

    def refresh(self, table: str) -> None:
        raise NotImplementedError

    def refreshed_at(self, table: str) -> datetime | None:
        raise NotImplementedError

    def served(self, table: str) -> Served:
        self.asked.append(table)
        return self.answer()


def shows(view: TableView, refreshing: str | None = "RUNNING") -> Account:
    return Account(lambda: Served(metadata_location(view), "success", refreshing))


def ask(lake: SmallLake, account: Account, *, later: timedelta = timedelta()) -> Finding:
    now = datetime.now(UTC) + later
    (found,) = ask_snowflake(account, [lake.spec], {lake.view.identifier: lake.view}, Asking("snowflake"), now=now)
    return found


def test_the_same_snapshot_is_well(lake: SmallLake) -> None:
    account = shows(lake.view)

    found = ask(lake, account, later=timedelta(days=9))

    assert (found.verdict, found.found, found.hint) == ("ok", f"{lake.view.head}, as in the catalog", "")
    assert account.asked == ["ORDERS"]


def test_older_metadata_of_the_same_snapshot_is_well(lake: SmallLake) -> None:
    before = lake.view
    lake.lake.set_properties(lake.spec.identifier, put={"a": "b"})

    assert ask(lake, shows(before)).verdict == "ok"


def test_a_moment_behind_is_told_and_is_no_failure(lake: SmallLake) -> None:
    before = lake.view
    lake.batch(Read("orders", 0, 100, 110))

    found = ask(lake, shows(before))

    assert found.verdict == "ok"
    assert found.found.startswith(f"it shows {before.head}, 1 snapshot and ")
    assert found.found.endswith(f" s behind the catalog's {lake.view.head}")


def test_behind_for_long_is_a_failure_with_the_age_of_the_oldest_that_is_missing(lake: SmallLake) -> None:
    before = lake.view
    for start in (100, 110, 120):
        lake.batch(Read("orders", 0, start, start + 10))

    found = ask(lake, shows(before), later=FRESH + timedelta(seconds=60))

    assert found.verdict == "failed"
    assert re.search(r"3 snapshots and (3[6-9]|4\d)\d s behind", found.found)
    assert "SET AUTO_REFRESH = TRUE" in found.hint


def test_a_refresh_that_has_stopped_is_a_failure_at_once(lake: SmallLake) -> None:
    before = lake.view
    lake.batch(Read("orders", 0, 100, 110))

    found = ask(lake, shows(before, "STALLED: access denied"))

    assert found.verdict == "failed"
    assert found.hint.startswith("its own refresh is STALLED: access denied: fix that error")


def test_what_was_rolled_back_in_the_catalog_is_no_ancestor(lake: SmallLake) -> None:
    shown, head = lake.view, lake.view.head_snapshot()
    assert head is not None and head.parent_id is not None
    lake.table.manage_snapshots().rollback_to_snapshot(head.parent_id).commit()

    found = ask(lake, shows(shown))

    assert found.verdict == "failed"
    assert found.found.startswith(
        f"it shows {shown.head}, which has expired or is not an ancestor of the catalog's {head.parent_id}"
    )


def test_a_table_that_shows_nothing_yet_says_what_snowflake_says(lake: SmallLake) -> None:
    found = ask(lake, Account(lambda: Served(None, "failure: access denied")))

    assert (found.verdict, found.found) == ("failed", "it shows none: failure: access denied")


def test_a_refusal_is_told_with_its_hint(lake: SmallLake) -> None:
    def refuse() -> Served:
        raise SnowflakeError("Snowflake did not let READER look at ORDERS: 2003", hint="run create")

    found = ask(lake, Account(refuse))

    assert (found.verdict, found.hint) == ("failed", "run create")


def test_who_does_not_answer_is_waited_for_once(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep() -> Served:
        time.sleep(0.5)
        raise AssertionError

    monkeypatch.setattr(snowflake, "LOGIN_SECONDS", 0.05)
    specs = [lake.spec, spec_of("orders", table="others")]
    views = {spec.identifier: lake.view for spec in specs}

    found = list(ask_snowflake(Account(sleep), specs, views, Asking("snowflake", 0.05), now=datetime.now(UTC)))

    assert [each.verdict for each in found] == ["failed", "not asked"]
    time.sleep(0.6)


class NobodyMayRead:
    def read(self, name: str) -> str | None:
        raise ServiceError(f"The secret {name} cannot be read: AccessDeniedException", hint="ask for it")


SECTION = "snowflake: {account: ACME-LAKE, database: D, schema: S%s}\n"
READER = ", reader: {user: R, private_key: '${secret:reader#private_key}'}"


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("", []),
        (SECTION % "", [("not asked", "frazil.yaml has no snowflake.reader")]),
        (SECTION % READER, [("not asked", "The secret reader cannot be read: AccessDeniedException")]),
    ],
)
def test_who_has_no_key_does_not_ask_and_that_is_no_failure(
    config: str, section: str, expected: list[tuple[str, str]]
) -> None:
    with Path(config).open("a") as file:
        file.write(section)
    given = ProcessEnvironment({}, NobodyMayRead(), now=lambda: datetime.now(UTC), new_id=lambda: "id", seconds=0.2)

    found = [each for each in examine(Path(config), given) if each.part == "snowflake"]

    assert [(each.verdict, each.found) for each in found] == expected
