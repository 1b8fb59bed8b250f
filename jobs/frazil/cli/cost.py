"""`frazil cost`: show what tables cost in AWS, and what they would cost with other settings."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar, get_args

import typer

from frazil.cli.options import DEFAULT_CONFIG, Config, Json, Tables, example, settings_from
from frazil.cli.screen import print_lines
from frazil.model.errors import SettingError
from frazil.model.prices import Architecture, Prices, WorkerSize
from frazil.model.spelling import age, plural

if TYPE_CHECKING:
    from frazil.monitoring.cost.estimate import Cost, Deployment, TableCost
    from frazil.monitoring.cost.observed import ObservedTable

Word = TypeVar("Word", bound=str)
WORKER = re.compile(r"(\d+)x(\d+)")
SHORT_SECONDS = 86_400.0
"""An observation that is shorter than a day says little about a month."""

Trigger = Annotated[str | None, typer.Option("--trigger", metavar="TIME", help="A batch per this time, such as 5m.")]
JobMode = Annotated[
    str | None,
    typer.Option(
        "--mode", metavar="MODE", help="streaming, or scheduled: a job run at each trigger, without one hourly."
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers", metavar="SIZES", help="Processors and GB of the driver, then of each executor. Default: 2x8,4x16."
    ),
]
Processor = Annotated[str | None, typer.Option("--architecture", help="x86_64 or arm64. Default: x86_64.")]
NatOption = Annotated[
    str | None, typer.Option("--nat", help="How brokers are reached: gateway (default), instance or none.")
]


def register(app: typer.Typer) -> None:
    examples = example(
        "frazil cost",
        "frazil cost stock_trades --trigger 5m",
        "frazil cost --mode scheduled --trigger 1h --workers 2x8,2x8",
        "frazil cost --json",
    )
    app.command("cost", epilog=examples)(cost)


def cost(
    tables: Tables = None,
    trigger: Trigger = None,
    mode: JobMode = None,
    workers: Workers = None,
    architecture: Processor = None,
    nat: NatOption = None,
    as_json: Json = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Estimate what tables cost in AWS in a month.

    Bytes, files, batches and their times come from the retained snapshots of the tables, and requests from what a batch
    makes; the prices are a list that comes with Frazil, with its date. The tables may be on this machine. The first
    figures are those of a job run that streams, with the default sizes of workers. With options, the figures with them
    follow. After the tables come those of the transformations that follow them. What reads the tables is not included.
    """
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.model.transform_order import following  # noqa: PLC0415
    from frazil.monitoring.cost.estimate import Deployment, cost_of  # noqa: PLC0415
    from frazil.monitoring.cost.observed import observe_tables, observe_transforms  # noqa: PLC0415
    from frazil.specs.prices import read_prices  # noqa: PLC0415
    from frazil.specs.select import select_tables  # noqa: PLC0415

    other = _deployment(trigger, mode, workers, architecture, nat)
    settings = settings_from(config)
    specs = select_tables(settings, tables or ())
    lake, now = IcebergLake(settings.catalog), datetime.now(UTC)
    transforms = following(settings.transforms, [spec.identifier for spec in specs])
    observed = (*observe_tables(lake, specs, now=now).values(), *observe_transforms(lake, transforms, now=now))
    prices, secrets = read_prices(), len(settings.secrets)
    costs = [
        (each, cost_of(observed, each, prices, secrets=secrets))
        for each in (Deployment(), *(() if other == Deployment() else (other,)))
        if observed
    ]
    if as_json:
        print(json.dumps(_as_json(costs, observed, prices), indent=2))
        return
    if not costs:
        print_lines(["no table has a batch yet: run `frazil materialize`"], sys.stderr)
        return
    print_lines(_head(observed, prices), sys.stdout)
    for deployment, found in costs:
        print()
        _show(deployment, found, prices)
    if len(costs) > 1:
        difference = costs[1][1].total - costs[0][1].total
        print(f"\n{difference:+,.2f} {prices.currency} a month")


def _deployment(
    trigger: str | None, mode: str | None, workers: str | None, architecture: str | None, nat: str | None
) -> Deployment:
    """Return the deployment that the options describe. Raises SettingError."""
    from frazil.monitoring.cost.estimate import Deployment, Mode, Nat  # noqa: PLC0415

    usual = Deployment()
    processors = get_args(Architecture)
    return Deployment(
        mode=usual.mode if mode is None else _one_of("--mode", mode, get_args(Mode)),
        trigger=None if trigger is None else _duration(trigger),
        workers=usual.workers if workers is None else _workers(workers),
        architecture=usual.architecture
        if architecture is None
        else _one_of("--architecture", architecture, processors),
        nat=usual.nat if nat is None else _one_of("--nat", nat, get_args(Nat)),
    )


