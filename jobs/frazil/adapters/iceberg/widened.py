"""Which columns of a table have a wider type than with an earlier schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table import Table

from frazil.model.snapshot import TableView

Widened = Mapping[str, frozenset[tuple[str, str]]]
"""The types of Iceberg before and now, by the column at the top level that has them, perhaps inside."""


def schema_id_of(view: TableView) -> int:
    """Return the id of the table's present schema."""
    table: Table = view.current
    return table.metadata.current_schema_id


def widened_since(view: TableView, schema_id: int | None) -> Widened:
    """Return the columns that were widened since a schema was the present one; none if the table lost that schema."""
    table: Table = view.current
    before = None if schema_id is None else table.schemas().get(schema_id)
    if before is None or schema_id == table.metadata.current_schema_id:
        return {}
    types = {n: str(field.field_type) for n, field in index_by_id(before).items() if field.field_type.is_primitive}
    found = {field.name: frozenset(_changed(Schema(field), types)) for field in table.schema().fields}
    return {name: changed for name, changed in found.items() if changed}


def _changed(schema: Schema, before: Mapping[int, str]) -> Iterator[tuple[str, str]]:
    for n, field in index_by_id(schema).items():
        if field.field_type.is_primitive and before.get(n, str(field.field_type)) != str(field.field_type):
            yield before[n], str(field.field_type)
