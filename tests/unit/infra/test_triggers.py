from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from frazil.model.errors import SettingError
from frazil.model.spec import TableSpec
from frazil.specs.load import load_tables
from infra.settings.file import load_environment
from infra.settings.model import Jobs, Scheduled, Streamed, Worker
from infra.wanted.triggers import Triggers, driver_wait, triggers_of
from tests.routes import group_specs


@pytest.fixture
def tables(tmp_path: Path) -> tuple[TableSpec, ...]:
    for topic in ("clicks", "orders", "trades", "users"):
        (tmp_path / f"{topic}.yaml").write_text(f"topic: {topic}\n")
    return load_tables(tmp_path, {}, database="lake", catalog_type="glue")


def jobs(**tables: Streamed | Scheduled) -> Jobs:
    return replace(load_environment("dev", {}).jobs, tables=tables)


def test_every_table_is_streamed_unless_the_settings_say_otherwise(tables: tuple[TableSpec, ...]) -> None:
    found = triggers_of(jobs(trades=Streamed()), tables, source_file="dev.yaml")

    assert found == Triggers(("clicks", "orders", "trades", "users"), {})


def test_tables_of_one_schedule_have_one_run(tables: tuple[TableSpec, ...]) -> None:
    hourly, daily = Scheduled("rate(1 hour)"), Scheduled("cron(0 6 * * ? *)")
    wanted = replace(
        jobs(users=hourly, clicks=hourly, orders=daily), maximum_capacity=Worker(64, 256, 500), quota_cpu=64
    )

    found = triggers_of(wanted, tables, source_file="dev.yaml")

    assert found == Triggers(("trades",), {"cron(0 6 * * ? *)": ("orders",), "rate(1 hour)": ("clicks", "users")})


def test_a_table_without_a_spec_cannot_be_scheduled(tables: tuple[TableSpec, ...]) -> None:
    with pytest.raises(SettingError) as caught:
        triggers_of(jobs(order=Scheduled("rate(1 hour)")), tables, source_file="dev.yaml")

    assert str(caught.value) == "dev.yaml: jobs.tables: there is no table order\n\nhint: did you mean orders?"


def test_tables_of_one_group_are_in_one_run(tmp_path: Path) -> None:
    group, hourly = group_specs(tmp_path), Scheduled("rate(1 hour)")

    found = triggers_of(jobs(orders=hourly, refunds=hourly), group, source_file="dev.yaml")

    assert found == Triggers((), {"rate(1 hour)": ("orders", "refunds")})
    with pytest.raises(SettingError, match="orders and refunds are read together"):
        triggers_of(jobs(orders=hourly), group, source_file="dev.yaml")


def test_runs_that_meet_must_find_room(tables: tuple[TableSpec, ...]) -> None:
    wanted = replace(jobs(orders=Scheduled("rate(1 hour)"), users=Scheduled("rate(2 hours)")), executors=2)

    with pytest.raises(SettingError, match="3 job runs may meet and need cpu 30 together, found 16\n\nhint: raise it"):
        triggers_of(wanted, tables, source_file="dev.yaml")


def test_a_run_that_verifies_needs_room_for_its_driver(tables: tuple[TableSpec, ...]) -> None:
    full = replace(jobs(), executors=2, maximum_capacity=Worker(10, 40, 100))

    assert triggers_of(full, tables, source_file="dev.yaml").streamed
    with pytest.raises(SettingError, match="2 job runs may meet and need cpu 12 together, found 10"):
        triggers_of(replace(full, verify="rate(1 day)"), tables, source_file="dev.yaml")


def test_a_run_that_maintains_needs_room_for_its_executors(tables: tuple[TableSpec, ...]) -> None:
    full = replace(jobs(), executors=2, maximum_capacity=Worker(12, 48, 200))

    with pytest.raises(SettingError, match="2 job runs may meet and need cpu 20 together, found 12"):
        triggers_of(replace(full, maintain="rate(1 day)"), tables, source_file="dev.yaml")


@pytest.mark.parametrize(("minutes", "waits"), [(1, 15), (20, 40), (600, 60)])
def test_maintenance_waits_for_two_triggers_of_a_streaming_driver_within_bounds(
    tables: tuple[TableSpec, ...], minutes: int, waits: int
) -> None:
    slow = replace(tables[0], trigger=replace(tables[0].trigger, every=timedelta(minutes=minutes)))
    streamed = Triggers(streamed=(slow.table,), scheduled={})

    assert driver_wait(streamed, [slow]) == timedelta(minutes=waits)
    assert driver_wait(Triggers(streamed=(), scheduled={}), [slow]) is None


def test_a_capacity_beyond_the_quota_of_the_account_is_refused_unless_the_settings_name_a_higher_one(
    tables: tuple[TableSpec, ...],
) -> None:
    wanted = replace(jobs(), maximum_capacity=Worker(32, 128, 200))

    with pytest.raises(SettingError, match=r"32 virtual processors are more than the account's quota .* which is 16"):
        triggers_of(wanted, tables, source_file="dev.yaml")

    assert triggers_of(replace(wanted, quota_cpu=32), tables, source_file="dev.yaml").streamed


def test_a_mode_is_the_way_of_all_tables_that_are_not_named(tables: tuple[TableSpec, ...]) -> None:
    hourly = replace(jobs(trades=Streamed()), usual=Scheduled("rate(1 hour)"))

    found = triggers_of(hourly, tables, source_file="dev.yaml")

    assert found == Triggers(("trades",), {"rate(1 hour)": ("clicks", "orders", "users")})
