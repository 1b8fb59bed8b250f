"""`frazil rebuild` and `frazil rewind`: rows of a table are made again from its topics, all or the last ones."""

from __future__ import annotations

import getpass
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.materialize import SparkEnvironment, SparkMaster, cluster_on
from frazil.cli.options import DEFAULT_CONFIG, Config, example, settings_from
from frazil.cli.screen import print_lines
from frazil.model.errors import Misuse, SettingError

if TYPE_CHECKING:
    from frazil.materialize.rebuild.perform import Rebuild, RebuildProgress
    from frazil.materialize.rebuild.rewind import Target
    from frazil.model.receipt import Receipt
    from frazil.model.spec import TableSpec

Table = Annotated[str, typer.Argument(metavar="TABLE", help="A table as `table` or `database.table`.")]
MaxRate = Annotated[
    float | None,
    typer.Option("--max-rate", metavar="RECORDS", help="Read at most so many records a second, on average."),
]
DropForeign = Annotated[
    bool,
    typer.Option("--drop-foreign-changes", help="Rebuild the table even if others have changed its rows."),
]
Discard = Annotated[bool, typer.Option("--discard", help="Drop what an interrupted rebuild has built, then stop.")]
To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="POINT",
        help="`earliest`, a time such as 2026-01-31T00:00:00Z, or offsets such as orders-0@1234,orders-1@990.",
    ),
]


Why = Annotated[str, typer.Option("--why", help="The reason, kept in the table.")]


def register(app: typer.Typer) -> None:
    examples = ("frazil rebuild stock_trades", "frazil rebuild stock_trades --max-rate 50000")
    app.command("rebuild", epilog=example(*examples))(rebuild)
    rewinding = (
        "frazil rewind stock_trades --to 2026-01-31T00:00:00Z",
        "frazil rewind stock_trades --to stock_trades-0@1234,stock_trades-1@990",
    )
    app.command("rewind", epilog=example(*rewinding))(rewind)


