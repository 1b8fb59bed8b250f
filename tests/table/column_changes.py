"""What other writers do to columns of a small table, and the repair that docs/operate.md gives."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

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
    """Run the code of docs/operate.md, A column that was made again."""
    text = (Path(__file__).parents[2] / "docs" / "operate.md").read_text()
    code = next(part for part in text.split("```python\n") if "restore_columns" in part).partition("```")[0]
    assert "lake.orders__dead_letters" in code
    exec(dedent(code.replace("lake.orders__dead_letters", identifier)), {"catalog": lake.lake.catalog})
    lake.restart()
