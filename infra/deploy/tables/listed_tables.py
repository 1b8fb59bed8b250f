"""List the tables that Snowflake can attach: they must be in Glue, because attaching reads their metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from frazil.model.spec import TableSpec


def tables_in_glue(glue: Any, database: str) -> frozenset[str]:
    """Return the table names; empty if the database does not exist yet. `glue` is a boto3 client."""
    try:
        pages = list(glue.get_paginator("get_tables").paginate(DatabaseName=database))
    except glue.exceptions.EntityNotFoundException:
        return frozenset()
    return frozenset(str(table["Name"]) for page in pages for table in page["TableList"])


def waiting(specs: Iterable[TableSpec], listed: frozenset[str]) -> Iterator[str]:
    """Yield the tables with the reader `snowflake` that are not in Glue yet."""
    yield from (spec.table for spec in specs if "snowflake" in spec.readers and spec.table not in listed)
