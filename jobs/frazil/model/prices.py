"""Prices of AWS, and the sizes of workers that are paid for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

Architecture = Literal["x86_64", "arm64"]


@dataclass(frozen=True, slots=True)
class WorkerSize:
    """The size of a worker of EMR Serverless."""

    cpu: int
    memory_gb: int
    disk_gb: int = 20


@dataclass(frozen=True, slots=True)
class IdlePrice:
    """The price of an idle resource for a month."""

    name: str
    monthly: float


@dataclass(frozen=True, slots=True)
class WorkerPrice:
    """The hourly prices of a worker's processors, memory and disk."""

    cpu: float
    memory_gb: float
    disk_gb: float
    disk_gb_included: int

    def of(self, worker: WorkerSize) -> float:
        """Return the price of a worker for an hour."""
        disk = max(0, worker.disk_gb - self.disk_gb_included)
        return worker.cpu * self.cpu + worker.memory_gb * self.memory_gb + disk * self.disk_gb


@dataclass(frozen=True, slots=True)
class UsagePrices:
    """What is billed by use: for a GB of 10^9 bytes and a month, a request, or a metric and a month."""

    s3_storage_gb: float
    s3_write: float
    s3_read: float
    glue_request: float
    secret_call: float
    nat_gateway_gb: float
    metric: float
    log_gb: float


@dataclass(frozen=True, slots=True)
class Prices:
    """`idle` and `billed_elsewhere` are keyed by Terraform's type."""

    on: date
    source: str
    currency: str
    hours_per_month: int
    idle: Mapping[str, IdlePrice]
    billed_elsewhere: Mapping[str, str]
    workers: Mapping[Architecture, WorkerPrice]
    usage: UsagePrices
