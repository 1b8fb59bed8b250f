"""`frazil dead-letters`: records that could not become rows, and why."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frazil.cli.dead_letter_choice import reason_named
from frazil.cli.dead_letter_replay import replay
from frazil.cli.options import DEFAULT_CONFIG, Config, Json, example, schema_id_from, settings_from
from frazil.cli.screen import print_lines
from frazil.model.dead_letter import told_of_replayed
from frazil.model.spelling import plural

if TYPE_CHECKING:
    from frazil.dead_letters import Chosen, DeadLetter, DeadLetterList
    from frazil.model.settings import Settings
    from frazil.model.spec import TableSpec
    from frazil.peek import PeekedRecord, Peeker

Table = Annotated[str, typer.Argument(metavar="TABLE", help="A table as `table` or `database.table`.")]
Record = Annotated[str, typer.Argument(metavar="RECORD", help="A record as `topic-partition@offset`.")]
Limit = Annotated[int, typer.Option("--limit", min=0, help="How many dead letters to show, newest first.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="REASON", help="Only those with this reason.")]
SchemaId = Annotated[
    str | None, typer.Option("--schema-id", metavar="ID", help="Only those with this schema: a number or a UUID.")
]
Pending = Annotated[bool, typer.Option("--pending", help="Show dead letters of a batch that was not published.")]

OF_FORMER_TABLE = "of another table that had this name before: not counted, and no replay changes them"

SHOWN_OF_ONE_RECORD = 100
BYTES_A_LINE = 16
MOST_LINES = 64
"""Lines of the hexadecimal dump; `--json` has all bytes."""


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="List, show and replay records that could not become rows.")
    listing = example(
        "frazil dead-letters list stock_trades",
        "frazil dead-letters list stock_trades --reason truncated --schema-id 7",
        "frazil dead-letters list stock_trades --pending --limit 5",
    )
    showing = example("frazil dead-letters show stock_trades stock_trades-0@1234")
    verbs.command("list", epilog=listing)(list_newest)
    replaying = example(
        "frazil dead-letters replay stock_trades --schema-id 7",
        "frazil dead-letters replay stock_trades --reason unknown_schema_id --wait 0",
        "frazil dead-letters replay stock_trades --record stock_trades-0@1234",
    )
    verbs.command("show", epilog=showing)(show)
    verbs.command("replay", epilog=replaying)(replay)
    app.add_typer(verbs, name="dead-letters", epilog=example("frazil dead-letters list stock_trades"))


def list_newest(
    table: Table,
    limit: Limit = 20,
    reason: Reason = None,
    schema_id: SchemaId = None,
    pending: Pending = False,
    as_json: Json = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """List the dead letters of a table, newest first.

    First comes how many there are of each reason and schema, with the newest record of each; then the newest of all,
    each with its reason, place and bytes. With --pending, list those of the batch that paused the table because too
    many of its records were bad.
    """
    from frazil.dead_letters import Chosen  # noqa: PLC0415

    settings = settings_from(config)
    chosen = Chosen(reason_named(reason), None if schema_id is None else schema_id_from(schema_id))
    found = _found(settings, _spec(settings, table), limit, chosen, pending=pending)
    if as_json:
        newest = [letter.to_json() for letter in found.newest]
        groups = [asdict(group) for group in found.groups]
        totals = {"total": found.total, "replayed": found.replayed, "former": found.former}
        value = {**totals, "by_reason": found.by_reason, "groups": groups, "newest": newest}
        print(json.dumps(value, indent=2))
        return
    if not found.total:
        none = f"{found.table} has no {'pending ' * pending}dead letters{_with(reason, schema_id)}"
        print("; ".join([none, *_others(found)]), file=sys.stderr)
        return
    print_lines(_lines(found), sys.stdout)


def show(
    table: Table, record: Record, pending: Pending = False, as_json: Json = False, config: Config = DEFAULT_CONFIG
) -> None:
    """Show one dead letter in full, decoded if it can be.

    It is shown with the reason, its headers, its value as the registry's schema decodes it now, and its bytes. A
    topic that was deleted and made again can have several records with one offset; all of them are shown.
    """
    from frazil.dead_letters import Chosen, decrypted_letter, record_named, why_deleted  # noqa: PLC0415
    from frazil.model.errors import Misuse  # noqa: PLC0415

    settings = settings_from(config)
    spec = _spec(settings, table)
    chosen = Chosen(record=record_named(record))
    found = _found(settings, spec, SHOWN_OF_ONE_RECORD, chosen, pending=pending, replayed=True)
    if not found.newest:
        raise Misuse(
            f"{found.table} has no {'pending ' * pending}dead letter of the record {record}",
            hint=f"`frazil dead-letters list {table}` shows those that it has{why_deleted(spec)}",
        )
    found = replace(found, newest=tuple(decrypted_letter(each, spec.dead_letter_key) for each in found.newest))
    decoded = _decoded(settings, spec, found.newest)
    if as_json:
        print(json.dumps([_to_json(*each) for each in zip(found.newest, decoded, strict=True)], indent=2))
        return
    print_lines(_shown(found, decoded), sys.stdout)


def _spec(settings: Settings, table: str) -> TableSpec:
    from frazil.specs.select import select_ledger  # noqa: PLC0415

    return select_ledger(settings, table)


def _found(
    settings: Settings, spec: TableSpec, limit: int, chosen: Chosen, *, pending: bool, replayed: bool = False
) -> DeadLetterList:
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.dead_letters import list_dead_letters  # noqa: PLC0415

    lake = IcebergLake(settings.catalog)
    return list_dead_letters(lake, spec, limit=limit, chosen=chosen, pending=pending, replayed=replayed)


def _with(reason: str | None, schema_id: str | None) -> str:
    said = [f"the reason {reason}"] if reason is not None else []
    said += [f"the schema {schema_id}"] if schema_id is not None else []
    return f" with {' and '.join(said)}" if said else ""


def _lines(found: DeadLetterList) -> Iterator[str]:
    from frazil.cli.text import aligned  # noqa: PLC0415

    columns = ("dead letters", "reason", "schema", "newest")
    counts = [
        (f"{group.count:,}", group.reason, _schema(group.schema_uuid or group.schema_id), group.newest)
        for group in found.groups
    ]
    yield from aligned(columns, counts, numeric=(True, False, True))
    yield from _others(found, more="more ")
    if found.newest:
        yield f"\nthe newest {len(found.newest)} of {found.total:,}:"
    for letter in found.newest:
        yield ""
        yield from _letter(letter, found)


def _others(found: DeadLetterList, *, more: str = "") -> Iterator[str]:
    """Yield what is said of dead letters that are not listed."""
    if found.replayed:
        yield told_of_replayed(found.replayed, all_are_rows=not found.follows_keys, more=more)
    if found.former:
        yield plural(found.former, f"{more}is", f"{more}are") + f" {OF_FORMER_TABLE}"


def _schema(schema_id: int | str | None) -> str:
    return "none" if schema_id is None else str(schema_id)


def _letter(letter: DeadLetter, found: DeadLetterList) -> Iterator[str]:
    from frazil.dead_letters import preview  # noqa: PLC0415

    yield from _head(letter, found)
    if letter.encrypted_with is None:
        yield f"  key {preview(letter.key)}, value {preview(letter.value)}"


def _head(letter: DeadLetter, found: DeadLetterList) -> Iterator[str]:
    from frazil.cli.text import moment  # noqa: PLC0415
    from frazil.model.dead_letter import described  # noqa: PLC0415

    written = "no timestamp" if letter.timestamp is None else f"written {moment(letter.timestamp)}"
    named = letter.schema_uuid or letter.schema_id
    schema = "names no schema" if named is None else f"schema {named}"
    sealed = letter.encrypted_with
    detail = (
        letter.detail if sealed is None else f"encrypted with the key {sealed}; `frazil dead-letters show` needs it"
    )
    yield f"{letter.record}  {described(letter.reason, detail, letter.path)}"
    yield f"  {schema}, {written}, read {moment(letter.read_at)} in batch {letter.batch_id}"
    if letter.of_former_table:
        yield f"  {OF_FORMER_TABLE}"
    if letter.replayed is not None:
        snapshot = f"snapshot {letter.replayed.snapshot_id}, batch {letter.replayed.batch_id}"
        became = " in" if found.follows_keys else ": it is a row since"
        yield f"  replayed {moment(letter.replayed.at)}{became} {snapshot}"


def _decoded(settings: Settings, spec: TableSpec, letters: tuple[DeadLetter, ...]) -> list[PeekedRecord | str]:
    """Return each record as its table would decode it now, or why that is not possible."""
    from frazil.adapters.registry import open_registry  # noqa: PLC0415
    from frazil.model.policed import policed_by_all  # noqa: PLC0415
    from frazil.peek import Peeker  # noqa: PLC0415
    from frazil.specs.select import read_with  # noqa: PLC0415

    spec = policed_by_all(read_with(settings, spec))
    with closing(open_registry(settings.registry)) as registry:
        given = None if settings.registry is None else registry
        peeker = Peeker.of(given, spec)
        return [_peeked(peeker, letter) for letter in letters]


def _peeked(peeker: Peeker, letter: DeadLetter) -> PeekedRecord | str:
    from frazil.model.errors import IncompatibleSchemaError, ServiceError  # noqa: PLC0415
    from frazil.peek import RawRecord  # noqa: PLC0415
    from frazil.records import Headers  # noqa: PLC0415

    raw = RawRecord(letter.topic, letter.partition, letter.offset, letter.timestamp, letter.key, letter.value)
    raw = replace(raw, headers=Headers.of([letter.headers]))
    try:
        peeked = peeker.decode(raw)
    except (IncompatibleSchemaError, ServiceError) as problem:
        return problem.what
    if peeked.reject is None:
        return peeked
    return str(peeked.reject)


def _shown(found: DeadLetterList, decoded: list[PeekedRecord | str]) -> Iterator[str]:
    from frazil.dead_letters import preview  # noqa: PLC0415

    for number, (letter, now) in enumerate(zip(found.newest, decoded, strict=True)):
        yield from [""] if number else []
        yield from _head(letter, found)
        for name, content in letter.headers:
            yield f"  header {name}: {preview(content)}"
        yield from _now(letter, now)
        yield from _dump("key", letter.key)
        yield from _dump("value", letter.value)


def _now(letter: DeadLetter, now: PeekedRecord | str) -> Iterator[str]:
    from frazil.cli.text import shown  # noqa: PLC0415

    if isinstance(now, str):
        yield f"  cannot be decoded now: {now}"
    elif letter.value is not None:
        yield "  decoded now:"
        yield from (f"    {name}  {shown(value)}" for name, value in now.columns.items())


def _dump(name: str, content: bytes | None) -> Iterator[str]:
    """Yield the bytes in hexadecimal digits and as text, 16 a line, each line after the place of its first byte."""

    if content is None:
        yield f"  {name}: null"
        return
    yield f"  {name}: {plural(len(content), 'byte')}"
    most = BYTES_A_LINE * MOST_LINES
    for start in range(0, min(len(content), most), BYTES_A_LINE):
        part = content[start : start + BYTES_A_LINE]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        yield f"    {start:08x}  {part.hex(' '):<{3 * BYTES_A_LINE - 1}}  {text}"
    if len(content) > most:
        yield f"    and {plural(len(content) - most, 'more byte')}: --json prints them all"


def _to_json(letter: DeadLetter, now: PeekedRecord | str) -> dict[str, Any]:
    from frazil.cli.text import plain  # noqa: PLC0415

    problem = now if isinstance(now, str) else None
    columns = None if isinstance(now, str) or letter.value is None else plain(dict(now.columns))
    return {**letter.to_json(), "decoded": columns, "problem": problem}
