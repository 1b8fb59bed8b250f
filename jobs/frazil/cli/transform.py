"""`frazil transform`: tables that follow other tables through SQL."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.materialize import INTERRUPTED, SparkEnvironment, SparkMaster, cluster_on, interval_of, stopped_by
from frazil.cli.options import DEFAULT_CONFIG, Config, example, settings_from
from frazil.cli.screen import print_lines
from frazil.model.errors import FrazilError, Misuse, SettingError
from frazil.model.spelling import plural

if TYPE_CHECKING:
    from frazil.adapters.spark.cluster import SparkCluster
    from frazil.adapters.spark.runner import SparkRunner
    from frazil.adapters.spark.sql.session import SqlSession
    from frazil.materialize.clients import ClientSource
    from frazil.materialize.scheduling.schedule import Stopping
    from frazil.model.settings import Settings
    from frazil.model.transforms import TransformSpec
    from frazil.outputs.ports import OutputClients
    from frazil.ports import Lake
    from frazil.transforms.queries import Queries
    from frazil.transforms.run import Transformation, Transformed
    from frazil.transforms.schedule import Report

DEFAULT_EVERY = timedelta(seconds=60)

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Transformations, by the names of their files. Default: all."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A transformation, by the name of its file.")]
Input = Annotated[Path, typer.Option("--input", metavar="FILE", help="Rows of the followed table.")]
Expect = Annotated[Path, typer.Option("--expect", metavar="FILE", help="The rows that the query must give.")]
Join = Annotated[list[str] | None, typer.Option("--join", metavar="TABLE=FILE", help="Rows of a table of `joins`.")]
NewestJoins = Annotated[
    bool, typer.Option("--newest-joins", help="Read joined tables at their newest snapshots, for all rows.")
]
Once = Annotated[bool, typer.Option("--once", help="Stop after reading what the tables have at the start.")]
Every = Annotated[
    str | None,
    typer.Option("--every", metavar="TIME", help="How often to look for new rows, such as 30s. Default: 60s."),
]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Keep tables that follow other tables through SQL.")
    running = example("frazil transform run --once", "frazil transform run stock_total_trades --every 30s")
    verbs.command("run", epilog=running)(run)
    verbs.command("rebuild", epilog=example("frazil transform rebuild stock_total_trades"))(rebuild)
    testing = example("frazil transform test stock_total_trades --input in.jsonl --expect out.csv")
    verbs.command("test", epilog=testing)(test)
    verbs.command("verify", epilog=example("frazil transform verify stock_total_trades"))(verify)
    verbs.command("list", epilog=example("frazil transform list"))(list_all)
    app.add_typer(verbs, name="transform", epilog=example("frazil transform run --once"))


def run(
    names: Names = None,
    at_once: Once = False,
    every: Every = None,
    spark_master: SparkMaster = None,
    spark_environment: SparkEnvironment = None,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Bring the tables of transformations up to date.

    Each batch is the query over the rows that were added to the followed table since the last one. Its rows become
    visible together with the position that they were read up to, so each row counts once, whatever happens. Without
    --once it runs until stopped. Ctrl-C and SIGTERM let the batch in flight finish.
    """
    from frazil.materialize.scheduling.schedule import Stopping  # noqa: PLC0415
    from frazil.transforms.schedule import run_every  # noqa: PLC0415

    if at_once and every is not None:
        raise SettingError("--once and --every are mutually exclusive", hint="choose one")
    interval = DEFAULT_EVERY if every is None else interval_of(every)
    stopping = Stopping()
    with _running(config, names, cluster_on(spark_master, spark_environment)) as found, stopped_by(stopping) as stopped:
        seconds = interval.total_seconds()
        reports = once(found, stopping) if at_once else run_every(found, seconds, stopping, _announce)
    summarise(reports)
    _raise_all([each for report in reports if (each := report.failure or report.unsent) is not None])
    if stopped.is_set():
        raise typer.Exit(INTERRUPTED)


