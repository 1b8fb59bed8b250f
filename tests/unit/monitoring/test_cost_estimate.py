from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from frazil.model.prices import Prices, WorkerSize
from frazil.monitoring.cost.estimate import Cost, Deployment, cost_of, usage_of
from frazil.monitoring.cost.observed import ObservedBatch, ObservedTable
from frazil.monitoring.cost.requests import Requests, requests_of
from frazil.specs.prices import read_prices

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOURS = 24
MONTH = 730 * 3_600
PRICES = read_prices()


def observed(*, every: int = 60, hours: float = HOURS, table: str = "lake.trades", letters: int = 0) -> ObservedTable:
    """A table with a batch of 1 MB, 1 s and two files at each interval, over so many hours."""
    count = int(hours * 3_600 / every)
    batches = tuple(
        ObservedBatch(NOON + timedelta(seconds=every * n), 10**6, 250_000, 2, 1.0 if n else 0.5) for n in range(count)
    )
    return ObservedTable(
        table=table,
        begin=NOON,
        end=NOON + timedelta(hours=hours),
        batches=batches,
        letter_batches=letters,
        letter_files=letters,
        letter_bytes=0,
        stored_bytes=10**9,
        target_bytes=512 << 20,
    )


def cost(deployment: Deployment, *tables: ObservedTable, prices: Prices = PRICES, secrets: int = 0) -> Cost:
    return cost_of(tables or (observed(),), deployment, prices, secrets=secrets)


def test_month_goes_on_as_it_was_observed() -> None:
    usage = usage_of(observed(), Deployment(), month_seconds=MONTH)

    assert usage.batches == pytest.approx(730 * 60)
    assert usage.files == pytest.approx(730 * 60 * 2)
    assert usage.read_gb == pytest.approx(730 * 60 * 1e6 / 1e9)
    assert usage.stored_gb == 1.0
    assert usage.work_seconds == pytest.approx(730 * 60, rel=0.01)


def test_job_that_streams_is_paid_for_all_the_time_and_shared_by_the_time_of_batches() -> None:
    busy, quiet = observed(table="lake.busy"), observed(every=180, table="lake.quiet")

    found = cost(Deployment(), busy, quiet)

    hourly = 6 * 0.052624 + 24 * 0.0057785
    assert Deployment().hourly(PRICES) == pytest.approx(hourly)
    assert sum(each.job for each in found.tables) == pytest.approx(hourly * 730)
    assert found.tables[0].job == pytest.approx(3 * found.tables[1].job, rel=0.01)


def test_each_service_has_the_price_of_the_list() -> None:
    (found,) = cost(Deployment()).tables

    requests = found.usage.requests
    assert found.s3_requests == pytest.approx(requests.writes * 0.005 / 1_000 + requests.reads * 0.0004 / 1_000)
    assert found.s3_storage == pytest.approx(0.023)
    assert found.glue == pytest.approx(requests.glue / 1e6)
    assert found.nat_data == pytest.approx(43.8 * 0.045)
    assert found.cloudwatch == pytest.approx(7 * 0.3, abs=0.2)
    parts = (found.job, found.s3_requests, found.s3_storage, found.glue, found.nat_data, found.cloudwatch)
    assert found.total == pytest.approx(sum(parts))
    assert found.per_gb == pytest.approx(found.total / 43.8)


def test_what_tables_share_is_listed_once() -> None:
    found = cost(Deployment(), secrets=2)

    assert found.shared["NAT gateway"] == pytest.approx(32.85)
    assert found.shared["secrets"] == pytest.approx(0.8, abs=0.1)
    assert found.total == pytest.approx(found.tables[0].total + sum(found.shared.values()))
    assert "NAT gateway" not in cost(Deployment(nat="none")).shared
    assert cost(Deployment(nat="none")).tables[0].nat_data == 0


