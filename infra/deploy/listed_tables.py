"""Which tables can be attached to: Snowflake reads a table's metadata as it attaches, so it must be in Glue by then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from frazil.model.spec import TableSpec


def tables_in_glue(glue: Any, database: str) -> frozenset[str]:
    """By name; none where there is no such database yet. `glue` is boto3's client."""
    try:
        pages = list(glue.get_paginator("get_tables").paginate(DatabaseName=database))
    except glue.exceptions.EntityNotFoundException:
        return frozenset()
    return frozenset(str(table["Name"]) for page in pages for table in page["TableList"])


def waiting(specs: Iterable[TableSpec], listed: frozenset[str]) -> Iterator[str]:
    """The tables that Snowflake shall read and cannot yet."""
    yield from (spec.table for spec in specs if "snowflake" in spec.readers and spec.table not in listed)
