"""Read the list of prices that comes with Frazil."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from frazil.model.prices import IdlePrice, Prices, UsagePrices, WorkerPrice

FILE = Path(__file__).parent / "prices.yaml"


def read_prices(file: Path = FILE) -> Prices:
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    hours, workers = document["hours_per_month"], document["workers"]
    return Prices(
        on=document["date"],
        source=document["source"],
        currency=document["currency"],
        hours_per_month=hours,
        idle={kind: _idle_price(each, hours) for kind, each in document["idle"].items()},
        billed_elsewhere=document["billed_elsewhere"],
        workers={"x86_64": _worker_price(workers, "x86_64"), "arm64": _worker_price(workers, "arm64")},
        usage=_usage(document["usage"]),
    )


def _idle_price(entry: Mapping[str, Any], hours: int) -> IdlePrice:
    return IdlePrice(entry["name"], entry["price"] * (hours if entry["per"] == "hour" else 1))


def _worker_price(workers: Mapping[str, Any], architecture: str) -> WorkerPrice:
    own = workers[architecture]
    return WorkerPrice(own["cpu_hour"], own["memory_gb_hour"], workers["disk_gb_hour"], workers["disk_gb_included"])


def _usage(entry: Mapping[str, float]) -> UsagePrices:
    return UsagePrices(
        s3_storage_gb=entry["s3_storage_gb_month"],
        s3_write=entry["s3_write_thousand"] / 1_000,
        s3_read=entry["s3_read_thousand"] / 1_000,
        glue_request=entry["glue_request_million"] / 1_000_000,
        secret_call=entry["secret_call_ten_thousand"] / 10_000,
        nat_gateway_gb=entry["nat_gateway_gb"],
        metric=entry["cloudwatch_metric_month"],
        log_gb=entry["cloudwatch_log_gb"],
    )
