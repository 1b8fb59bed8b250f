"""`frazil status`: show the state of each table."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.config_name import with_config_name
from frazil.cli.keys import look_at_keys, print_keys_as_json, show_keys
from frazil.cli.options import DEFAULT_CONFIG, Config, Json, Tables, example, settings_from
from frazil.cli.screen import print_lines
from frazil.cli.status_page import write_page
from frazil.model.errors import SettingError
from frazil.model.spelling import age, plural, rate

if TYPE_CHECKING:
    from frazil.cli.columns import Column
    from frazil.key_status import KeyStatus
    from frazil.model.settings import Settings
    from frazil.status import TableStatus
    from frazil.transforms.standing import TransformStanding


FailOn = Annotated[
    str | None,
    typer.Option(
        "--fail-on",
        metavar="CONDITIONS",
        help="Exit with 1 if a table meets one of these: paused, problem, lag>RECORDS, age>TIME (while records are left"
        " to read). An unknown lag or age counts as too high.",
    ),
]
Prometheus = Annotated[bool, typer.Option("--prometheus", help="Print metrics in Prometheus's text format.")]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write one HTML page with plots instead.", dir_okay=False)
]
OnlyKeys = Annotated[bool, typer.Option("--keys", help="Show only the keys.")]


def register(app: typer.Typer) -> None:
    examples = example(
        "frazil status",
        "frazil status stock_trades --json",
        "frazil status --fail-on 'paused,lag>10000,age>15m'",
        "frazil status --keys",
        "frazil status --prometheus > frazil.prom",
        "frazil status --html status.html",
    )
    app.command("status", epilog=examples)(status)


def status(
    tables: Tables = None,
    as_json: Json = False,
    prometheus: Prometheus = False,
    html: Html = None,
    only_keys: OnlyKeys = False,
    fail_on: FailOn = None,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Show each table's lag, age, rows, files and state.

    After the tables come the transformations that follow them; in --json they have the key `transform`. A paused table
    is shown with the reason. Columns that do not fit the terminal are left out (without a terminal: 80 columns, or
    COLUMNS); --json shows all. Partitions are shown only for tables that are named. If Kafka does not answer, only the
    lag is unknown. If no table is named, the age and rotation of the configuration's keys in AWS Secrets Manager are
    shown too.
    """
    from frazil.fail_on import met_by, met_by_transforms, parse_conditions  # noqa: PLC0415

    conditions = () if fail_on is None else parse_conditions(fail_on)
    if sum((as_json, prometheus, html is not None)) > 1:
        raise SettingError("--json, --prometheus and --html are mutually exclusive", hint="choose one")
    settings = settings_from(config)
    if only_keys:
        _print_keys(settings, as_json=as_json, prometheus=prometheus)
        return
    found = _look(settings, tables or ())
    transforms = _look_at_transforms(settings, [each.table for each in found])
    if as_json:
        now = datetime.now(UTC)
        print(json.dumps([*(each.to_json() for each in found), *(each.to_json(now) for each in transforms)], indent=2))
    elif prometheus:
        _print_metrics(found, () if tables else look_at_keys(settings), transforms)
    elif html is not None:
        write_page(html, settings, found, () if tables else look_at_keys(settings), transforms)
    else:
        _show(found, partitions_of_each=bool(tables))
        if not tables:
            show_keys(settings)
        print_lines((line for each in transforms for line in each.lines()), sys.stdout)
    met = [*met_by(found, conditions), *met_by_transforms(transforms, conditions)]
    for line in met:
        print(f"--fail-on: {line}", file=sys.stderr)
    if met:
        raise typer.Exit(1)


def _print_keys(settings: Settings, *, as_json: bool, prometheus: bool) -> None:
    if prometheus:
        _print_metrics((), look_at_keys(settings))
    elif as_json:
        print_keys_as_json(settings)
    else:
        show_keys(settings)


def _print_metrics(
    found: Sequence[TableStatus], keys: Sequence[KeyStatus], transforms: Sequence[TransformStanding] = ()
) -> None:
    from frazil.monitoring.prometheus import exposition  # noqa: PLC0415
    from frazil.monitoring.table_metrics import key_metrics, table_metrics  # noqa: PLC0415
    from frazil.monitoring.transform_metrics import transform_metrics  # noqa: PLC0415

    of_transforms = transform_metrics(transforms, now=datetime.now(UTC))
    print(exposition([*table_metrics(found), *of_transforms, *key_metrics(keys)]), end="")


