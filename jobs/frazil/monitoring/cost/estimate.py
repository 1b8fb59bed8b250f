"""What observed tables cost in a month: as they are filled now, or with another trigger, mode or size of workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import Literal

from frazil.model.prices import Architecture, Prices, WorkerSize
from frazil.monitoring.cost.observed import ObservedTable
from frazil.monitoring.cost.requests import Requests, requests_of

GB = 10**9

Mode = Literal["streaming", "scheduled"]
Nat = Literal["gateway", "instance", "none"]

WORKERS = (WorkerSize(2, 8), WorkerSize(4, 16))
"""The driver and the executor of an environment that does not choose others."""

START_SECONDS = 60.0
"""How long a scheduled run is taken to work before its first batch. A worker is billed for a minute at least."""

METRICS_PER_TABLE = 7
LOG_BYTES_PER_BATCH, LOG_BYTES_PER_LOOK = 3_000, 900
"""A batch logs its receipt and its metrics; each look at the tables, once a minute, the metrics of each table."""

SECRET_READS_PER_HOUR = 4
"""A process that streams reads its secrets again every 15 minutes."""

PAGE_WRITES_PER_HOUR = 60
"""The status page is written after batches, once a minute at most. It is an upload of one part."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """How the tables are filled. `trigger` None: as often as they were. `workers` are the driver and its executors."""

    mode: Mode = "streaming"
    trigger: timedelta | None = None
    workers: tuple[WorkerSize, ...] = WORKERS
    architecture: Architecture = "x86_64"
    nat: Nat = "gateway"

    def hourly(self, prices: Prices) -> float:
        """Return the price of a job run for an hour."""
        return sum(prices.workers[self.architecture].of(each) for each in self.workers)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a table uses in a month, at the observed rate."""

    read_gb: float
    written_gb: float
    stored_gb: float
    batches: float
    files: float
    work_seconds: float
    requests: Requests


@dataclass(frozen=True, slots=True)
class TableCost:
    """The cost of a table for a month, by what is billed. `job` is its share of the job, by the time of its batches."""

    table: str
    usage: Usage
    job: float
    s3_requests: float
    s3_storage: float
    glue: float
    nat_data: float
    cloudwatch: float

    @property
    def total(self) -> float:
        return self.job + self.s3_requests + self.s3_storage + self.glue + self.nat_data + self.cloudwatch

    @property
    def per_gb(self) -> float | None:
        """The cost for each GB read from Kafka; None if the table has read nothing."""
        return self.total / self.usage.read_gb if self.usage.read_gb else None

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "total": self.total, "per_gb": self.per_gb}


@dataclass(frozen=True, slots=True)
class Cost:
    """The monthly cost of all tables, and `shared`, by name: what no table has alone."""

    tables: tuple[TableCost, ...]
    shared: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(each.total for each in self.tables) + sum(self.shared.values())

    def to_json(self) -> dict[str, object]:
        return {"tables": [each.to_json() for each in self.tables], "shared": dict(self.shared), "total": self.total}


def cost_of(observed: Sequence[ObservedTable], deployment: Deployment, prices: Prices, *, secrets: int) -> Cost:
    """Return the cost of a month at the observed rate. `secrets` is the number of secrets that the job reads."""
    usages = [usage_of(each, deployment, month_seconds=prices.hours_per_month * 3_600) for each in observed]
    worked = sum(each.work_seconds for each in usages)
    job = _job(worked, deployment, prices)
    tables = tuple(
        _table(each, usage, job * (usage.work_seconds / worked if worked else 1 / len(usages)), deployment, prices)
        for each, usage in zip(observed, usages, strict=True)
    )
    return Cost(tables, _shared(deployment, prices, secrets=secrets))


def usage_of(observed: ObservedTable, deployment: Deployment, *, month_seconds: float) -> Usage:
    """Return what a table uses in a month."""
    month = month_seconds / observed.seconds
    known = len(observed.batches)
    batches = _batches(observed, deployment.trigger)
    written = sum(each.written_bytes for each in observed.batches)
    files = _files(observed, batches, written)
    letters = observed.letter_batches * batches / known
    triggers = observed.seconds / (deployment.trigger or _interval(observed)).total_seconds()
    requests = requests_of(
        batches=batches * month,
        with_dead_letters=letters * month,
        files=(files + observed.letter_files * batches / known) * month,
        written_bytes=(written + observed.letter_bytes) * month,
        empty_triggers=max(triggers - batches, 0.0) * month,
    )
    return Usage(
        read_gb=sum(each.read_bytes for each in observed.batches) * month / GB,
        written_gb=(written + observed.letter_bytes) * month / GB,
        stored_gb=observed.stored_bytes / GB,
        batches=batches * month,
        files=files * month,
        work_seconds=_work(observed, batches) * month,
        requests=requests,
    )


