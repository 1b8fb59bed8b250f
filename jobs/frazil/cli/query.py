"""`frazil query`: query the tables with SQL."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from frazil.cli.options import DEFAULT_CONFIG, Config, Json, example, settings_from
from frazil.model.errors import Misuse
from frazil.model.spelling import plural

Sql = Annotated[str, typer.Argument(metavar="SQL", help="One read-only statement in DuckDB's SQL.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]


def register(app: typer.Typer) -> None:
    app.command(
        "query",
        epilog=example(
            'frazil query "SELECT symbol, count(*) FROM stock_trades GROUP BY ALL"',
            'frazil query --csv "SELECT * FROM lake.stock_trades__dead_letters" > bad.csv',
            'frazil query "SHOW TABLES"',
        ),
    )(query)


def query(sql: Sql, as_json: Json = False, as_csv: Csv = False, config: Config = DEFAULT_CONFIG) -> None:
    """Query tables and dead-letter tables in SQL, with DuckDB in this process.

    Name tables as `table` or `database.table`. Nothing is written.
    """
    from frazil.cli.text import aligned, write_csv, write_json  # noqa: PLC0415
    from frazil.query import ask, is_numeric  # noqa: PLC0415

    if as_json and as_csv:
        raise Misuse("--json and --csv are mutually exclusive", hint="choose one")
    with ask(settings_from(config), sql) as answer:
        if as_json:
            write_json(answer.columns, answer.rows(), sys.stdout)
        elif as_csv:
            write_csv(answer.columns, answer.rows(), sys.stdout)
        else:
            lines = aligned(answer.columns, answer.rows(), numeric=[is_numeric(kind) for kind in answer.types])
            print("\n".join(lines))
            print(f"({plural(len(lines) - 2, 'row')})", file=sys.stderr)
