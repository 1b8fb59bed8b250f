"""`frazil recover`: list a table again that was dropped from its catalog."""

from __future__ import annotations

from typing import Annotated

import typer

from frazil.cli.options import DEFAULT_CONFIG, Config, example, settings_from

Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table as `table` or `database.table`.")]
Metadata = Annotated[
    str | None,
    typer.Option("--metadata", metavar="FILE", help="The metadata file. Default: the newest one that can be used."),
]


def register(app: typer.Typer) -> None:
    app.command("recover", epilog=example("frazil recover stock_trades"))(recover)


def recover(table: Table, metadata: Metadata = None, config: Config = DEFAULT_CONFIG) -> None:
    """List a table again that was dropped from its catalog.

    The table and its dead letters are registered with the newest metadata files in their folders, if the catalog lacks
    them. Their files must still be there. What was committed later than such a file is read from Kafka again. If that
    is an erasure, it is named.
    """
    from frazil.model.spelling import plural  # noqa: PLC0415
    from frazil.recover import recover as list_again  # noqa: PLC0415
    from frazil.specs.select import select_own_table  # noqa: PLC0415

    settings = settings_from(config)
    spec = select_own_table(settings, table)
    done = list_again(settings.catalog, spec, metadata=metadata)
    if not done:
        print(f"nothing to do: the catalog has {spec.identifier} and its dead letters")
    for each in done:
        head = each.view.head_snapshot()
        rows = "no rows" if head is None else plural(head.live_rows, "row")
        print(f"{each.view.identifier}: {rows}, from {each.address}")
        for newer in each.passed_over:
            print(f"  not used: {newer.address}: {newer.why}")
        for erasure in each.undone:
            print(f"  not in this state: {erasure}")
        if each.undone:
            print("  if Kafka still has these records, their rows come back: run `frazil forget` again")
