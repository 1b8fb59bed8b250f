"""Specs with `routes`, which users cannot write yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from frazil.model.spec import TableSpec
from frazil.specs import load
from frazil.specs.load import load_tables
from frazil.specs.route_keys import ROUTES
from frazil.specs.table_keys import TABLE_SECTION

EVENTS = """
topic: events
table: events
routes:
  - {table: orders, schema: shop.Order}
  - {table: refunds, header: {type: refund}}
"""


@contextmanager
def routes_accepted() -> Iterator[None]:
    """Let the loader read the key `routes`, in this process."""
    others = tuple(each for each in TABLE_SECTION.not_yet if each.name != ROUTES.name)
    section = replace(TABLE_SECTION, keys=(*TABLE_SECTION.keys, ROUTES), not_yet=others)
    with patch.object(load, "TABLE_SECTION", section):
        yield


def group_specs(folder: Path, text: str = EVENTS) -> tuple[TableSpec, ...]:
    """Return the tables of a spec with routes, in their order, after writing it to a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "group.yaml").write_text(text, encoding="utf-8")
    with routes_accepted():
        return load_tables(folder, {}, database="lake", catalog_type="jdbc")