def _one_of(option: str, text: str, words: Sequence[Word]) -> Word:
    for word in words:
        if word == text:
            return word
    raise SettingError(f'{option}: expected one of {", ".join(words)}, found "{text}"', hint=f"write {words[0]}")


def _duration(text: str) -> timedelta:
    from frazil.specs.scalars import parse_duration  # noqa: PLC0415
    from frazil.specs.shapes import Unfit  # noqa: PLC0415

    try:
        return parse_duration(text)
    except Unfit as unfit:
        raise SettingError(f'--trigger: expected a time, found "{text}"', hint=str(unfit)) from unfit


def _workers(text: str) -> tuple[WorkerSize, ...]:
    found = [WORKER.fullmatch(each) for each in text.split(",")]
    sizes = tuple(WorkerSize(int(each[1]), int(each[2])) for each in found if each is not None)
    if len(sizes) < max(len(found), 2):
        raise SettingError(
            f'--workers: expected the sizes of a driver and of executors, found "{text}"',
            hint="write processors and GB of each worker: 2x8,4x16 is a driver and one executor",
        )
    return sizes


def _head(observed: Sequence[ObservedTable], prices: Prices) -> Iterator[str]:
    shortest, longest = (function(each.seconds for each in observed) for function in (min, max))
    over = age(shortest) if age(shortest) == age(longest) else f"{age(shortest)} to {age(longest)}"
    tables = plural(len(observed), "table")
    yield f"{tables}, observed for {over}; {prices.currency} for a month of {prices.hours_per_month} hours"
    yield f"prices of {prices.on}: {prices.source}"
    if shortest < SHORT_SECONDS:
        yield "a month is taken to go on like this: observe a day or more for figures that last"


def _show(deployment: Deployment, found: Cost, prices: Prices) -> None:
    from frazil.cli.columns import Column, show  # noqa: PLC0415

    print_lines([f"{_described(deployment)}, {deployment.hourly(prices):.3f} an hour while it runs:"], sys.stdout)
    show(
        [
            Column("table", tuple(each.table for each in found.tables), is_number=False),
            *(Column(name, tuple(cell(each) for each in found.tables), rank=rank) for name, rank, cell in _COLUMNS),
        ]
    )
    for name, monthly in found.shared.items():
        print(f"  {monthly:9,.2f}  {name}, of all tables")
    print(f"  {found.total:9,.2f}  in all")


def _per_gb(each: TableCost) -> str:
    return "" if each.per_gb is None else f"{each.per_gb:,.3g}"


_COLUMNS = (
    ("read GB", 3, lambda each: f"{each.usage.read_gb:,.1f}"),
    ("batches", 4, lambda each: f"{each.usage.batches:,.0f}"),
    ("files", 5, lambda each: f"{each.usage.files:,.0f}"),
    ("job", 2, lambda each: f"{each.job:,.2f}"),
    ("S3 requests", 2, lambda each: f"{each.s3_requests:,.2f}"),
    ("storage", 2, lambda each: f"{each.s3_storage:,.2f}"),
    ("Glue", 2, lambda each: f"{each.glue:,.2f}"),
    ("NAT", 2, lambda each: f"{each.nat_data:,.2f}"),
    ("CloudWatch", 2, lambda each: f"{each.cloudwatch:,.2f}"),
    ("total", 0, lambda each: f"{each.total:,.2f}"),
    ("per GB", 1, _per_gb),
)
"""Name, rank and cell of each column."""


def _described(deployment: Deployment) -> str:
    trigger = "as often as observed" if deployment.trigger is None else f"every {_text_of(deployment.trigger)}"
    sizes = ", ".join(f"{each.cpu}x{each.memory_gb}" for each in deployment.workers)
    return f"{deployment.mode}, {trigger}, workers {sizes}, {deployment.architecture}"


def _text_of(interval: timedelta) -> str:
    from frazil.cli.backlog import duration  # noqa: PLC0415

    return duration(interval.total_seconds())


def _as_json(
    costs: Sequence[tuple[Deployment, Cost]], observed: Sequence[ObservedTable], prices: Prices
) -> Mapping[str, object]:
    return {
        "prices": {"on": prices.on.isoformat(), "source": prices.source, "currency": prices.currency},
        "observed_seconds": {each.table: round(each.seconds, 3) for each in observed},
        "costs": [
            {"deployment": _described(each), "hourly": each.hourly(prices), **found.to_json()} for each, found in costs
        ],
    }
