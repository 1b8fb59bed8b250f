"""`frazil maintain`: compact tables and expire their snapshots."""

from __future__ import annotations

import getpass
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frazil.cli.materialize import SPARK_ENVIRONMENT, SparkMaster, cluster_on
from frazil.cli.options import DEFAULT_CONFIG, Config, Json, Tables, example, settings_from
from frazil.cli.orphans import check_together, list_orphans
from frazil.cli.printed_errors import print_error
from frazil.cli.screen import print_lines
from frazil.model.spelling import plural

if TYPE_CHECKING:
    from frazil.adapters.spark.cluster import SparkCluster
    from frazil.materialize.clients import Clients
    from frazil.materialize.maintenance.request import MaintenanceRequest, MaintenanceResult
    from frazil.model.errors import FrazilError
    from frazil.model.settings import Settings
    from frazil.model.spec import TableSpec
    from frazil.ports import Lake

LOOK_SECONDS = 0.5
LEAST_WAIT_SECONDS = 5.0
"""A driver with a short trigger may be in the middle of a batch."""

FILES_DELETED_WITHIN = 130.0
"""Seconds until the files of expired snapshots are deleted: a little more than the deletion takes at most."""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")]
Compact = Annotated[bool, typer.Option("--compact", help="Rewrite files that make scans slow.")]
Expire = Annotated[bool, typer.Option("--expire", help="Expire snapshots by `maintain.keep_snapshots`.")]
Orphans = Annotated[
    bool, typer.Option("--orphans", help="List files of the tables' folders that nothing needs, and do nothing else.")
]
Delete = Annotated[bool, typer.Option("--delete", help="With --orphans: delete them.")]
OlderThan = Annotated[
    str, typer.Option("--older-than", metavar="TIME", help="With --orphans: only older ones. At least 3d.")
]
For = Annotated[
    str | None, typer.Option("--for", metavar="TIME", help="Begin no further rewrite after this time, such as 10m.")
]
Wait = Annotated[
    str | None,
    typer.Option(
        "--wait",
        metavar="TIME",
        help="How long a running driver has to take it up, before this command does it. Default: two triggers.",
    ),
]


def register(app: typer.Typer) -> None:
    examples = (
        "frazil maintain --dry-run",
        "frazil maintain stock_trades --compact --for 10m",
        "frazil maintain --orphans  # add --delete to delete them",
    )
    app.command("maintain", epilog=example(*examples))(maintain)


