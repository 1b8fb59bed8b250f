"""`frazil materialize` and `frazil explain`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import DEFAULT_CONFIG, Config, Tables, example, settings_from
from frazil.cli.printed_errors import print_error
from frazil.cli.screen import print_lines
from frazil.model.errors import FrazilError, Misuse, SettingError
from frazil.model.spelling import plural

if TYPE_CHECKING:
    from frazil.adapters.spark.cluster import SparkCluster
    from frazil.cli.progress import Display
    from frazil.materialize.run import TableRun
    from frazil.materialize.scheduling.schedule import Stopping, TableReport
    from frazil.model.receipt import Receipt
    from frazil.model.settings import Settings
    from frazil.transforms.run import Transformation

STOPS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 130

Once = Annotated[bool, typer.Option("--once", help="Stop after reading to the end offsets at start.")]
Every = Annotated[
    str | None, typer.Option("--every", metavar="TIME", help="Run continuously, one batch per interval, such as 30s.")
]
CreateOnly = Annotated[
    bool, typer.Option("--create-only", help="Create missing tables, empty, apply changed specs, then stop.")
]
Metadata = Annotated[
    bool, typer.Option("--metadata", help="Draw the table's files, from the catalog to the rows; no plan.")
]
Adopt = Annotated[
    bool, typer.Option("--adopt", help="Take over a table that Frazil did not create, if its columns fit.")
]
SparkMaster = Annotated[
    str | None,
    typer.Option(
        "--spark-master", metavar="URL", envvar="FRAZIL_SPARK_MASTER", help="Run tasks on this Spark cluster."
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="PORT",
        min=0,
        max=65_535,
        help="Serve metrics for Prometheus on 127.0.0.1:PORT/metrics, and the status page on /.",
    ),
]
SPARK_ENVIRONMENT = "FRAZIL_SPARK_ENVIRONMENT"
SparkEnvironment = Annotated[
    str | None,
    typer.Option(
        "--spark-environment",
        metavar="ARCHIVE",
        envvar=SPARK_ENVIRONMENT,
        help="The packages for the cluster's workers, from `make environment`.",
    ),
]


def register(app: typer.Typer) -> None:
    shown = ("frazil explain", "frazil explain lake.stock_trades", "frazil explain stock_trades --metadata")
    app.command("explain", epilog=example(*shown))(explain)
    examples = (
        "frazil materialize --once",
        "frazil materialize --every 30s",
        "frazil materialize --metrics-port 9464",
        "frazil materialize --spark-master spark://host:7077 \\\n"
        "    --spark-environment .frazil/spark/environment.tar.gz",
    )
    app.command("materialize", epilog=example(*examples))(materialize)


def explain(tables: Tables = None, metadata: Metadata = False, config: Config = DEFAULT_CONFIG) -> None:
    """Show the plan of the next batch, without running it.

    The exit status is that of materialize: 1 if a table cannot continue, 2 if its spec contradicts itself or the topic.
    With --metadata, show the files of which each table consists instead. The name of a transformation shows its query:
    the columns with those that they come from, and the plan.
    """
    from frazil.cli import transform  # noqa: PLC0415

    names = {each.name for each in settings_from(config).transforms} if tables else ()
    for name in [each for each in tables or () if each in names]:
        transform.explain(config, name)
    if tables and not (tables := [each for each in tables if each not in names]):
        return
    if metadata:
        _show_metadata(config, tables)
        return
    from frazil.materialize.preview.explain import explain as explain_table  # noqa: PLC0415
    from frazil.materialize.preview.explain import lines  # noqa: PLC0415
    from frazil.model.plan import Halt  # noqa: PLC0415

    failures: list[FrazilError] = []
    for run in chain.from_iterable(run.of_each_table() for run in _runs(config, tables)):
        try:
            explanation = explain_table(run)
        except FrazilError as failure:
            failures.append(failure)
            continue
        print_lines(lines(explanation), sys.stdout)
        if isinstance(explanation.plan, Halt):
            failures.append(explanation.plan.error)
    _raise_all(failures, "explain")


def _show_metadata(config: Config, tables: Tables) -> None:
    """Draw each table. Raises Misuse for the first that does not exist."""
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.adapters.iceberg.metadata_tree import metadata_tree  # noqa: PLC0415
    from frazil.cli.metadata_tree import lines as metadata_lines  # noqa: PLC0415
    from frazil.specs.select import select_tables  # noqa: PLC0415

    settings = settings_from(config)
    lake, catalog = IcebergLake(settings.catalog), f"catalog ({settings.catalog.type})"
    for spec in select_tables(settings, tables or ()):
        view, offsets = lake.load(spec.identifier), f"{spec.metadata.prefix}offset"
        if view is None:
            raise Misuse(
                f"the catalog has no table {spec.identifier}, which {spec.source_file} describes",
                hint=f"run `frazil materialize {spec.table} --create-only`",
            )
        tree = metadata_tree(view, bounds_of=offsets)
        print_lines(metadata_lines(view, tree, catalog=catalog, bounds_of=offsets), sys.stdout)


def materialize(  # noqa: PLR0913 - one for each option
    tables: Tables = None,
    *,
    once: Once = False,
    every: Every = None,
    create_only: CreateOnly = False,
    adopt: Adopt = False,
    metrics_port: MetricsPort = None,
    spark_master: SparkMaster = None,
    spark_environment: SparkEnvironment = None,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Turn the records of topics into rows of tables.

    Transformations that follow these tables are run, too: see `frazil transform run`. Each batch becomes visible as a
    whole or not at all. Without --once it runs until stopped, with a batch of each table as often as its `trigger`
    says. Ctrl-C and SIGTERM let the batches in flight finish; a second Ctrl-C stops at once, which is also safe. With
    --create-only, the exit status is 3 if tables could not be created only because topics or subjects are missing.
    A page in the warehouse shows how the tables are; `status_page` in frazil.yaml names it.
    """
    from frazil.adapters.storage.warehouse_folder import check_warehouse  # noqa: PLC0415
    from frazil.cli.logs import lines_of_run  # noqa: PLC0415
    from frazil.cli.progress import Display, own_stderr  # noqa: PLC0415
    from frazil.cli.watch import Watch, cloudwatch_lines  # noqa: PLC0415

    if create_only and (once or every is not None):
        raise SettingError(
            "--create-only excludes --once and --every: it creates tables without filling them",
            hint="run `frazil materialize --create-only` first, then `frazil materialize --once`",
        )
    if once and every is not None:
        raise SettingError("--once and --every are mutually exclusive", hint="choose one")
    interval = None if every is None else interval_of(every)
    cluster = cluster_on(spark_master, spark_environment)
    display = Display()
    settings = settings_from(config)
    check_warehouse(settings.catalog)
    runs, following = _opened(config, tables, display, settings=settings, adopt=adopt, cluster=cluster)
    if create_only:
        _create(runs)
        return
    watch = Watch(settings, runs, metrics_port, cloudwatch_lines(os.environ))
    display.on_published.append(watch.batch_published)
    with own_stderr(), lines_of_run(runs[0].writer if runs else ""), watch.watching():
        _carry_out(runs, following, display, once=once, every=interval)


