"""What other writers do to columns of a small table, and the repair that docs/operate.md gives."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pyarrow.compute as pc
from pyiceberg.table import Table
from pyiceberg.types import IcebergType

from tests.table.small_lake import SmallLake


def make_again(lake: SmallLake, identifier: str, *columns: str, kind: IcebergType | None = None) -> None:
    """Drop columns and add them, as another writer does; the values stay in the files."""
    table = lake.lake.catalog.load_table(identifier)
    kinds = {column: kind or table.schema().find_type(column) for column in columns}
    with table.update_schema(allow_incompatible_changes=True) as update:
        for column in columns:
            update.delete_column(column)
    with table.update_schema() as update:
        for column, its_kind in kinds.items():
            update.add_column(column, its_kind)
    lake.restart()


def restore(lake: SmallLake, identifier: str) -> None:
    """Run the Python of docs/operate.md, A column that was made again, and the like of its SQL."""
    code = next(part for part in _blocks("python") if "restore_columns" in part)
    assert "lake.orders" in code
    exec(code.replace("lake.orders", identifier), {"catalog": lake.lake.catalog})
    merge_restored(lake.lake.catalog.load_table(identifier))
    lake.restart()


def sql_of_the_repair() -> list[str]:
    """The statements of docs/operate.md, A column that was made again."""
    return next(part for part in _blocks("sql") if "coalesce(kafka_offset" in part).strip().removesuffix(";").split(";")


def _blocks(language: str) -> list[str]:
    text = (Path(__file__).parents[2] / "docs" / "operate.md").read_text()
    return [dedent(part.partition("```")[0]) for part in text.split(f"```{language}\n")[1:]]


def merge_restored(table: Table) -> None:
    """Copy `kafka_offset_5` into `kafka_offset` where that is null, and drop it, for each column of such a name."""
    rows = table.scan().to_arrow()
    again = [name for name in rows.column_names if re.fullmatch(r".+_\d+", name)]
    for name in reversed(again):
        to = rows.schema.get_field_index(name.rpartition("_")[0])
        values = pc.coalesce(rows.column(to), rows[name].cast(rows.column(to).type))
        rows = rows.set_column(to, rows.schema.field(to), values)
    if again:
        table.overwrite(rows)
    with table.update_schema(allow_incompatible_changes=True) as update:
        for name in again:
            update.delete_column(name)
