"""`frazil pause` and `frazil resume`."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.config_name import with_config_name
from frazil.cli.options import DEFAULT_CONFIG, Config, example, schema_id_from, settings_from
from frazil.cli.screen import print_lines
from frazil.model.errors import ServiceError

if TYPE_CHECKING:
    from frazil.model.schemas import SchemaId
    from frazil.model.settings import Settings
    from frazil.model.spec import TableSpec
    from frazil.ports import Lake

Table = Annotated[str, typer.Argument(metavar="TABLE", help="A table as `table` or `database.table`.")]
Why = Annotated[str, typer.Option("--why", help="The reason, shown by `frazil status`.")]
By = Annotated[str | None, typer.Option("--by", help="Who does this. Default: the current user.")]
WhyResumed = Annotated[str, typer.Option("--why", help="The reason, kept in the table.")]

DeadLetterSchema = Annotated[
    list[str] | None,
    typer.Option(
        "--dead-letter-schema", metavar="ID", help="Write records with this schema as dead letters; repeatable."
    ),
]

NoDeadLetterSchema = Annotated[
    list[str] | None,
    typer.Option(
        "--no-dead-letter-schema",
        metavar="ID",
        help="Make rows of later records with this schema again, after --dead-letter-schema; repeatable.",
    ),
]


def register(app: typer.Typer) -> None:
    app.command("pause", epilog=example('frazil pause stock_trades --why "the producer is being fixed"'))(pause)
    app.command(
        "resume", epilog=example("frazil resume stock_trades", "frazil resume stock_trades --dead-letter-schema 11")
    )(resume)


def pause(table: Table, why: Why, by: By = None, config: Config = DEFAULT_CONFIG) -> None:
    """Pause a table until it is resumed.

    No run writes to a paused table; its rows can still be read. A table property records who paused it, when and why. A
    batch in flight still finishes.
    """
    from frazil.materialize.pause.by_operator import pause as pause_table  # noqa: PLC0415

    lake, (spec, *_) = _tables(settings_from(config), table)
    name = spec.pipeline.name
    already = pause_table(lake, spec, by=by or getpass.getuser(), why=why, at=datetime.now(UTC))
    if already is None:
        resume = with_config_name(f"run `frazil resume {spec.table}` to resume it")
        print_lines([f"{name} is paused; {resume}"], sys.stderr)
    else:
        print_lines([f"{name} is already paused, {already}; nothing was changed"], sys.stderr)


def resume(
    table: Table,
    dead_letter_schema: DeadLetterSchema = None,
    no_dead_letter_schema: NoDeadLetterSchema = None,
    why: WhyResumed = "",
    by: By = None,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Resume a paused table from its current offsets.

    If too many bad records paused the table, they are accepted, and the next run publishes the same batch. If a schema
    paused the table or would pause it, --dead-letter-schema turns the records that were written with it into dead
    letters; another schema must be one that the table cannot hold. The exit status is 1 if the next run would refuse
    the registered schema again. The table keeps who resumed it, when and why: `frazil status TABLE` shows it.
    """
    from frazil.materialize.pause.by_operator import resume as resume_table  # noqa: PLC0415
    from frazil.materialize.pause.history import operation  # noqa: PLC0415

    settings = settings_from(config)
    lake, tables = _tables(settings, table)
    spec, name = tables[0], tables[0].pipeline.name
    excluded, included = ([*map(schema_id_from, ids or ())] for ids in (dead_letter_schema, no_dead_letter_schema))
    changed = _change_excluded(settings, lake, tables, excluded, included)
    resumed = operation("resume", by=by or getpass.getuser(), at=datetime.now(UTC), why=why)
    ended = resume_table(lake, spec, resumed=resumed)
    if ended is None and changed:
        if no_dead_letter_schema:
            _check_next_run(settings, lake, tables, said="")
        return
    if ended is None:
        print_lines([f"{name} is not paused; nothing was changed"], sys.stderr)
        return
    print_lines([f"{name} is resumed; it was paused {ended}"], sys.stderr)
    for topic, ends in sorted((ended.accept or {}).items()):
        accepted = ", ".join(f"{topic}-{number} up to offset {end}" for number, end in sorted(ends.items()))
        print_lines([f"bad records are accepted: {accepted}"], sys.stderr)
    if ended.by_run and ended.accept is None:
        taken = ended.schema_id in excluded
        _check_next_run(settings, lake, tables, said="" if taken else ended.hint)


def _change_excluded(
    settings: Settings,
    lake: Lake,
    tables: Sequence[TableSpec],
    excluded: Sequence[SchemaId],
    included: Sequence[SchemaId],
) -> bool:
    """Exclude and include these schemas; return whether there were any. Raises as `change_excluded`."""
    from frazil.adapters.registry import open_registry  # noqa: PLC0415
    from frazil.materialize.pause.excluding import change_excluded  # noqa: PLC0415

    if not excluded and not included:
        return False
    with closing(open_registry(settings.registry)) as registry:
        change_excluded(lake, registry, tables[0], others=tables[1:], exclude=excluded, include=included)
    name = tables[0].pipeline.name
    for schema_id in included:
        print(f"later records of {name} with the schema {schema_id} become rows again", file=sys.stderr)
    for schema_id in excluded:
        print(f"records of {name} with the schema {schema_id} become dead letters", file=sys.stderr)
    return True


def _check_next_run(settings: Settings, lake: Lake, tables: Sequence[TableSpec], *, said: str) -> None:
    """Raise an error of the same class as the next run would if it would refuse the registered schemas again.

    `said` is the hint of the pause, printed if the cause may last.
    """
    from frazil.adapters.registry import open_registry  # noqa: PLC0415
    from frazil.materialize.preview.next_refusal import next_refusal  # noqa: PLC0415

    try:
        with closing(open_registry(settings.registry)) as registry:
            refusal = next_refusal(lake, registry, *tables)
    except ServiceError as failure:
        print_lines([f"whether the next run pauses it again is unknown: {failure.what}"], sys.stderr)
        return
    if refusal is not None:
        name = tables[0].pipeline.name
        reason = refusal.what.removeprefix(f"{name}: ")
        raise type(refusal)(f"{name}: the next run will pause it: {reason}", hint=refusal.hint)
    if said:
        print_lines([with_config_name(f"if the cause lasts, the next run pauses it again: {said}")], sys.stderr)


def _tables(settings: Settings, name: str) -> tuple[Lake, tuple[TableSpec, ...]]:
    """Return the table, or the tables of its group: the first one holds the pause of all."""
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.specs.select import read_with, select_table  # noqa: PLC0415

    return IcebergLake(settings.catalog), read_with(settings, select_table(settings, name))