def maintain(  # noqa: PLR0913, PLR0917 - one for each option
    tables: Tables = None,
    dry_run: DryRun = False,
    compact: Compact = False,
    expire: Expire = False,
    orphans: Orphans = False,
    delete: Delete = False,
    older_than: OlderThan = "3d",
    budget: For = None,
    wait: Wait = None,
    spark_master: SparkMaster = None,
    as_json: Json = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Compact tables and expire their snapshots.

    Both are done, unless one of the two is chosen. A running driver does it between two of its batches, for half a
    trigger at a time. If none takes it up within --wait, this command does it, with Spark on this machine or with
    --spark-master on a cluster. Nothing here stops a driver. A rewrite copies only rows for which it pays: see the
    benefit and the cost with --dry-run.
    With --orphans, it lists files that nothing needs, such as those of a batch whose process died, and deletes them
    only with --delete. The branches, tags, snapshots, statistics and the Delta log of a table are read after its files
    are listed.
    """
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.specs.select import select_tables  # noqa: PLC0415

    settings = settings_from(config)
    lake = IcebergLake(settings.catalog)
    specs = _existing(lake, select_tables(settings, tables or ()))
    check_together(orphans=orphans, others=compact or expire, delete=delete, dry_run=dry_run)
    if orphans:
        age = _seconds(older_than, "--older-than")
        list_orphans(lake, specs, older_than=timedelta(seconds=age or 0), delete=delete, as_json=as_json)
        return
    cluster = cluster_on(spark_master, os.environ.get(SPARK_ENVIRONMENT))
    both = compact == expire
    asked = _Asked(compact or both, expire or both, _seconds(budget, "--for"), _wait_seconds(wait, specs))
    if dry_run:
        _print_plans(settings, specs, asked, as_json=as_json)
        return
    running = _Running(lake, settings, asked, config.parent, cluster)
    try:
        done, failed = running.maintain_all(specs)
        _print_results(done, failed, as_json=as_json)
    finally:
        running.end()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the command was given. `budget` is in seconds, None for no bound."""

    compact: bool
    expire: bool
    budget: float | None
    wait: float


@dataclass(slots=True)
class _Running:
    """The tables of one command. Each is asked of a running driver first, all at the same time."""

    lake: Lake
    settings: Settings
    asked: _Asked
    folder: Path
    cluster: SparkCluster | None
    began: float = field(default_factory=time.monotonic)
    requests: dict[str, MaintenanceRequest] = field(default_factory=dict)
    _clients: Clients | None = None

    def ask_all(self, specs: Sequence[TableSpec]) -> Sequence[TableSpec]:
        """Leave a request in each table, unless no driver is to do it."""
        from frazil.materialize.maintenance.request import ask  # noqa: PLC0415

        for spec in specs if self.asked.wait else ():
            request = self._new_request()
            ask(self.lake, spec.identifier, request)
            self.requests[spec.identifier] = request
        if self.requests:
            print(f"waiting up to {self.asked.wait:.0f} s for a running driver", file=sys.stderr, flush=True)
        return specs

    def maintain_all(self, specs: Sequence[TableSpec]) -> tuple[dict[str, MaintenanceResult], list[FrazilError]]:
        """Return what was done by table, and the errors of the others: an error of one table leaves out no other."""
        from frazil.model.errors import FrazilError  # noqa: PLC0415

        done, failed = {}, []
        for spec in self.ask_all(specs):
            try:
                done[spec.identifier] = self.maintain(spec)
            except FrazilError as error:
                failed.append(error)
        return done, failed

    def maintain(self, spec: TableSpec) -> MaintenanceResult:
        """Return what a driver did, again as long as it gets on with more to do, or else what this process did."""
        from frazil.materialize.maintenance.request import MaintenanceResult, ask  # noqa: PLC0415

        done, answered = MaintenanceResult(), False
        while (found := self._by_driver(spec, time.monotonic() if answered else self.began)) is not None:
            done, answered = done + found, True
            if not done.more or done.error is not None or not found.files or self._is_over():
                return done  # without files, others commit all the time
            request = self.requests[spec.identifier] = self._new_request()
            ask(self.lake, spec.identifier, request)
        return done + self._alone(spec)

    def end(self) -> None:
        """Withdraw requests that are left, and end what was started."""
        from frazil.materialize.maintenance.request import withdraw  # noqa: PLC0415

        for table, request in self.requests.items():
            withdraw(self.lake, table, request)
        if self._clients is not None:
            self._clients.background.finish(FILES_DELETED_WITHIN)
            self._clients.runner.stop()

    def _new_request(self) -> MaintenanceRequest:
        from frazil.cli.clients import new_id  # noqa: PLC0415
        from frazil.materialize.maintenance.request import new_request  # noqa: PLC0415

        now, do = datetime.now(UTC), self.asked
        return new_request(id=new_id(), by=getpass.getuser(), at=now, compact=do.compact, expire=do.expire)

    def _by_driver(self, spec: TableSpec, began: float) -> MaintenanceResult | None:
        """Return what a driver answers to the request, which is withdrawn however the wait ends; None if none does."""
        from frazil.materialize.maintenance.request import answer_to, withdraw  # noqa: PLC0415

        request = self.requests.get(spec.identifier)
        if request is None:
            return None
        try:
            while True:
                result = answer_to(self.lake, spec.identifier, request)
                if result is not None or time.monotonic() >= began + self.asked.wait:
                    return result
                time.sleep(LOOK_SECONDS)
        finally:
            withdraw(self.lake, spec.identifier, request)
            del self.requests[spec.identifier]

    def _alone(self, spec: TableSpec) -> MaintenanceResult:
        from frazil.cli.clients import new_id  # noqa: PLC0415
        from frazil.materialize.housekeeping import Housekeeping  # noqa: PLC0415
        from frazil.materialize.maintenance.perform import perform  # noqa: PLC0415

        if self._clients is None:
            why = "no driver took it up: " if self.asked.wait else ""
            print(f"{why}doing it here", file=sys.stderr, flush=True)
            self._clients = _own_clients(self.settings, self.folder, self.cluster)
        keeping, left = Housekeeping(spec, new_id()), self._left()
        done = perform(keeping, self._clients, spec.identifier, self._new_request(), seconds=left)
        self._clients.background.finish(FILES_DELETED_WITHIN)  # its threads are for one table and its dead letters
        return done

    def _left(self) -> float:
        """Return the seconds that are left."""
        spent = time.monotonic() - self.began
        return float("inf") if self.asked.budget is None else max(self.asked.budget - spent, 0.0)

    def _is_over(self) -> bool:
        return self._left() <= 0


def _own_clients(settings: Settings, folder: Path, cluster: SparkCluster | None) -> Clients:
    from frazil.adapters.spark.runner import SparkRunner  # noqa: PLC0415
    from frazil.cli.clients import open_clients  # noqa: PLC0415

    runner = SparkRunner(log_file=folder / ".frazil" / "spark.log", cluster=cluster)
    return open_clients(settings, runner, on_receipt=lambda receipt: None)


def _existing(lake: Lake, specs: Sequence[TableSpec]) -> list[TableSpec]:
    """Return the tables that exist, and say which do not."""
    existing = [spec for spec in specs if lake.load(spec.identifier) is not None]
    for spec in specs:
        if spec not in existing:
            print(f"{spec.identifier} does not exist yet: nothing to do", file=sys.stderr)
    return existing


def _wait_seconds(text: str | None, specs: Sequence[TableSpec]) -> float:
    """Return how long to wait for a driver: two of the longest trigger, unless a time is given."""
    longest = max((spec.trigger.every.total_seconds() for spec in specs), default=0.0)
    given = 0.0 if text == "0" else _seconds(text, "--wait")
    return max(2 * longest, LEAST_WAIT_SECONDS) if given is None else given


def _seconds(text: str | None, option: str) -> float | None:
    from frazil.model.errors import SettingError  # noqa: PLC0415
    from frazil.specs.scalars import parse_duration  # noqa: PLC0415
    from frazil.specs.shapes import Unfit  # noqa: PLC0415

    try:
        return None if text is None else parse_duration(text).total_seconds()
    except Unfit as unfit:
        raise SettingError(f'{option}: expected a time, found "{text}"', hint=str(unfit)) from unfit


def _print_plans(settings: Settings, specs: Sequence[TableSpec], asked: _Asked, *, as_json: bool) -> None:
    from frazil.adapters.spark.runner import SparkRunner  # noqa: PLC0415
    from frazil.cli.clients import open_clients  # noqa: PLC0415
    from frazil.materialize.maintenance.preview import preview  # noqa: PLC0415

    runner = SparkRunner(log_file=Path(os.devnull))  # never started
    clients = open_clients(settings, runner, on_receipt=lambda receipt: None)
    plans = [preview(clients, spec, compact=asked.compact, expire=asked.expire) for spec in specs]
    if as_json:
        print(json.dumps([asdict(plan) for plan in plans], indent=2))
    else:
        print_lines((line for plan in plans for line in plan.lines()), sys.stdout)


def _print_results(results: dict[str, MaintenanceResult], failed: Sequence[FrazilError], *, as_json: bool) -> None:
    """Print what was done. Raises the errors: those of this process, and those that a driver answered."""
    from frazil.model.errors import MaintenanceError  # noqa: PLC0415

    if as_json:
        values: list[dict[str, Any]] = [{"table": table, **asdict(result)} for table, result in results.items()]
        print(json.dumps(values, indent=2))
    else:
        print_lines((line for table, result in results.items() for line in _lines(table, result)), sys.stdout)
    answered = [
        MaintenanceError(f"{table}: the driver could not finish: {result.error}", hint=result.hint)
        for table, result in results.items()
        if result.error is not None
    ]
    errors: list[FrazilError] = [*answered, *failed]
    for error in errors[:-1]:
        print_error(error)
    if errors:
        raise errors[-1]


def _lines(table: str, result: MaintenanceResult) -> Iterator[str]:
    from frazil.materialize.rewrite_files import benefit  # noqa: PLC0415

    if not result.files and not result.expired_snapshots:
        yield f"{table}: {'batches came in between: run it again' if result.more else 'nothing to do'}"
        return
    yield f"{table}:"
    if result.files:
        yield f"  {plural(result.files, 'file')} became {result.into:,} in {result.seconds:.1f} s"
        yield f"  {benefit(result.copied_rows, result.saved_rows)}"
    if result.more:
        yield "  more files are left: run it again"
    if result.expired_snapshots:
        yield f"  {plural(result.expired_snapshots, 'snapshot')} expired"