def _runs(
    config: Config,
    tables: Tables,
    display: Display | None = None,
    *,
    adopt: bool = False,
    cluster: SparkCluster | None = None,
) -> list[TableRun]:
    """Return the runs of the named tables."""
    settings = settings_from(config)
    return _opened(config, tables, display, settings=settings, adopt=adopt, cluster=cluster)[0]


def _opened(
    config: Config,
    tables: Tables,
    display: Display | None,
    *,
    settings: Settings,
    adopt: bool,
    cluster: SparkCluster | None,
) -> tuple[list[TableRun], list[Transformation]]:
    """Return the runs of the named tables, and the transformations that follow these."""
    from frazil.adapters.spark.application import HANDS_OUT_TASKS, RUNS_QUERIES  # noqa: PLC0415
    from frazil.adapters.spark.runner import SparkRunner  # noqa: PLC0415
    from frazil.cli.clients import open_clients, table_runs  # noqa: PLC0415
    from frazil.cli.credential_refresher import CredentialRefresher  # noqa: PLC0415
    from frazil.cli.progress import Display, WatchedRunner  # noqa: PLC0415
    from frazil.cli.transform import kept_up  # noqa: PLC0415
    from frazil.model.transform_order import following  # noqa: PLC0415
    from frazil.specs.select import select_tables  # noqa: PLC0415

    chosen = select_tables(settings, tables or ())
    sources = {spec.identifier for spec in chosen}
    after = following(settings.transforms, sources)
    log_file = config.parent / ".frazil" / "spark.log"
    display = display or Display()
    spark = SparkRunner(log_file=log_file, cluster=cluster, jvm=RUNS_QUERIES if after else HANDS_OUT_TASKS)
    runner = WatchedRunner(spark, display)
    clients = open_clients(settings, runner, on_receipt=lambda receipt: _announce(receipt, display))
    clients = replace(clients, on_batch_end=display.batch_ended)
    client_source = CredentialRefresher(settings, clients, load=lambda: settings_from(config))
    runs = table_runs(clients, chosen, adopt=adopt, client_source=client_source)
    return runs, kept_up(after, client_source, spark)


