"""`frazil dead-letters replay`: dead letters that can be decoded now become rows."""

from __future__ import annotations

import getpass
import json
import os
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frazil.cli.dead_letter_choice import reason_named
from frazil.cli.materialize import SPARK_ENVIRONMENT, SparkMaster, cluster_on
from frazil.cli.options import DEFAULT_CONFIG, Config, Json, schema_id_from, settings_from
from frazil.cli.screen import print_lines

if TYPE_CHECKING:
    from frazil.adapters.spark.cluster import SparkCluster
    from frazil.materialize.replay.request import ReplayRequest, ReplayResult
    from frazil.model.receipt import Receipt
    from frazil.model.settings import Settings
    from frazil.model.spec import TableSpec
    from frazil.ports import Lake

LOOK_SECONDS = 0.5
LEAST_WAIT_SECONDS = 5.0
"""A driver with a short trigger may be in the middle of a batch."""

Table = Annotated[str, typer.Argument(metavar="TABLE", help="A table as `table` or `database.table`.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="REASON", help="Only those with this reason.")]
SchemaId = Annotated[str | None, typer.Option("--schema-id", metavar="ID", help="Only those with this schema.")]
Record = Annotated[
    str | None, typer.Option("--record", metavar="RECORD", help="Only this one, as `topic-partition@offset`.")
]
Wait = Annotated[
    str | None,
    typer.Option(
        "--wait",
        metavar="TIME",
        help="How long a running driver has to perform it, before this command does. Default: two triggers.",
    ),
]


def replay(
    table: Table,
    reason: Reason = None,
    schema_id: SchemaId = None,
    record: Record = None,
    wait: Wait = None,
    spark_master: SparkMaster = None,
    as_json: Json = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Turn dead letters into rows, after what was wrong has been fixed.

    A running driver performs the replay at its next trigger. If none does within --wait, this command performs it, and
    searches a table that follows keys on this machine, or with --spark-master on a cluster, whose workers get the
    packages that FRAZIL_SPARK_ENVIRONMENT names.
    Those that still cannot be decoded stay dead letters. A dead letter that became a row is marked,
    and never replayed again.
    """
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.cli.clients import new_id  # noqa: PLC0415
    from frazil.dead_letters import record_named  # noqa: PLC0415
    from frazil.materialize.pause.by_operator import loaded  # noqa: PLC0415
    from frazil.materialize.plan import check_not_paused  # noqa: PLC0415
    from frazil.materialize.replay.request import new_request  # noqa: PLC0415
    from frazil.specs.select import select_ledger  # noqa: PLC0415

    settings = settings_from(config)
    spec = select_ledger(settings, table)
    cluster = cluster_on(spark_master, os.environ.get(SPARK_ENVIRONMENT))
    lake = IcebergLake(settings.catalog)
    request = new_request(
        id=new_id(),
        by=getpass.getuser(),
        at=datetime.now(UTC),
        reason=reason_named(reason),
        schema_id=None if schema_id is None else schema_id_from(schema_id),
        record=None if record is None else record_named(record),
    )
    seconds = _seconds(wait, spec)
    check_not_paused(spec, loaded(lake, spec).properties)
    result = _by_driver(lake, spec, request, seconds) if seconds else None
    _print(spec, result or _alone(settings, spec, request, config.parent, cluster), as_json=as_json)


def _seconds(wait: str | None, spec: TableSpec) -> float:
    """Return how long to wait for a driver: two triggers, unless a time is given."""
    from frazil.model.errors import SettingError  # noqa: PLC0415
    from frazil.specs.scalars import parse_duration  # noqa: PLC0415
    from frazil.specs.shapes import Unfit  # noqa: PLC0415

    if wait is None:
        return max(2 * spec.trigger.every.total_seconds(), LEAST_WAIT_SECONDS)
    if wait == "0":
        return 0.0
    try:
        return parse_duration(wait).total_seconds()
    except Unfit as unfit:
        raise SettingError(f'--wait: expected a time, found "{wait}"', hint=str(unfit)) from unfit


def _by_driver(lake: Lake, spec: TableSpec, request: ReplayRequest, seconds: float) -> ReplayResult | None:
    """Leave the request in the table; return its result, or None if no driver performed it in time.

    The request is withdrawn however the wait ends.
    """
    from frazil.materialize.replay.answer import answer_to, ask, withdraw  # noqa: PLC0415

    ask(lake, spec.identifier, request)
    try:
        print(f"waiting up to {seconds:.0f} s for a running driver to perform it", file=sys.stderr, flush=True)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
            result = answer_to(lake, spec.identifier, request)
            if result is not None:
                return result
    finally:
        withdraw(lake, spec.identifier, request)
    print("no driver took it: performing it here", file=sys.stderr, flush=True)
    return None


def _alone(
    settings: Settings, spec: TableSpec, request: ReplayRequest, folder: Path, cluster: SparkCluster | None
) -> ReplayResult:
    from frazil.adapters.registry import open_registry  # noqa: PLC0415
    from frazil.adapters.spark.runner import SparkRunner  # noqa: PLC0415
    from frazil.cli.clients import open_clients, table_runs  # noqa: PLC0415
    from frazil.materialize.run import TableRun  # noqa: PLC0415
    from frazil.specs.select import read_with  # noqa: PLC0415

    # started for a table that follows keys
    runner = SparkRunner(log_file=folder / ".frazil" / "spark.log", cluster=cluster)
    clients = open_clients(settings, runner, on_receipt=_say)
    with closing(open_registry(settings.registry)) as registry, ExitStack() as at_end:
        at_end.callback(runner.stop)
        run: TableRun
        (run,) = table_runs(replace(clients, registry=registry), read_with(settings, spec))
        return run.replay(request)


def _say(receipt: Receipt) -> None:
    """Print what became visible at once: if a later snapshot fails, this one stays."""
    from frazil.model.spelling import plural  # noqa: PLC0415

    said = f"{receipt.table}: {plural(receipt.replayed, 'dead letter')} replayed in snapshot {receipt.snapshot_id}"
    print(said, file=sys.stderr, flush=True)


def _print(spec: TableSpec, result: ReplayResult, *, as_json: bool) -> None:
    from frazil.model.errors import ReplayError  # noqa: PLC0415

    if as_json:
        value: dict[str, Any] = {"table": spec.identifier, **asdict(result)}
        print(json.dumps(value, indent=2))
    else:
        _print_text(spec, result)
    if result.error is not None:
        raise ReplayError(f"{spec.identifier}: the driver could not replay: {result.error}", hint=result.hint)


def _print_text(spec: TableSpec, result: ReplayResult) -> None:
    from frazil.cli.config_name import with_config_name  # noqa: PLC0415
    from frazil.dead_letters import why_deleted  # noqa: PLC0415
    from frazil.materialize.replay.advice import advice  # noqa: PLC0415
    from frazil.materialize.replay.request import replayed_text, stayed_text  # noqa: PLC0415

    if result.error is not None and not result.replayed:
        return
    if not result.replayed and not result.stayed:
        what = f"{spec.pipeline.name} has no such dead letter: nothing was replayed{why_deleted(spec)}"
        there = with_config_name(f"hint: `frazil dead-letters list {spec.table}` shows those that there are")
        print(f"{what}\n\n{there}", file=sys.stderr)
        return
    lines = [f"{spec.pipeline.name}: {replayed_text(result)}"]
    lines += [f"  {count:,} of {table}" for table, count in sorted(result.tables.items()) if spec.group is not None]
    lines += [f"  in snapshot {snapshot}" for snapshot in result.snapshots]
    if result.stayed:
        lines.append(f"  {stayed_text(result)}")
        lines += [f"    {reason}: {example}" for reason, example in sorted(result.examples.items())]
    todo = advice(result, spec.identifier)
    lines += [f"  hint: {with_config_name(todo)}"] if todo else []
    print_lines(lines, sys.stdout)