def _look(settings: Settings, tables: Sequence[str]) -> list[TableStatus]:
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.adapters.kafka.topics import KafkaTopics  # noqa: PLC0415
    from frazil.cli.clients import delta_logs_of, open_onlooker  # noqa: PLC0415
    from frazil.specs.select import select_tables  # noqa: PLC0415
    from frazil.status import table_statuses  # noqa: PLC0415

    specs = select_tables(settings, tables)
    now = datetime.now(UTC)
    lake, topics = IcebergLake(settings.catalog), KafkaTopics(settings.kafka)
    logs, snowflake = delta_logs_of(lake), open_onlooker(settings.snowflake)
    return list(table_statuses(lake, topics, specs, delta_logs=logs, now=now, snowflake=snowflake))


def _look_at_transforms(settings: Settings, tables: Sequence[str]) -> list[TransformStanding]:
    """Return how far those are that follow the tables, directly or through others."""
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.model.transform_order import following  # noqa: PLC0415
    from frazil.transforms.standing import transform_standing  # noqa: PLC0415

    lake = IcebergLake(settings.catalog)
    return [transform_standing(lake, spec) for spec in following(settings.transforms, tables)]


def _show(found: Sequence[TableStatus], *, partitions_of_each: bool) -> None:
    from frazil.cli.columns import show  # noqa: PLC0415
    from frazil.monitoring.remarks import remarks  # noqa: PLC0415

    show(overview(found))
    for each in found if partitions_of_each else ():
        if each.partitions:
            print(f"\n{each.table}")
            show(_partitions(each))
        for done in each.operations:
            print_lines([f"{each.table}: {done}"], sys.stdout)
    for remark in remarks(found):
        print_lines([with_config_name(remark)], sys.stdout)


RANKS = {
    "lag": 0,
    "age": 1,
    "rows": 2,
    "dead letters": 3,
    "complete through": 4,
    "rows/s": 5,
    "small files": 6,
    "delete files": 7,
    "snapshots": 8,
    "last batch": 9,
    "skipped": 10,
    "epoch": 11,
}
"""The ranks of the figures: those with greater ranks are dropped first if a line is too narrow."""


def overview(found: Sequence[TableStatus]) -> list[Column]:
    """Return the columns of the overview, with one row per table and the figures in the order of their names."""
    from frazil.cli.columns import Column  # noqa: PLC0415

    names = (
        *("lag", "complete through", "age", "epoch", "rows", "rows/s", "dead letters", "skipped"),
        *("small files", "delete files", "snapshots", "last batch"),
    )
    rows = [tuple(_figures(each)) or ("",) * len(names) for each in found]
    figures = zip(names, zip(*rows, strict=True), strict=True) if rows else ()
    return [
        Column("table", tuple(each.table for each in found), is_number=False),
        Column("state", tuple(each.state for each in found), is_number=False),
        *(Column(name, cells, rank=RANKS[name]) for name, cells in figures),
    ]


def _figures(each: TableStatus) -> Iterator[str]:
    from frazil.cli.text import moment  # noqa: PLC0415

    if each.epoch is None:
        return
    yield "?" if each.lag is None else f"{each.lag:,}"
    yield "-" if each.complete_through is None else moment(each.complete_through.replace(microsecond=0))
    yield "-" if each.age_seconds is None else age(each.age_seconds)
    yield f"{each.epoch:,}"
    yield "-" if each.rows is None else f"{each.rows:,}"
    yield "-" if each.throughput is None else rate(each.throughput.rows_per_second)
    yield f"{each.accounted.dead_letters:,}"
    yield f"{each.accounted.skipped:,}"
    yield from _files(each)
    last = each.last_batch
    yield "-" if last is None else f"{plural(last.counts.read, 'record')} in {last.seconds:.1f} s"


def _files(each: TableStatus) -> Iterator[str]:
    files = each.files
    yield "-" if files is None or not files.examined else f"{files.small:,} of {files.examined:,}"
    yield "-" if files is None else f"{files.deletes:,}"
    yield "-" if each.snapshots is None else f"{each.snapshots:,}"


def _partitions(each: TableStatus) -> list[Column]:
    from frazil.cli.columns import Column  # noqa: PLC0415

    found = each.partitions
    return [
        Column("partition", tuple(f"{p.topic}-{p.partition}" for p in found), is_number=False),
        Column("next offset", tuple(f"{p.next:,}" for p in found), rank=2),
        Column("end", tuple("?" if p.end is None else f"{p.end:,}" for p in found), rank=1),
        Column("lag", tuple("?" if p.lag is None else f"{p.lag:,}" for p in found)),
    ]