def test_longer_trigger_joins_batches_and_makes_fewer_requests() -> None:
    minute, hour = (cost(Deployment(trigger=timedelta(seconds=each))).tables[0] for each in (60, 3_600))

    assert minute.usage.batches == pytest.approx(cost(Deployment()).tables[0].usage.batches)
    assert hour.usage.batches == pytest.approx(730)
    assert hour.usage.files == pytest.approx(1_460)
    assert hour.s3_requests == pytest.approx(minute.s3_requests / 60, rel=0.01)
    assert (hour.usage.read_gb, hour.s3_storage) == pytest.approx((minute.usage.read_gb, minute.s3_storage))


def test_shorter_trigger_divides_batches_at_most_one_for_each() -> None:
    usage = usage_of(observed(), Deployment(trigger=timedelta(seconds=10)), month_seconds=MONTH)

    assert usage.batches == pytest.approx(730 * 360)
    assert usage.read_gb == pytest.approx(43.8)


def test_there_are_never_more_batches_than_triggers() -> None:
    minute_of_batches = observed(every=1, hours=1 / 60)

    usage = usage_of(minute_of_batches, Deployment(trigger=timedelta(hours=1)), month_seconds=MONTH)

    assert usage.batches == pytest.approx(730)
    assert usage.read_gb == pytest.approx(MONTH * 1e6 / 1e9)


def test_trigger_of_a_table_whose_batches_are_rare_finds_nothing_most_times() -> None:
    rare = observed(every=3_600)

    usage = usage_of(rare, Deployment(trigger=timedelta(hours=1)), month_seconds=MONTH)
    often = usage_of(rare, Deployment(), month_seconds=MONTH)

    assert usage.batches == often.batches == pytest.approx(730)
    assert usage.requests.glue == pytest.approx(730 * 15)


def test_scheduled_job_is_paid_for_its_runs_only() -> None:
    scheduled = Deployment(mode="scheduled", trigger=timedelta(hours=1))

    found = cost(scheduled)

    work = found.tables[0].usage.work_seconds
    assert sum(each.job for each in found.tables) == pytest.approx(scheduled.hourly(PRICES) * (730 * 60 + work) / 3_600)
    assert found.tables[0].job < cost(Deployment()).tables[0].job / 20
    assert cost(replace(scheduled, trigger=timedelta(seconds=1))).tables[0].job == pytest.approx(
        cost(Deployment()).tables[0].job
    ), "a month has no more than its hours"


def test_other_workers_have_another_price() -> None:
    small = Deployment(workers=(WorkerSize(2, 8), WorkerSize(2, 8)), architecture="arm64")

    assert small.hourly(PRICES) == pytest.approx(4 * 0.042099 + 16 * 0.0046228)
    assert Deployment(workers=(*Deployment().workers, WorkerSize(4, 16))).hourly(PRICES) == pytest.approx(
        Deployment().hourly(PRICES) + 4 * 0.052624 + 16 * 0.0057785
    )


def test_requests_grow_with_files_parts_and_dead_letters() -> None:
    def of(*, files: float = 1, letters: float = 0, size: float = 1_000, empty: float = 0) -> Requests:
        return requests_of(batches=1, with_dead_letters=letters, files=files, written_bytes=size, empty_triggers=empty)

    assert of() == Requests(writes=3 * 5 + 2, reads=7, glue=15)
    assert of(files=2, letters=1) == Requests(writes=3 * 10 + 4, reads=12, glue=23)
    assert of(size=100 << 20).writes == 2 * 5 + 4 + 10 + 2
    assert of(empty=5).glue == 15 + 20


def test_table_with_one_batch_has_a_cost() -> None:
    one = replace(observed(), batches=observed().batches[:1])

    assert usage_of(one, Deployment(), month_seconds=MONTH).batches == pytest.approx(730 / HOURS)
    assert usage_of(one, Deployment(trigger=timedelta(seconds=1)), month_seconds=MONTH).batches == pytest.approx(
        730 / HOURS
    )
