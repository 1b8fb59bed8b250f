from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from frazil.model.prices import IdlePrice, Prices, UsagePrices, WorkerPrice
from frazil.monitoring.cost.estimate import Deployment
from frazil.specs.prices import read_prices
from infra.reports.costs import JobCost, Line, billed_elsewhere, idle_costs, job_cost, read_stacks, report
from infra.settings.file import load_environment
from infra.settings.model import Worker

PRICES = Prices(
    on=date(2026, 1, 31),
    source="a list",
    currency="USD",
    hours_per_month=730,
    idle={"aws_nat_gateway": IdlePrice("NAT gateway", 32.85), "aws_vpc_endpoint": IdlePrice("interface endpoint", 7.3)},
    billed_elsewhere={"confluent_kafka_cluster": "Confluent bills the cluster"},
    workers={"x86_64": WorkerPrice(0.05, 0.006, 0.0001, 20), "arm64": WorkerPrice(0.04, 0.005, 0.0001, 20)},
    usage=UsagePrices(0.02, 5e-6, 4e-7, 1e-6, 5e-6, 0.05, 0.3, 0.5),
)
JOBS = replace(load_environment("dev", {}).jobs, driver=Worker(2, 8, 20), executor=Worker(4, 16, 120), executors=2)
NETWORK: dict[str, Any] = {
    "resource": {
        "aws_nat_gateway": {"one": {}, "more": {"count": 2}},
        "aws_vpc_endpoint": {
            "s3": {"vpc_endpoint_type": "Gateway", "subnet_ids": []},
            "broker": {"vpc_endpoint_type": "Interface", "subnet_ids": ["a", "b"]},
        },
        "aws_vpc": {"vpc": {}},
    }
}


def test_what_stands_idle_is_counted_in_the_stacks() -> None:
    assert idle_costs({"network": NETWORK, "lake": {}}, PRICES) == (
        Line("network", "NAT gateway", 3, 3 * 32.85),
        Line("network", "interface endpoint", 2, 14.6),
    )


def test_an_endpoint_in_subnets_of_another_stack_counts_once_at_least() -> None:
    body = {"vpc_endpoint_type": "Interface", "subnet_ids": "${data.terraform_remote_state.x.outputs.y}"}

    assert idle_costs({"x": {"resource": {"aws_vpc_endpoint": {"e": body}}}}, PRICES)[0].count == 1


def test_a_worker_costs_its_processors_its_memory_and_the_disk_beyond_what_is_included() -> None:
    driver = 2 * 0.05 + 8 * 0.006
    executor = 4 * 0.05 + 16 * 0.006 + 100 * 0.0001

    assert job_cost(JOBS, PRICES) == JobCost(
        pytest.approx(driver + 2 * executor), pytest.approx(730 * (driver + 2 * executor))
    )


def test_arm64_has_prices_of_its_own() -> None:
    assert job_cost(replace(JOBS, architecture="arm64"), PRICES).hourly < job_cost(JOBS, PRICES).hourly


def test_what_others_bill_is_said_without_a_figure() -> None:
    assert billed_elsewhere([{"resource": {"confluent_kafka_cluster": {}}}], PRICES) == ("Confluent bills the cluster",)
    assert billed_elsewhere([NETWORK], PRICES) == ()


def test_the_report_ends_with_the_day_of_its_prices() -> None:
    lines = list(report({"network": NETWORK}, JOBS, PRICES))

    assert lines == [
        "      98.55  network      3 x NAT gateway",
        "      14.60  network      2 x interface endpoint",
        "     113.15  USD a month while nothing runs",
        "     554.80  USD a month for a job run that never ends (0.760 an hour)",
        "      46.23  USD a month with mode: scheduled, at 5 minutes each hour",
        "  prices of 2026-01-31: a list",
    ]


def test_the_list_of_prices_is_dated_and_whole() -> None:
    prices = read_prices()

    assert prices.on.year >= 2026
    assert "us-east-1" in prices.source
    assert prices.idle["aws_nat_gateway"].monthly == pytest.approx(32.85)
    assert prices.idle["aws_kms_key"].monthly == 1
    assert (prices.usage.s3_write * 1_000, prices.usage.s3_read * 1_000) == pytest.approx((0.005, 0.0004))
    smallest = Worker(1, 4, 20)
    assert prices.workers["x86_64"].of(smallest) == pytest.approx(0.0757, abs=0.0001)
    assert prices.workers["arm64"].of(smallest) == pytest.approx(0.8 * 0.0757, abs=0.0001)


def test_frazil_cost_takes_the_workers_of_an_environment_that_does_not_choose_others() -> None:
    prices = read_prices()

    assert Deployment().hourly(prices) == pytest.approx(job_cost(load_environment("dev", {}).jobs, prices).hourly)


def test_stacks_are_read_in_the_order_in_which_they_are_applied(tmp_path: Path) -> None:
    needs: dict[str, list[str]] = {"jobs": ["lake", "network"], "lake": [], "network": ["lake"]}
    for name in needs:
        (tmp_path / f"{name}.json").write_text("{}")
    stacks = {name: {"synthesizedStackPath": f"{name}.json", "dependencies": each} for name, each in needs.items()}
    (tmp_path / "manifest.json").write_text(json.dumps({"stacks": stacks}))

    assert list(read_stacks(tmp_path)) == ["lake", "network", "jobs"]
