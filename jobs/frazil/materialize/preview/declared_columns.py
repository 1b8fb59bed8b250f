"""What a spec says about columns that it declares itself: looked at without a registry, a broker or a table."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.materialize.layout import (
    identity_problems,
    metadata_columns,
    order_problems,
    partition_problems,
    reads_keys_by_schema,
    sort_problems,
    z_order_problems,
)
from frazil.materialize.schema.columns_of import given_columns
from frazil.model.errors import FrazilError, IncompatibleSchemaError
from frazil.model.spec import TableSpec


def problems_of_declared(spec: TableSpec) -> Iterator[FrazilError]:
    """Yield what a table with the spec's columns cannot be; nothing if a schema decides about any of them."""
    if spec.value_type is not None or reads_keys_by_schema(spec):
        return
    try:
        columns = given_columns(spec) + metadata_columns(spec, None)
    except IncompatibleSchemaError as refused:
        yield refused
        return
    for find in (partition_problems, sort_problems, z_order_problems, identity_problems, order_problems):
        yield from find(spec, columns)