def _interval(observed: ObservedTable) -> timedelta:
    """Return the usual time between two batches; with one batch, the time that was observed."""
    waits = [(later.at - earlier.at).total_seconds() for earlier, later in pairwise(observed.batches)]
    return timedelta(seconds=max(median(waits), 0.1) if waits else observed.seconds)


def _batches(observed: ObservedTable, trigger: timedelta | None) -> float:
    """Return how many batches there would have been with a trigger.

    A longer trigger joins the batches of its interval. With a shorter one, records are taken to come as evenly as they
    did: each batch becomes several, at most one for each trigger.
    """
    known, usual = len(observed.batches), _interval(observed)
    if trigger is None:
        return known
    most = observed.seconds / trigger.total_seconds()
    if known == 1 or trigger < usual:
        return min(known * max(usual / trigger, 1.0) if known > 1 else 1, most)
    begin = observed.batches[0].at
    return min(len({(each.at - begin) // trigger for each in observed.batches}), most)


def _files(observed: ObservedTable, batches: float, written: int) -> float:
    """Return the data files of so many batches: for each as many as observed, unless these would be too large."""
    known = sum(each.files for each in observed.batches)
    per_batch = known / len(observed.batches)
    return max(per_batch * batches, min(written / max(observed.target_bytes, 1), known))


def _work(observed: ObservedTable, batches: float) -> float:
    """Return the seconds of so many batches. The shortest batch shows what each takes, whatever it reads."""
    seconds = [each.seconds for each in observed.batches]
    fixed = min(seconds)
    return sum(seconds) + fixed * (batches - len(seconds))


def _job(worked: float, deployment: Deployment, prices: Prices) -> float:
    hourly, month_seconds = deployment.hourly(prices), prices.hours_per_month * 3_600
    if deployment.mode == "streaming":
        return hourly * prices.hours_per_month
    every = deployment.trigger or timedelta(hours=1)
    runs = month_seconds / every.total_seconds()
    return hourly * min(runs * START_SECONDS + worked, month_seconds) / 3_600


def _table(observed: ObservedTable, usage: Usage, job: float, deployment: Deployment, prices: Prices) -> TableCost:
    price = prices.usage
    return TableCost(
        table=observed.table,
        usage=usage,
        job=job,
        s3_requests=usage.requests.writes * price.s3_write + usage.requests.reads * price.s3_read,
        s3_storage=usage.stored_gb * price.s3_storage_gb,
        glue=usage.requests.glue * price.glue_request,
        nat_data=usage.read_gb * price.nat_gateway_gb if deployment.nat == "gateway" else 0.0,
        cloudwatch=_cloudwatch(usage, deployment, prices),
    )


def _cloudwatch(usage: Usage, deployment: Deployment, prices: Prices) -> float:
    """Return the price of a table's log and metrics, which are billed for the hours in which they are written."""
    hours = prices.hours_per_month
    if deployment.mode == "streaming":
        written, looks = 1.0, hours * 60.0
    else:
        runs = hours / ((deployment.trigger or timedelta(hours=1)).total_seconds() / 3_600)
        written, looks = min(runs / hours, 1.0), runs
    log = usage.batches * LOG_BYTES_PER_BATCH + looks * LOG_BYTES_PER_LOOK
    return METRICS_PER_TABLE * prices.usage.metric * written + log / GB * prices.usage.log_gb


def _shared(deployment: Deployment, prices: Prices, *, secrets: int) -> dict[str, float]:
    hours, price = prices.hours_per_month, prices.usage
    each_hour = SECRET_READS_PER_HOUR if deployment.mode == "streaming" else 1
    found = {
        "secrets": secrets * (prices.idle["aws_secretsmanager_secret"].monthly + each_hour * hours * price.secret_call)
    }
    if deployment.nat != "none":
        kind = "aws_nat_gateway" if deployment.nat == "gateway" else "aws_instance"
        found[prices.idle[kind].name] = prices.idle[kind].monthly
        found[prices.idle["aws_eip"].name] = prices.idle["aws_eip"].monthly
    if deployment.mode == "streaming":
        found["status page"] = hours * PAGE_WRITES_PER_HOUR * 3 * price.s3_write
    return {name: monthly for name, monthly in found.items() if monthly}