def rebuild(
    name: Name,
    newest_joins: NewestJoins = False,
    spark_master: SparkMaster = None,
    spark_environment: SparkEnvironment = None,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Compute all rows of a transformation again, and replace its table's.

    Use it after the query has changed, or if the transformation has halted. Readers see the table as it was until all
    rows are there; then one commit replaces rows, columns and partitioning. If it is interrupted, run it again. Rows
    meet joined tables at the snapshots that they met in their batches, unless --newest-joins is given.
    """
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.adapters.iceberg.rebuild_lake import RebuildLake  # noqa: PLC0415
    from frazil.transforms.commit import loaded  # noqa: PLC0415
    from frazil.transforms.rebuild import Rebuild  # noqa: PLC0415
    from frazil.transforms.send import halted_by_rebuild  # noqa: PLC0415

    with opened(config, [name], cluster_on(spark_master, spark_environment)) as (made,):
        lake = made.lake
        assert isinstance(lake, IcebergLake)  # noqa: S101 - narrows the type: it was opened here
        done = Rebuild(made, RebuildLake(lake, [made.spec.identifier]), newest_joins).perform()
        _announce(done)
        print_lines(halted_by_rebuild(loaded(lake, made.spec.identifier), made.spec, done.state.rows), sys.stderr)


def test(name: Name, given: Input, expect: Expect, join: Join = None, config: Config = DEFAULT_CONFIG) -> None:
    """Run the query of a transformation over rows of a file, and compare.

    Files are JSON lines or CSV with a header. Their rows have the columns of the tables, if these exist, or those that
    Spark infers. Columns are found by their names; those that a file does not have are null. Rows may be in any order.
    Rows that differ are shown side by side, and the exit status is then 1.
    """
    from frazil.transforms.in_spark import SparkQueries  # noqa: PLC0415
    from frazil.transforms.tested import compared, lines  # noqa: PLC0415

    with opened(config, [name], None) as (made,):
        files = {made.spec.source: given, **_joined(made.spec, join or ())}
        queries = made.queries()
        assert isinstance(queries, SparkQueries)  # noqa: S101 - narrows the type: it was opened here
        found = compared(queries, made.spec, files, expect)
    print_lines(lines(found), sys.stdout)
    if not found.agree:
        raise typer.Exit(1)


def _joined(spec: TransformSpec, given: Sequence[str]) -> dict[str, Path]:
    """Return the files of joined tables. Raises Misuse unless each has one."""
    named = dict(each.partition("=")[::2] for each in given)
    found = {table: named.pop(table.partition(".")[2], named.pop(table, "")) for table in spec.joins}
    missing = [table for table, file in found.items() if not file]
    if missing or named:
        tables = ", ".join(spec.joins) or "none"
        raise Misuse(
            f"--join: expected TABLE=FILE for each of `joins` ({tables}), found {', '.join(given) or 'none'}",
            hint="write --join users=users.jsonl, once for each table",
        )
    return {table: Path(file) for table, file in found.items()}


def verify(name: Name, config: Config = DEFAULT_CONFIG) -> None:
    """Compute the query again over all that was read, and compare.

    The followed table is read as it was at the position that the transformation has reached. The exit status is 1 if
    the table lacks a row of the query, or has one beyond them.
    """
    from frazil.transforms.verify import verify as verified  # noqa: PLC0415

    with opened(config, [name], None) as (made,):
        found = verified(made)
    verdict = "each is there once" if found.clean else f"{found.lacks} missing, {found.beyond} unexpected"
    upto = f"{found.position} of {found.spec.source}"
    print(f"{found.spec.identifier}: {plural(found.rows, 'row')} up to {upto}: {verdict}")
    if not found.clean:
        raise typer.Exit(1)


def list_all(config: Config = DEFAULT_CONFIG) -> None:
    """List the transformations: what each follows, and what it writes."""
    found = settings_from(config).transforms
    if not found:
        print("no transformations: docs/transforms.md shows how to write one", file=sys.stderr)
    print_lines(map(described, found), sys.stdout)


def described(spec: TransformSpec) -> str:
    joins = f", with {', '.join(spec.joins)}" if spec.joins else ""
    how = f"python {spec.function}" if spec.function else "sql"
    return f"transform {spec.name}: {spec.identifier} <- {spec.source}{joins}: {how} ({spec.source_file})"


@contextmanager
def opened(config: Path, names: Sequence[str] | None, cluster: SparkCluster | None) -> Iterator[list[Transformation]]:
    """Open the named transformations, all if none is named. Spark is started when the first of them needs it."""
    settings = settings_from(config)
    with opened_in(settings, named(settings, names), config.parent, cluster) as found:
        yield found


@contextmanager
def opened_in(
    settings: Settings, chosen: Sequence[TransformSpec], folder: Path, cluster: SparkCluster | None
) -> Iterator[list[Transformation]]:
    """Open transformations. `folder` is that of frazil.yaml, in which Spark's log is."""
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.adapters.spark.application import RUNS_QUERIES  # noqa: PLC0415
    from frazil.adapters.spark.runner import SparkRunner  # noqa: PLC0415
    from frazil.cli.clients import outputs_of  # noqa: PLC0415

    lake = IcebergLake(settings.catalog)
    runner = SparkRunner(log_file=folder / ".frazil" / "spark.log", cluster=cluster, jvm=RUNS_QUERIES)
    try:
        yield made_of(chosen, lake, runner, outputs_of(settings.kafka, settings.registry))
    finally:
        runner.stop()


@contextmanager
def _running(config: Path, names: Sequence[str] | None, cluster: SparkCluster | None) -> Iterator[list[Transformation]]:
    """Open the named transformations to keep their tables, with clients that are renewed."""
    from frazil.adapters.spark.application import RUNS_QUERIES  # noqa: PLC0415
    from frazil.adapters.spark.runner import SparkRunner  # noqa: PLC0415
    from frazil.cli.clients import open_clients  # noqa: PLC0415
    from frazil.cli.credential_refresher import CredentialRefresher  # noqa: PLC0415

    settings = settings_from(config)
    chosen = named(settings, names)
    runner = SparkRunner(log_file=config.parent / ".frazil" / "spark.log", cluster=cluster, jvm=RUNS_QUERIES)
    clients = open_clients(settings, runner, on_receipt=lambda _: None)
    try:
        yield kept_up(chosen, CredentialRefresher(settings, clients, load=lambda: settings_from(config)), runner)
    finally:
        clients.background.finish()
        runner.stop()


def kept_up(chosen: Sequence[TransformSpec], source: ClientSource, runner: SparkRunner) -> list[Transformation]:
    """Return transformations that renew their clients and maintain their tables. They share one session of Spark."""
    from frazil.cli.clients import new_id  # noqa: PLC0415
    from frazil.transforms.run import Transformation  # noqa: PLC0415
    from frazil.transforms.send import TransformSending  # noqa: PLC0415
    from frazil.transforms.upkeep import Upkeep  # noqa: PLC0415

    session, writer = started_when_needed(runner), new_id()

    def made(spec: TransformSpec) -> Transformation:
        upkeep = Upkeep(spec, source, writer)
        queries = queries_in(session, lambda: upkeep.clients.lake)
        sending = TransformSending(spec, lambda: upkeep.clients.outputs())  # noqa: PLW0108 - they are renewed
        return Transformation(spec, upkeep.clients.lake, queries, new_id, upkeep=upkeep, sending=sending)

    return [made(spec) for spec in chosen]


def made_of(
    chosen: Sequence[TransformSpec], lake: Lake, runner: SparkRunner, outputs: Callable[[], OutputClients]
) -> list[Transformation]:
    """Return transformations that share one session of Spark, which starts with the first query."""
    from frazil.cli.clients import new_id  # noqa: PLC0415
    from frazil.transforms.run import Transformation  # noqa: PLC0415
    from frazil.transforms.send import TransformSending  # noqa: PLC0415

    queries = queries_in(started_when_needed(runner), lambda: lake)
    return [Transformation(spec, lake, queries, new_id, sending=TransformSending(spec, outputs)) for spec in chosen]


def queries_in(session: Callable[[], SqlSession], lake: Callable[[], Lake]) -> Callable[[], Queries]:
    """Return what opens queries in a session over the tables of a lake, both as they are then."""

    def queries() -> Queries:
        from frazil.transforms.in_spark import SparkQueries  # noqa: PLC0415

        return SparkQueries(session(), lake())

    return queries


def started_when_needed(runner: SparkRunner) -> Callable[[], SqlSession]:
    """Return what opens a session of Spark once, and starts Spark for it."""
    made: list[SqlSession] = []

    def session() -> SqlSession:
        from frazil.adapters.spark.sql.session import SqlSession  # noqa: PLC0415

        if not made:
            print("Starting Spark…", file=sys.stderr, flush=True)
            made.append(SqlSession(runner))
        return made[0]

    return session


def named(settings: Settings, names: Sequence[str] | None) -> list[TransformSpec]:
    """Return the transformations with these names, all if there are none. Raises Misuse for an unknown one."""
    from frazil.specs.problems import suggest  # noqa: PLC0415

    known = {spec.name: spec for spec in settings.transforms}  # each after the one that it follows
    for name in names or ():
        if name not in known:
            hint = suggest(name, [*known]) if known else "see docs/transforms.md"
            raise Misuse(f"no transformation {name} in the specs of {settings.source_file}", hint=hint)
    return [spec for name, spec in known.items() if not names or name in names]


def _announce(done: Transformed) -> None:
    print(batch_line(done), flush=True)


def batch_line(done: Transformed) -> str:
    at = done.state.position
    epoch = "" if at is None else f", up to epoch {at.epoch}"
    return (
        f"{done.spec.identifier}: {plural(done.written, 'row')} from {plural(done.read, 'row')} of"
        f" {done.spec.source}{epoch}, snapshot {done.snapshot_id}, {done.seconds:.1f} s"
    )


def _summary(report: Report) -> str:
    if report.failure is not None:
        return f"{report.name}: failed after {plural(report.batches, 'batch', 'batches')}"
    if report.batches == 0:
        return f"{report.name}: nothing new"
    return f"{report.name}: {plural(report.rows, 'row')} in {plural(report.batches, 'batch', 'batches')}"


def _raise_all(failures: Sequence[FrazilError]) -> None:
    from frazil.cli.check import together  # noqa: PLC0415

    if failures:
        raise together(failures, says=f"{len(failures)} transformations failed.", command="frazil transform run")


def once(made: Sequence[Transformation], stopping: Stopping) -> list[Report]:
    """Bring transformations up to date; their batches are printed."""
    from frazil.transforms.schedule import run_once  # noqa: PLC0415 - as all that follows, for few commands

    return run_once(made, stopping, _announce)


@contextmanager
def beside(made: Sequence[Transformation], every: timedelta, stopping: Stopping) -> Iterator[list[Report]]:
    """Run transformations in a thread until stopped. The list has their reports at the end."""
    from frazil.transforms.schedule import run_beside  # noqa: PLC0415

    reports: list[Report] = []
    if not made:
        yield reports
        return

    def follow() -> None:
        reports.extend(run_beside(made, every.total_seconds(), stopping, _announce))

    thread = threading.Thread(target=follow, name="transformations", daemon=True)
    thread.start()
    try:
        yield reports
    finally:
        stopping.stop()
        thread.join()


def summarise(reports: Sequence[Report]) -> None:
    for report in reports:
        print(_summary(report), file=sys.stderr)


def explain(config: Path, name: str) -> None:
    """Show what the next batch of a transformation reads, its columns with where they come from, and its plan."""
    from frazil.transforms.preview import lines, preview  # noqa: PLC0415

    with opened(config, [name], None) as (made,):
        found = preview(made)
    print_lines(lines(found), sys.stdout)
    if found.halted is not None:
        raise found.halted
