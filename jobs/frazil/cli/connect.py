"""`frazil connect`: what to paste into another engine to read a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import DEFAULT_CONFIG, Config, example, settings_from
from frazil.model.errors import Misuse

if TYPE_CHECKING:
    from frazil.connect.table_address import TableAddress
    from frazil.model.settings import Settings
    from frazil.model.spec import TableSpec

SECONDS = 10.0
"""The time limit for asking AWS which account this is."""

Engine = Annotated[
    str, typer.Argument(metavar="ENGINE", help="athena, duckdb, pandas, polars, pyiceberg, snowflake, spark or trino.")
]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table as `table` or `database.table`.")]


def register(app: typer.Typer) -> None:
    app.command(
        "connect",
        epilog=example("frazil connect duckdb stock_trades", "frazil connect pandas stock_trades > trades.py"),
    )(connect)


def connect(engine: Engine, table: Table, config: Config = DEFAULT_CONFIG) -> None:
    """Print what another engine needs to read a table.

    The text is complete but for credentials, which it never contains. Paste it into the engine.
    """
    from frazil.connect.snippets import ENGINES, snippet  # noqa: PLC0415
    from frazil.specs.problems import suggest  # noqa: PLC0415
    from frazil.specs.select import select_own_table  # noqa: PLC0415

    if engine not in ENGINES:
        raise Misuse(f"no text for the engine {engine}", hint=suggest(engine, ENGINES))
    settings = settings_from(config)
    print(snippet(engine, _address(settings, select_own_table(settings, table), engine)))


def _address(settings: Settings, spec: TableSpec, engine: str) -> TableAddress:
    from frazil.adapters.aws.caller import who_am_i  # noqa: PLC0415
    from frazil.adapters.storage.warehouse_folder import CATALOG_FILE  # noqa: PLC0415
    from frazil.connect.table_address import TableAddress  # noqa: PLC0415

    catalog = settings.catalog
    if catalog.type == "glue" and engine != "snowflake":
        caller = who_am_i(catalog.properties, seconds=SECONDS)
        return TableAddress(spec, catalog, snowflake=settings.snowflake, account=caller.account, region=caller.region)
    if catalog.type != "jdbc":
        return TableAddress(spec, catalog, snowflake=settings.snowflake)
    return TableAddress(
        spec,
        catalog,
        catalog_file=str(Path(catalog.warehouse) / CATALOG_FILE),
        snowflake=settings.snowflake,
        metadata_file=_metadata_file(settings, spec) if engine == "duckdb" else None,
    )


def _metadata_file(settings: Settings, spec: TableSpec) -> str | None:
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.adapters.iceberg.scan import metadata_location  # noqa: PLC0415

    view = IcebergLake(settings.catalog).load(spec.identifier)
    return None if view is None else metadata_location(view)
