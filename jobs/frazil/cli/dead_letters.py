"""`frazil dead-letters`: records that could not become rows, and why."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import DEFAULT_CONFIG, Config, Json, example, settings_from
from frazil.cli.screen import print_lines

if TYPE_CHECKING:
    from frazil.dead_letters import DeadLetter, DeadLetterList

Table = Annotated[str, typer.Argument(metavar="TABLE", help="A table as `table` or `database.table`.")]
Limit = Annotated[int, typer.Option("--limit", min=0, help="How many dead letters to show, newest first.")]

Pending = Annotated[bool, typer.Option("--pending", help="Show dead letters of a batch that was not published.")]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="List records that could not become rows.")
    listing = example(
        "frazil dead-letters list stock_trades", "frazil dead-letters list stock_trades --pending --limit 5"
    )
    verbs.command("list", epilog=listing)(list_newest)
    app.add_typer(verbs, name="dead-letters", epilog=example("frazil dead-letters list stock_trades"))


def list_newest(
    table: Table, limit: Limit = 20, pending: Pending = False, as_json: Json = False, config: Config = DEFAULT_CONFIG
) -> None:
    """List the dead letters of a table, newest first.

    The counts by reason come first; each dead letter has its reason, place and bytes. With --pending, list those of the
    batch that paused the table because too many of its records were bad.
    """
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.dead_letters import list_dead_letters  # noqa: PLC0415
    from frazil.specs.select import select_tables  # noqa: PLC0415

    settings = settings_from(config)
    (spec,) = select_tables(settings, (table,))
    found = list_dead_letters(IcebergLake(settings.catalog), spec, limit=limit, pending=pending)
    if as_json:
        newest = [letter.to_json() for letter in found.newest]
        print(json.dumps({"total": found.total, "by_reason": found.by_reason, "newest": newest}, indent=2))
        return
    if not found.total:
        print(f"{found.table} has no {'pending ' * pending}dead letters", file=sys.stderr)
        return
    print_lines(_lines(found), sys.stdout)


def _lines(found: DeadLetterList) -> Iterator[str]:
    from frazil.cli.text import aligned  # noqa: PLC0415

    counts = [(f"{count:,}", reason) for reason, count in found.by_reason.items()]
    yield from aligned(("dead letters", "reason"), counts, numeric=(True,))
    yield f"\nthe newest {len(found.newest)} of {found.total:,}:"
    for letter in found.newest:
        yield ""
        yield from _letter(letter)


def _letter(letter: DeadLetter) -> Iterator[str]:
    from frazil.cli.text import moment  # noqa: PLC0415
    from frazil.dead_letters import preview  # noqa: PLC0415

    where = f" at {letter.path}" if letter.path else ""
    written = "no timestamp" if letter.timestamp is None else f"written {moment(letter.timestamp)}"
    schema = "names no schema" if letter.schema_id is None else f"schema {letter.schema_id}"
    yield f"{letter.record}  {letter.reason}{where}: {letter.detail}"
    yield f"  {schema}, {written}, read {moment(letter.read_at)} in batch {letter.batch_id}"
    yield f"  key {preview(letter.key)}, value {preview(letter.value)}"