def rebuild(
    table: Table,
    max_rate: MaxRate = None,
    drop_foreign_changes: DropForeign = False,
    discard: Discard = False,
    why: Why = "",
    spark_master: SparkMaster = None,
    spark_environment: SparkEnvironment = None,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Make all rows of a table again from its topics.

    The rows are made by the present spec. Use it after a change of the spec that a table cannot follow, such as another
    `write`. All tables of shapes or routes are made again together. Readers see the table as it was until it is
    complete; then one commit replaces rows, columns and partitioning. The table keeps its uuid. If it is interrupted,
    run it again: it continues. A driver of the table may run meanwhile; start it again afterwards if the spec has
    changed. Nothing is replaced if Kafka has lost records that the table has.
    """
    found = _opened(table, config, spark_master, spark_environment, max_rate, drop_foreign_changes)
    if discard:
        _drop(found)
        return
    _perform(found, "rebuild", why)


def rewind(
    table: Table,
    to: To,
    max_rate: MaxRate = None,
    drop_foreign_changes: DropForeign = False,
    why: Why = "",
    spark_master: SparkMaster = None,
    spark_environment: SparkEnvironment = None,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Read the topics of a table again from an earlier point on.

    Rows from before that point stay, and all later ones are made again. It begins where a batch ended, at the point or
    before it; the table must still have the snapshot of this batch. `earliest` is the oldest such snapshot from which
    on Kafka has all records. Readers see the table as it was until the rewind is complete, and it continues if it is
    run again, as with `frazil rebuild`. To drop what was built, run `frazil rebuild --discard`.
    """
    found = _opened(table, config, spark_master, spark_environment, max_rate, drop_foreign_changes)
    found.target = _target(to)
    _perform(found, "rewind", f"to {to}{f': {why}' if why else ''}")


def _unreadable(text: str) -> SettingError:
    return SettingError(
        f"--to: expected `earliest`, a time with a zone, or offsets, found {text}",
        hint="write a time as 2026-01-31T00:00:00Z, and offsets as orders-0@1234,orders-1@990",
    )


def _target(text: str) -> Target:
    """Return where to rewind to. Raises SettingError."""
    from frazil.dead_letters import record_named  # noqa: PLC0415
    from frazil.materialize.rebuild.rewind import ToEarliest, ToOffsets, ToTimestamp  # noqa: PLC0415

    if text == "earliest":
        return ToEarliest()
    if "@" in text:
        offsets: dict[str, dict[int, int]] = {}
        try:
            for topic, partition, offset in map(record_named, text.split(",")):
                offsets.setdefault(topic, {})[partition] = offset
        except Misuse as error:
            raise _unreadable(text) from error
        return ToOffsets(offsets)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise _unreadable(text)
    return ToTimestamp(at)


def _drop(found: Rebuild) -> None:
    gone = "what was built is dropped" if found.discard() else "no rebuild was begun; nothing was dropped"
    print(f"{found.spec.identifier}: {gone}", file=sys.stderr)


def _perform(found: Rebuild, what: str, why: str) -> None:
    """Carry out the rebuild. The table keeps who did it, when and why."""
    from frazil.cli.progress import own_stderr  # noqa: PLC0415
    from frazil.materialize.pause.history import note, operation  # noqa: PLC0415

    with own_stderr():
        try:
            receipts = found.perform()
            done = operation(what, by=getpass.getuser(), at=datetime.now(UTC), why=why)
            note(found.clients.lake, found.spec, done)
        finally:
            found.clients.runner.stop()
    print_lines(rebuilt_lines(receipts), sys.stdout)


def rebuilt_lines(receipts: Sequence[Receipt]) -> Iterator[str]:
    """Yield which snapshot each table is now, what became of the records that were read again, and which they are."""
    from frazil.cli.receipt_lines import offsets_line  # noqa: PLC0415

    for receipt in receipts:
        yield f"{receipt.table} is rebuilt: epoch {receipt.epoch}, snapshot {receipt.snapshot_id}"
        yield f"  {receipt.counts.short_formula()}"
        if receipt.group is not None:
            yield f"  all tables of its group: {receipt.group.short_formula()}"
        yield offsets_line(receipt)


def _opened(
    table: str,
    config: Config,
    spark_master: str | None,
    spark_environment: str | None,
    max_rate: float | None,
    drop_foreign: bool,
) -> Rebuild:
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.adapters.iceberg.rebuild_lake import RebuildLake  # noqa: PLC0415
    from frazil.adapters.spark.runner import SparkRunner  # noqa: PLC0415
    from frazil.cli.clients import new_id, open_clients  # noqa: PLC0415
    from frazil.materialize.rebuild.perform import Rebuild  # noqa: PLC0415
    from frazil.specs.select import read_with, select_table  # noqa: PLC0415

    if max_rate is not None and max_rate <= 0:
        raise SettingError(f"--max-rate: expected a number above 0, found {max_rate:g}", hint="without it, no bound")
    settings = settings_from(config)
    spec, *others = read_with(settings, select_table(settings, table))
    lake = IcebergLake(settings.catalog)
    cluster = cluster_on(spark_master, spark_environment)
    runner = SparkRunner(log_file=config.parent / ".frazil" / "spark.log", cluster=cluster)
    clients = replace(open_clients(settings, runner, on_receipt=lambda receipt: None), lake=lake)
    return Rebuild(
        spec,
        clients,
        RebuildLake(lake, (spec.dead_letters_identifier, *(each.identifier for each in (spec, *others)))),
        new_id(),
        wait=time.sleep,
        clock=time.monotonic,
        report=lambda progress: _report(spec, progress),
        max_rate=max_rate,
        drop_foreign=drop_foreign,
        others=others,
    )


def _report(spec: TableSpec, progress: RebuildProgress) -> None:
    print(f"{spec.identifier}: {progress_words(progress)}", file=sys.stderr, flush=True)


def progress_words(progress: RebuildProgress) -> str:
    """Return text such as `300,000 of 1,200,000 offsets, 45,000/s, 20 s left`."""
    from frazil.cli.backlog import duration  # noqa: PLC0415

    words = f"{progress.read:,} of {progress.total:,} offsets"
    rate = progress.read_here / progress.seconds if progress.seconds else 0.0
    if not rate:
        return words
    left = progress.total - progress.read
    return f"{words}, {rate:,.0f}/s" + (f", {duration(left / rate)} left" if left else "")
