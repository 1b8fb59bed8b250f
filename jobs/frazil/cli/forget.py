"""`frazil forget`: find every trace of a value in a table's files, and erase it (docs/decisions/0061, 0064)."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import DEFAULT_CONFIG, Config, Json, example, settings_from
from frazil.cli.screen import print_lines
from frazil.model.errors import Misuse
from frazil.model.spelling import plural
from frazil.model.traces import LETTER

if TYPE_CHECKING:
    from frazil.forget.perform import Erased, Erasure
    from frazil.model.snapshot import TableView
    from frazil.model.spec import TableSpec
    from frazil.model.traces import SoughtValue, Traces

OUT_OF_REACH = (
    "Kafka, and topics that the table is sent to",
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
Confirm = Annotated[bool, typer.Option("--confirm", help="Erase what is found. Without it, nothing is changed.")]
DropPins = Annotated[
    bool, typer.Option("--drop-pins", help="With --confirm: drop branches, tags and pins of exports that keep traces.")
]
AllLetters = Annotated[
    bool,
    typer.Option(
        "--all-letters",
        help="With --confirm: erase dead letters with the text in a longer word too, such as 17 in 2017.",
    ),
]
By = Annotated[str | None, typer.Option("--by", help="With --confirm: who does this. Default: the current user.")]


def register(app: typer.Typer) -> None:
    examples = (
        "frazil forget customers --key 17",
        "frazil forget stock_trades --where symbol=ACME",
        "frazil forget stock_trades --where symbol=ACME --confirm",
    )
    app.command("forget", epilog=example(*examples))(forget)


def forget(  # noqa: PLR0913, PLR0917 - one for each option
    table: Table,
    key: Key = None,
    where: Where = None,
    confirm: Confirm = False,
    drop_pins: DropPins = False,
    all_letters: AllLetters = False,
    by: By = None,
    as_json: Json = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Find each trace of a key or a value in a table; erase it.

    Each file in the folders of the table and of its dead letters is decoded, also if no snapshot has it: rows, deleted
    ones too, bounds and partition values in manifests and in the Delta log, and the payloads of dead letters. With
    --confirm, rows and dead letters with the value are taken out of their files, the snapshots that have them expire at
    once, and their files are deleted. The table is paused meanwhile. The search at the end proves that nothing is left,
    and the exit status is 1 if something is: run it again then. Tables that this release cannot erase from are refused.
    """
    from frazil.adapters.iceberg.earlier_versions import EarlierVersions  # noqa: PLC0415
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.adapters.iceberg.sought_value import sought_in  # noqa: PLC0415
    from frazil.adapters.iceberg.traces import TraceSearch  # noqa: PLC0415
    from frazil.materialize.maintenance.own_tables import own_dead_letters, own_rows  # noqa: PLC0415
    from frazil.specs.select import select_own_table  # noqa: PLC0415

    _check_options(key, where, confirm=confirm, of_confirm={"--drop-pins": drop_pins, "--all-letters": all_letters})
    settings = settings_from(config)
    lake, spec = IcebergLake(settings.catalog), select_own_table(settings, table)
    rows, dead = own_rows(lake, spec), own_dead_letters(lake, spec)
    column, text = _column_and_text(spec, rows, key, where)
    sought = sought_in(rows, column, text)
    if confirm:
        from frazil.cli.clients import new_id  # noqa: PLC0415
        from frazil.forget.perform import Erasure  # noqa: PLC0415

        who = by or getpass.getuser()
        _erase(Erasure(lake, spec, sought, who, lambda: datetime.now(UTC), new_id, drop_pins, all_letters), as_json)
        return
    earlier = EarlierVersions(lake.storage)
    found = [TraceSearch(sought).find_everywhere(rows, earlier)]
    if dead is not None:
        found.append(TraceSearch(sought, letters=True).find_everywhere(dead, earlier))
    cannot = (*sought.unsearched, *_unseen(spec), *OUT_OF_REACH)
    if as_json:
        print(json.dumps({"tables": [asdict(each) for each in found], "not_searched": cannot}, indent=2))
    else:
        print_lines((*_lines(sought, found, cannot), "nothing was changed"), sys.stdout)


def _erase(erasure: Erasure, as_json: bool) -> None:
    from frazil.model.errors import ErasureError  # noqa: PLC0415

    spec, sought, done = erasure.spec, erasure.sought, erasure.perform()
    cannot = (*sought.unsearched, *_unseen(spec), *OUT_OF_REACH)
    if as_json:
        print(json.dumps({**asdict(done), "is_complete": done.is_complete, "not_searched": cannot}, indent=2))
    else:
        print_lines((*_outcome(spec, done), *_lines(sought, done.left, cannot)), sys.stdout)
    if not done.is_complete:
        raise ErasureError(
            f"{spec.identifier}: something is left of {sought.column} = {sought.text}; the rows are erased",
            hint=_what_to_do(sought, done),
        )


