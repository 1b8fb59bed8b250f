"""Specs with `routes`."""

from __future__ import annotations

from pathlib import Path

from frazil.model.spec import TableSpec
from frazil.specs.load import load_tables

EVENTS = """
topic: events
table: events
routes:
  - {table: orders, schema: shop.Order}
  - {table: refunds, header: {type: refund}}
"""


def group_specs(folder: Path, text: str = EVENTS) -> tuple[TableSpec, ...]:
    """Return the tables of a spec with routes, in their order, after writing it to a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "group.yaml").write_text(text, encoding="utf-8")
    return load_tables(folder, {}, database="lake", catalog_type="jdbc")
