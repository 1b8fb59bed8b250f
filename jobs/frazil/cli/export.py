"""`frazil export`: rows of a table as files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import DEFAULT_CONFIG, Config, Json, example, settings_from
from frazil.cli.screen import print_lines
from frazil.model.errors import Misuse
from frazil.model.spelling import plural

if TYPE_CHECKING:
    from datetime import datetime

    from frazil.exports.manifest import Manifest
    from frazil.exports.perform import Exported, Watch
    from frazil.model.exports import ExportSpec, Period
    from frazil.model.settings import Settings

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of an export: that of its file, without .yaml.")]
From = Annotated[str | None, typer.Option("--from", metavar="TIME", help="The first day or time of the window.")]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="The end of the window, which is not in it.")]


def register(app: typer.Typer) -> None:
    app.command(
        "export",
        epilog=example(
            "frazil export stock_trades_weekly  # the last whole week",
            "frazil export stock_trades_weekly --from 2026-01-05 --to 2026-01-12",
            "frazil export stock_trades_weekly --json",
        ),
    )(export)


def export(
    name: Name, start: From = None, end: To = None, as_json: Json = False, config: Config = DEFAULT_CONFIG
) -> None:
    """Export rows of a table to CSV or Parquet files.

    A manifest names the files, with their checksums. Without --from and --to, the last whole day, week or month is
    exported, as the spec says. A window that is finished is not written again: its files are named, and rows that came
    late since are written as a correction.
    """
    settings = settings_from(config)
    done = _run(settings, _named(settings, name), start, end)
    if as_json:
        print(json.dumps([each.to_json() for each in done.finished], indent=2))
        return
    print_lines(lines(done), sys.stdout)


def _run(settings: Settings, spec: ExportSpec, start: str | None, end: str | None) -> Exported:
    from datetime import UTC, datetime  # noqa: PLC0415 - as all that follows, not needed for `--help`

    from frazil.adapters.allocators import give_back_freed_memory  # noqa: PLC0415
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.adapters.storage.export_folder import ExportFolder  # noqa: PLC0415
    from frazil.exports.perform import Export  # noqa: PLC0415

    give_back_freed_memory()
    lake = IcebergLake(settings.catalog)
    period = _period(spec, start, end, datetime.now(UTC))
    with _watched(spec.name) as watch:
        export = Export(
            spec,
            lake,
            open_folder=lambda address: ExportFolder(lake.storage, address),
            now=lambda: datetime.now(UTC),
            watch=watch,
        )
        return export.run(period)


def _named(settings: Settings, name: str) -> ExportSpec:
    from frazil.specs.problems import suggest  # noqa: PLC0415

    found = next((each for each in settings.exports if each.name == name), None)
    if found is None:
        hint = suggest(name, [each.name for each in settings.exports]) if settings.exports else "see docs/exports.md"
        raise Misuse(f"no export {name} in the specs of {settings.source_file}", hint=hint)
    return found


def _period(spec: ExportSpec, start: str | None, end: str | None, now: datetime) -> Period | None:
    from frazil.exports.periods import last_period, period_between  # noqa: PLC0415

    if (start is None) != (end is None):
        raise Misuse("--from and --to are given together", hint="give both, or none for the last whole window")
    if spec.window is None:
        if start is not None:
            raise Misuse(f"{spec.name} is incremental: it has no window", hint="leave out --from and --to")
        return None
    return last_period(spec.window, now) if start is None or end is None else period_between(spec.window, start, end)


def lines(done: Exported) -> Iterator[str]:
    """Yield the editions of an export as text: a line for each, with its files below."""
    if done.overtaken:
        yield "another run has finished this meanwhile"
    elif done.written is None:
        yield "nothing new: this is finished" if done.finished else "no rows yet"
    for manifest in done.finished:
        yield _headline(manifest)
        for part in manifest.parts:
            yield f"  {done.address}/{part.name}  {plural(part.rows, 'row')}, {part.bytes:,} bytes"
        yield from (f"  {note}" for note in _notes(manifest))


def _headline(manifest: Manifest) -> str:
    edition = f", edition {manifest.number}" if manifest.number else ""
    what = manifest.contents
    files = plural(len(manifest.parts), "file")
    return (
        f"{manifest.export} {manifest.label}{edition}: {plural(manifest.rows, 'row')} ({what}) in {files},"
        f" snapshot {manifest.snapshot_id}"
    )


def _notes(manifest: Manifest) -> Iterator[str]:
    from frazil.cli.text import moment  # noqa: PLC0415

    guarded = sum(part.guarded for part in manifest.parts)
    if guarded:
        yield f"{plural(guarded, 'cell')} with an apostrophe before what looks like a formula"
    through, period = manifest.complete_through, manifest.period
    if period is None or manifest.positions is None or (through is not None and through >= period.end):
        return
    reached = "the table had not caught up" if through is None else f"the table was complete through {moment(through)}"
    yield f"{reached}: run this again later for rows that come late"


@contextmanager
def _watched(name: str) -> Iterator[Watch]:
    """Show a progress bar on stderr if it is a terminal."""
    from frazil.exports.perform import unwatched  # noqa: PLC0415

    if not sys.stderr.isatty():
        yield unwatched
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(f"{name}: files of the table", total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
