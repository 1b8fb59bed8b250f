"""`frazil materialize` and `frazil explain`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.options import DEFAULT_CONFIG, Config, Tables, example, settings_from
from jobs.model.errors import FrazilError, SettingError

if TYPE_CHECKING:
    from jobs.materialize.run import TableRun
    from jobs.materialize.schedule import TableReport
    from jobs.model.receipt import Receipt

Once = Annotated[
    bool, typer.Option("--once", help="Stop when every topic is caught up to where it stood at the start.")
]
Every = Annotated[str | None, typer.Option("--every", metavar="TIME", help="Go on for ever, a batch this often: 30s.")]
CreateOnly = Annotated[bool, typer.Option("--create-only", help="Only make the tables that are missing, empty.")]
Adopt = Annotated[
    bool, typer.Option("--adopt", help="Take over a table that Frazil did not create, if its columns fit.")
]


def register(app: typer.Typer) -> None:
    app.command("explain", epilog=example("frazil explain", "frazil explain lake.stock_trades"))(explain)
    app.command("materialize", epilog=example("frazil materialize --once", "frazil materialize --every 30s"))(
        materialize
    )


def explain(tables: Tables = None, config: Config = DEFAULT_CONFIG) -> None:
    """Show the plan that materialize would carry out; nothing is done."""
    from jobs.materialize.explain import explain as explain_table  # noqa: PLC0415
    from jobs.materialize.explain import lines  # noqa: PLC0415

    failures: list[FrazilError] = []
    for run in _runs(config, tables):
        try:
            print("\n".join(lines(explain_table(run))))
        except FrazilError as failure:
            failures.append(failure)
    _raise_all(failures)


def materialize(
    tables: Tables = None,
    once: Once = False,
    every: Every = None,
    create_only: CreateOnly = False,
    adopt: Adopt = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Turn topics into tables: batch after batch, each all visible at once or not at all.

    Without --once it goes on for ever, each table as often as its `trigger` says.
    """
    interval = None if every is None else _interval(every)
    if once and every is not None:
        raise SettingError("--once and --every exclude each other", hint="choose one")
    runs = _runs(config, tables, adopt=adopt)
    reports = _create(runs) if create_only else _carry_out(runs, once=once, every=interval)
    for report in reports:
        print(_summary(report), file=sys.stderr)
    _raise_all([report.failure for report in reports if report.failure is not None])


def _runs(config: Config, tables: Tables, *, adopt: bool = False) -> list[TableRun]:
    from jobs.adapters.spark import SparkRunner  # noqa: PLC0415
    from jobs.cli.doorkeeper import SecretWatch  # noqa: PLC0415
    from jobs.cli.doors import open_doors, table_runs  # noqa: PLC0415
    from jobs.specs.select import select_tables  # noqa: PLC0415

    settings = settings_from(config)
    chosen = select_tables(settings, tables or ())
    log_file = config.parent / ".frazil" / "spark.log"
    doors = open_doors(settings, SparkRunner(log_file=log_file), announce=_print)
    keeper = SecretWatch(settings, doors, load=lambda: settings_from(config))
    return table_runs(doors, chosen, adopt=adopt, keeper=keeper)


def _create(runs: Sequence[TableRun]) -> list[TableReport]:
    from jobs.materialize.schedule import TableReport  # noqa: PLC0415

    reports = []
    for run in runs:
        failure = None
        try:
            run.create()
        except FrazilError as problem:
            failure = problem
        reports.append(TableReport(run.spec.identifier, 0, 0, failure))
    return reports


def _carry_out(runs: Sequence[TableRun], *, once: bool, every: timedelta | None) -> list[TableReport]:
    from jobs.materialize.schedule import Stopping, run_every, run_once  # noqa: PLC0415

    stopping = Stopping()
    signal.signal(signal.SIGTERM, lambda *_: stopping.stop())
    try:
        return run_once(runs, stopping) if once else run_every(runs, every, stopping)
    finally:
        for runner in {id(run.doors.runner): run.doors.runner for run in runs}.values():
            runner.stop()


def _interval(text: str) -> timedelta:
    from jobs.specs.scalars import parse_duration  # noqa: PLC0415

    return parse_duration(text)


def _print(receipt: Receipt) -> None:
    from jobs.materialize.announce import lines  # noqa: PLC0415

    print("\n".join(lines(receipt)), flush=True)


def _summary(report: TableReport) -> str:
    if report.failure is not None:
        return f"{report.table}: failed after {report.batches} batch(es)"
    if report.batches == 0:
        return f"{report.table}: nothing new"
    return f"{report.table}: {report.rows:,} rows in {report.batches} batch(es)"


def _raise_all(failures: Sequence[FrazilError]) -> None:
    from jobs.cli.check import together  # noqa: PLC0415

    if failures:
        raise together(failures)
