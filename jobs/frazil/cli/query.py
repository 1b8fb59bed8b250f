"""`frazil query`: query the tables with SQL."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import DEFAULT_CONFIG, Config, Json, example, settings_from
from frazil.cli.screen import shortened, width_of
from frazil.model.errors import Misuse
from frazil.model.spelling import plural

if TYPE_CHECKING:
    from frazil.cli.text import Row

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
    """Query tables and dead letters in SQL.

    DuckDB runs the query in this process. Name tables as `table` or `database.table`. Nothing is written. On a
    terminal, columns that do not fit are left out and long values are shortened; --json, --csv and a pipe get
    everything.
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
        elif sys.stdout.isatty():
            numeric = [is_numeric(kind) for kind in answer.types]
            rows, left_out = show_on_screen(answer.columns, answer.rows(), numeric=numeric)
            print(f"({plural(rows, 'row')}{left_out})", file=sys.stderr)
        else:
            lines = aligned(answer.columns, answer.rows(), numeric=[is_numeric(kind) for kind in answer.types])
            print("\n".join(lines))
            print(f"({plural(len(lines) - 2, 'row')})", file=sys.stderr)


def show_on_screen(names: Sequence[str], rows: Iterable[Row], *, numeric: Sequence[bool]) -> tuple[int, str]:
    """Print the leading columns that fit the terminal, with long values shortened.

    Return the number of rows, and a remark on what the screen does not show, empty if it shows everything.
    """
    from frazil.cli.columns import Column, fitting, show  # noqa: PLC0415
    from frazil.cli.text import shown  # noqa: PLC0415

    width = width_of(sys.stdout)
    longest = width if len(names) == 1 else width // 2 - 1
    texts = [[shown(value) for value in row] for row in rows]
    cells = [tuple(shortened(row[n], longest) for row in texts) for n in range(len(names))]
    columns = [
        Column(name, cells[n], rank=n, is_number=number)
        for n, (name, number) in enumerate(zip(names, numeric, strict=True))
    ]
    show(columns)
    fit = len(fitting(columns, width))
    remarks = [f"{fit} of {len(columns)} columns fit the terminal"] if fit < len(columns) else []
    remarks += ["long values are shortened"] if any(len(t) > longest for row in texts for t in row[:fit]) else []
    hint = "; --json and --csv print everything" if remarks else ""
    return len(texts), "".join(f", {remark}" for remark in remarks) + hint