def cluster_on(master: str | None, environment: str | None) -> SparkCluster | None:
    """Return the cluster to run tasks on, or None for this machine. Raises SettingError, or SparkClusterError."""
    from frazil.adapters.spark.cluster import SparkCluster  # noqa: PLC0415

    if master is None:
        if environment is not None:
            raise SettingError(
                "--spark-environment has no effect without --spark-master", hint="add --spark-master URL"
            )
        return None
    cluster = SparkCluster(master, environment)
    cluster.check()
    return cluster


def _create(runs: Sequence[TableRun]) -> None:
    from frazil.cli.check import NOT_THERE_YET, are_not_there_yet  # noqa: PLC0415

    failures: list[FrazilError] = []
    for run in runs:
        names = [table.identifier for table in run.tables]
        try:
            there = {name for name in names if run.clients.lake.load(name) is not None}
            run.create()
        except FrazilError as failure:
            failures.append(failure)
            said = dict.fromkeys(names, "failed")
        else:
            said = {name: "exists" if name in there else "created, empty" for name in names}
        for name, what in said.items():
            print(f"{name}: {what}", file=sys.stderr)
    if are_not_there_yet(failures):
        print_error(_together(failures, "materialize --create-only"))
        raise typer.Exit(NOT_THERE_YET)
    _raise_all(failures, "materialize --create-only")


def _carry_out(
    runs: Sequence[TableRun],
    following: Sequence[Transformation],
    display: Display,
    *,
    once: bool,
    every: timedelta | None,
) -> None:
    from frazil.cli import transform  # noqa: PLC0415
    from frazil.materialize.scheduling.schedule import Stopping, run_every, run_once  # noqa: PLC0415

    stopping = Stopping()
    if not once:
        display.idle = _waiting(runs, every)
    with _stopped_by_signals(stopping, display) as interrupted, display.shown():
        try:
            if once:
                reports = run_once(runs, stopping)
                display.idle = "running transformations…" if following else display.idle
                made = transform.once(following, stopping)
            else:
                with transform.beside(following, _often(runs, every), stopping) as made:
                    reports = run_every(runs, every, stopping)
        finally:
            for run in runs:
                run.clients.background.finish()
            for runner in {id(run.clients.runner): run.clients.runner for run in runs}.values():
                runner.stop()
    for report in reports:
        print(_summary(report), file=sys.stderr)
    transform.summarise(made)
    failures = [*(report.failure for report in reports), *(each.failure or each.unsent for each in made)]
    _raise_all([failure for failure in failures if failure is not None], "materialize")
    if interrupted.is_set():
        raise typer.Exit(INTERRUPTED)


