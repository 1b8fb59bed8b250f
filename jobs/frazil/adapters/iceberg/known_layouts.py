"""A table's layout as `model/snapshot.py` shows it, worked out once for each schema, partition spec and sort order.

A batch looks at its table a dozen times and rarely finds another layout; working it out took half of a look's CPU.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortOrder

from frazil.adapters.iceberg.changes import partitioned_by, sorted_by
from frazil.adapters.iceberg.recent import Recent
from frazil.adapters.iceberg.types import from_schema
from frazil.model.columns import Column

MOST_COLUMNS = 5_000
"""Columns that a process keeps, over all layouts: about 4 KB of memory each."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What the current schema, partition spec and sort order say. The properties' part of the columns is left out."""

    columns: tuple[Column, ...]
    schema_json: str
    partition_spec_json: str
    partition_fields: tuple[str, ...]
    sort_order_json: str
    sort_fields: tuple[str, ...]


_KNOWN: Recent[tuple[Schema, PartitionSpec, SortOrder, Layout]] = Recent(MOST_COLUMNS)
"""By the identities of the library's objects, which are kept, so that no others take their place in memory.

They cannot be changed, so no layout here gets stale. The metadata versions that one process reads or writes share those
that a commit leaves alone; a REST catalog's answers share none, and only take the place of older ones here.
"""


def layout_of(metadata: TableMetadata) -> Layout:
    schema, spec, order = metadata.schema(), metadata.spec(), metadata.sort_order()
    key = f"{id(schema)} {id(spec)} {id(order)}"
    known = _KNOWN.get(key)
    if known is not None:
        return known[-1]
    layout = Layout(
        columns=from_schema(schema),
        schema_json=schema.model_dump_json(),
        partition_spec_json=spec.model_dump_json(),
        partition_fields=partitioned_by(schema, spec),
        sort_order_json=order.model_dump_json(),
        sort_fields=sorted_by(schema, order),
    )
    _KNOWN.put(key, (schema, spec, order, layout), weight=1 + len(schema.field_ids))
    return layout