def _what_to_do(sought: SoughtValue, done: Erased) -> str:
    """Return what to do about the traces that are left."""
    if done.elsewhere:
        return "delete the files outside the table's folder yourself, if no other table has them; then run this again"
    left = [trace for table in done.left for trace in table.found]
    if any(not trace.kept_by for trace in left):
        return (
            "files that no snapshot keeps may be of a batch that runs, or died: `frazil maintain --orphans --delete`"
            " deletes them once they are 3 days old; then run this again"
        )
    if any(trace.kind == LETTER for trace in left):
        return (
            "dead letters with the text in a longer word may be another person's: `frazil dead-letters` shows them, and"
            " --all-letters erases them"
        )
    if sought.renamed:
        return (
            f"rows with the value in {' or '.join(sought.renamed)}, which had the name {sought.column} before, stay: if"
            f" they are the same person's, erase them with `--where {sought.renamed[0]}={sought.text}`"
        )
    return "run it again: another process has committed, or set a branch or tag, meanwhile"


def _outcome(spec: TableSpec, done: Erased) -> Iterator[str]:
    erased = f"{plural(done.rows, 'row')} and {plural(done.dead_letters, 'dead letter')} erased"
    expired = f"{plural(done.snapshots, 'snapshot')} expired, {plural(done.files, 'file')} deleted"
    expired += f" with {plural(done.versions, 'earlier version')} of files" if done.versions else ""
    yield f"{spec.identifier}: {erased}; {expired}"
    if done.no_hash:
        yield f"  a rebuild brings back what Kafka still has: the table keeps no hash of the value, as {done.no_hash}"
    else:
        yield "  a rebuild skips what Kafka still has, by a keyed hash of the value; records from now on become rows"
    yield from (f"  dropped: {name}" for name in done.pins)
    yield from (f"  not deleted: {problem}" for problem in done.problems)
    yield from (f"  not deleted, as it is outside the table's folder: {address}" for address in done.elsewhere)


def _check_options(key: str | None, where: str | None, *, confirm: bool, of_confirm: Mapping[str, bool]) -> None:
    if (key is None) == (where is None):
        raise Misuse("expected one of --key and --where", hint="see `frazil forget --help`")
    given = [name for name, value in of_confirm.items() if value]
    if given and not confirm:
        raise Misuse(f"{given[0]} is for --confirm", hint="without --confirm, nothing is changed")


def _column_and_text(spec: TableSpec, view: TableView, key: str | None, where: str | None) -> tuple[str, str]:
    from frazil.materialize.changed_spec.applied_spec import as_applied  # noqa: PLC0415

    if key is not None:
        column, text = f"{as_applied(spec, view.properties).metadata.prefix}key", key
    else:
        column, equals, text = (where or "").partition("=")
        if not column or not equals:
            raise Misuse(f"--where: expected COLUMN=VALUE, found {where}", hint="such as `--where customer_id=17`")
    if not any(map(str.isalnum, text)):  # each dead letter's payload would hold it
        raise Misuse(
            f'{"--key" if key is not None else "--where"}: "{text}" has no letter and no digit',
            hint="if the shell put the value in, look at what its variable holds",
        )
    return column, text


def _unseen(spec: TableSpec) -> Iterator[str]:
    if spec.policies:
        yield "the payloads of dead letters, if they are encrypted, and columns that hold a hash of the value"
    if spec.ledger is not None:
        yield "the dead letters, which are those of the first table of the group: search that one"


def _lines(sought: SoughtValue, found: Sequence[Traces], cannot: Sequence[str]) -> Iterator[str]:
    for each in found:
        looked = ", ".join(f"{kind}: {count:,}" for kind, count in each.looked_through.items()) or "no files"
        verb = "traces" if each.found else "no trace"
        yield f"{each.table}: {verb} of {sought.column} = {sought.text}; looked through {looked}"
        yield from (f"  {trace}" for trace in each.found)
        yield from (f"  not decoded: {address}" for address in each.not_decoded)
    if sought.renamed:
        yield f"searched, too: {', '.join(sought.renamed)}, which had the name {sought.column} before"
    yield "not searched:"
    yield from (f"  earlier versions: {each}" for each in dict.fromkeys(each.unlisted for each in found) if each)
    yield from (f"  {each}" for each in cannot)