def _often(runs: Sequence[TableRun], every: timedelta | None) -> timedelta:
    """Return how often transformations look for new rows: as often as the table with the shortest trigger."""
    return every if every is not None else min(run.spec.trigger.every for run in runs)


def _waiting(runs: Sequence[TableRun], every: timedelta | None) -> str:
    """Return text such as `5 tables, every 10 s, waiting`."""
    from frazil.cli.backlog import duration  # noqa: PLC0415

    triggers = {every} if every is not None else {run.spec.trigger.every for run in runs}
    often = f"every {duration(triggers.pop().total_seconds())}" if len(triggers) == 1 else "each at its own trigger"
    return f"{plural(sum(len(run.tables) for run in runs), 'table')}, {often}, waiting"


@contextmanager
def stopped_by(stopping: Stopping) -> Iterator[threading.Event]:
    """Let the batch in flight finish after the first SIGINT or SIGTERM, as `materialize` does."""
    from frazil.cli.progress import Display  # noqa: PLC0415

    with _stopped_by_signals(stopping, Display()) as interrupted:
        yield interrupted


@contextmanager
def _stopped_by_signals(stopping: Stopping, display: Display) -> Iterator[threading.Event]:
    """Let the batches in flight finish after the first SIGINT or SIGTERM; exit at once after the second.

    A SIGINT while Spark starts ends the process at once, because no batch is in flight. SIGINT sets the yielded event.
    """
    interrupted = threading.Event()

    def stop(number: int, _: object) -> None:
        if number == signal.SIGINT and display.is_starting:
            print("stopped while Spark was starting; nothing was written", file=sys.stderr, flush=True)
            os._exit(INTERRUPTED)
        for each in STOPS:
            signal.signal(each, signal.SIG_DFL)
        if number == signal.SIGINT:
            interrupted.set()
        again = "; press Ctrl-C again to stop at once" if number == signal.SIGINT else ""
        print(f"stopping after the current batches{again}", file=sys.stderr)
        stopping.stop()

    before = {each: signal.signal(each, stop) for each in STOPS}
    try:
        yield interrupted
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def interval_of(text: str) -> timedelta:
    from frazil.specs.scalars import parse_duration  # noqa: PLC0415
    from frazil.specs.shapes import Unfit  # noqa: PLC0415

    try:
        return parse_duration(text)
    except Unfit as unfit:
        raise SettingError(f'--every: expected a time, found "{text}"', hint=str(unfit)) from unfit


def _announce(receipt: Receipt, display: Display) -> None:
    from frazil.cli.receipt_lines import lines, logged_lines  # noqa: PLC0415

    display.batch_published(receipt)
    on_terminal = sys.stdout.isatty()
    print_lines(lines(receipt) if on_terminal else logged_lines(receipt, at=datetime.now(UTC)), sys.stdout)


def _summary(report: TableReport) -> str:
    if report.failure is not None:
        return f"{report.table}: failed after {_batches(report)}"
    if report.batches == 0:
        return f"{report.table}: nothing new"
    return f"{report.table}: {plural(report.rows, 'row')} in {_batches(report)}"


def _batches(report: TableReport) -> str:
    return plural(report.batches, "batch", "batches")


def _raise_all(failures: Sequence[FrazilError], command: str) -> None:
    if failures:
        raise _together(failures, command)


def _together(failures: Sequence[FrazilError], command: str) -> FrazilError:
    from frazil.cli.check import together  # noqa: PLC0415

    return together(failures, says=f"{len(failures)} tables failed.", command=f"frazil {command}")
