"""`frazil forget`: find every trace of a value in a table's files. Nothing is removed yet (docs/decisions/0061)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import DEFAULT_CONFIG, Config, Json, example, settings_from
from frazil.cli.screen import print_lines
from frazil.model.errors import Misuse

if TYPE_CHECKING:
    from frazil.model.snapshot import TableView
    from frazil.model.spec import TableSpec
    from frazil.model.traces import SoughtValue, Traces

OUT_OF_REACH = (
    "Kafka, and topics that the table is sent to",
    "earlier versions of objects, in a bucket that keeps them",
    "copies in Snowflake, with its Time Travel and Fail-safe",
    "files that were exported, sent or downloaded",
)

Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table as `table` or `database.table`.")]
Key = Annotated[
    str | None, typer.Option("--key", metavar="TEXT", help="The key of the records, in the column of their key.")
]
Where = Annotated[
    str | None,
    typer.Option("--where", metavar="COLUMN=VALUE", help="A value of any column, such as `customer.id=17`."),
]
Confirm = Annotated[bool, typer.Option("--confirm", help="Refused: this release only finds what is to be removed.")]


def register(app: typer.Typer) -> None:
    examples = ("frazil forget customers --key 17", "frazil forget stock_trades --where symbol=ACME")
    app.command("forget", epilog=example(*examples))(forget)


def forget(
    table: Table,
    key: Key = None,
    where: Where = None,
    confirm: Confirm = False,
    as_json: Json = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Find every trace of a key or a value in a table's files. Nothing is removed.

    Each file in the folders of the table and of its dead letters is decoded, also if no snapshot has it: rows, deleted
    ones too, bounds and partition values in manifests and in the Delta log, and the payloads of dead letters. To remove
    them, see docs/erasure.md; run this again afterwards to prove that none is left.
    """
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.adapters.iceberg.sought_value import sought_in  # noqa: PLC0415
    from frazil.adapters.iceberg.traces import TraceSearch  # noqa: PLC0415
    from frazil.materialize.maintenance.own_tables import own_dead_letters, own_rows  # noqa: PLC0415
    from frazil.specs.select import select_table  # noqa: PLC0415

    _check_options(key, where, confirm=confirm)
    settings = settings_from(config)
    lake, spec = IcebergLake(settings.catalog), select_table(settings, table)
    rows, dead = own_rows(lake, spec), own_dead_letters(lake, spec)
    column, text = _column_and_text(spec, rows, key, where)
    sought = sought_in(rows, column, text)
    found = [TraceSearch(sought).find(rows)]
    if dead is not None:
        found.append(TraceSearch(sought, letters=True).find(dead))
    cannot = (*_unseen(spec), *OUT_OF_REACH)
    if as_json:
        print(json.dumps({"tables": [asdict(each) for each in found], "not_searched": cannot}, indent=2))
    else:
        print_lines(_lines(sought, found, cannot), sys.stdout)


def _check_options(key: str | None, where: str | None, *, confirm: bool) -> None:
    if (key is None) == (where is None):
        raise Misuse("expected one of --key and --where", hint="see `frazil forget --help`")
    if confirm:
        raise Misuse(
            "--confirm is refused: this release finds what is to be removed, and removes nothing",
            hint="docs/erasure.md says how to remove it with Spark or Athena; then run this command without --confirm",
        )


def _column_and_text(spec: TableSpec, view: TableView, key: str | None, where: str | None) -> tuple[str, str]:
    from frazil.materialize.changed_spec.applied_spec import as_applied  # noqa: PLC0415

    if key is not None:
        return f"{as_applied(spec, view.properties).metadata.prefix}key", key
    column, equals, text = (where or "").partition("=")
    if not column or not equals:
        raise Misuse(f"--where: expected COLUMN=VALUE, found {where}", hint="such as `--where customer_id=17`")
    return column, text


def _unseen(spec: TableSpec) -> Iterator[str]:
    if spec.policies:
        yield "the payloads of dead letters, if they are encrypted, and columns that hold a hash of the value"
    if spec.ledger is not None:
        yield "the dead letters, which are those of the first table of the group: search that one"


def _lines(sought: SoughtValue, found: Sequence[Traces], cannot: Sequence[str]) -> Iterator[str]:
    for each in found:
        looked = ", ".join(f"{count:,} {kind}" for kind, count in each.looked_through.items()) or "no files"
        verb = "traces" if each.found else "no trace"
        yield f"{each.table}: {verb} of {sought.column} = {sought.text}; looked through {looked}"
        yield from (f"  {trace}" for trace in each.found)
        yield from (f"  not decoded: {address}" for address in each.not_decoded)
    yield "not searched:"
    yield from (f"  {each}" for each in cannot)
    yield "nothing was changed"
