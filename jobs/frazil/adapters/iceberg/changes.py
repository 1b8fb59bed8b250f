"""Changes to a table's columns, partitioning and sort order, as updates of a PyIceberg transaction."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER_ID, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.table.update import (
    AddSortOrderUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertTableUUID,
    SetDefaultSortOrderUpdate,
    TableRequirement,
)
from pyiceberg.table.update.schema import UpdateSchema

from frazil.adapters.iceberg.types import to_partition_spec, to_sort_order, to_type
from frazil.model.changes import AddColumn, Change, DropColumn, RenameColumn, WidenType
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.partitioning import partition_field
from frazil.model.sort_order import SortField as Wanted


def change_columns(identifier: str, transaction: Transaction, changes: Sequence[Change]) -> None:
    """Apply schema changes. Raises IncompatibleSchemaError if Iceberg refuses one."""
    try:
        with transaction.update_schema() as update:
            for change in changes:
                _apply(update, change)
    except (ValueError, ValidationError) as refused:
        listed = ", ".join(map(str, changes))
        raise IncompatibleSchemaError(
            f"{identifier}: Iceberg rejected a schema change ({listed}): {refused}",
            hint=f"rename the field in the writer's schema, or materialize into another `table`; then"
            f" `frazil resume {identifier}`",
        ) from refused


def _apply(update: UpdateSchema, change: Change) -> None:
    match change:
        case AddColumn(path, column_type, doc):
            update.add_column(_steps(path), to_type(column_type), doc=doc)
        case WidenType(path, _, to):
            update.update_column(_steps(path), to_type(to))
        case RenameColumn(path, new_name):
            update.rename_column(_steps(path), new_name)
        case DropColumn(path):
            update.delete_column(path)


def _steps(path: str) -> tuple[str, ...]:
    """`order.items[].price` as PyIceberg walks it: order, items, element, price."""
    return tuple(path.replace("[]", ".element").replace("{}", ".value").split("."))


def partitioned_by(schema: Schema, spec: PartitionSpec) -> tuple[str, ...]:
    """The partition fields as `partition_by` writes them: `day(ts)`, `bucket(16, account)`, `symbol`.

    A field whose column was dropped is left out.
    """
    named = ((field, schema.find_column_name(field.source_id)) for field in spec.fields)
    return tuple(_text(str(field.transform), column) for field, column in named if column is not None)


def _text(transform: str, column: str) -> str:
    name, _, parameter = transform.removesuffix("]").partition("[")
    if name == "identity":
        return column
    return f"{name}({parameter}, {column})" if parameter else f"{name}({column})"


def sorted_by(schema: Schema, order: SortOrder) -> tuple[str, ...]:
    """The fields of a sort order as `sort_by` writes them: `day(ts) desc nulls last`, `symbol`.

    A field whose column was dropped is left out.
    """
    named = ((field, schema.find_column_name(field.source_id)) for field in order.fields)
    return tuple(
        _sort_text(field, _text(str(field.transform), column)) for field, column in named if column is not None
    )


def _sort_text(field: SortField, of: str) -> str:
    descending = field.direction == SortDirection.DESC
    return str(Wanted(partition_field(of), descending, field.null_order == NullOrder.NULLS_FIRST))


def reorder(transaction: Transaction, sort_by: Sequence[str]) -> None:
    """Make a sort order with these fields the table's default. An earlier order with the same fields keeps its id.

    The library's own update cannot set the order without fields in a table that was made with one.
    """
    metadata = transaction.table_metadata
    wanted = to_sort_order(metadata.schema(), sort_by)
    known = next((order for order in metadata.sort_orders if order.fields == wanted.fields), None)
    unused = max((order.order_id for order in metadata.sort_orders), default=UNSORTED_SORT_ORDER_ID) + 1
    order = known or wanted.model_copy(update={"order_id": UNSORTED_SORT_ORDER_ID if wanted.is_unsorted else unused})
    added = () if known else (AddSortOrderUpdate(sort_order=order),)
    transaction._apply((*added, SetDefaultSortOrderUpdate(sort_order_id=order.order_id)), ())


def repartition(transaction: Transaction, partition_by: Sequence[str]) -> None:
    """Make a partition spec with these fields the table's default. Files written before keep the spec they have.

    A field that an earlier spec had keeps its id and name, as the Iceberg specification asks for.
    """
    metadata = transaction.table_metadata
    wanted = {_identity(field): field for field in to_partition_spec(metadata.schema(), partition_by).fields}
    present = {_identity(field): field for field in metadata.spec().fields}
    with transaction.update_spec() as update:
        for identity, field in present.items():
            if identity not in wanted:
                update.remove_field(field.name)
        for identity, field in wanted.items():
            if identity not in present:
                column = metadata.schema().find_column_name(field.source_id)
                update.add_field(str(column), field.transform, _name(metadata, field))


def _identity(field: PartitionField) -> tuple[int, str]:
    return field.source_id, str(field.transform)


def _name(metadata: TableMetadata, field: PartitionField) -> str:
    """The field's own name in an earlier spec; else a name that no other field of any spec has."""
    earlier = {known.name: _identity(known) for spec in metadata.partition_specs for known in spec.fields}
    for name, identity in earlier.items():
        if identity == _identity(field):
            return name
    return next(n for n in (field.name, *(f"{field.name}_{i}" for i in range(2, 1000))) if n not in earlier)


def same_layout(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    """Require that the schema, the partition spec and the sort order are those of this metadata."""
    return (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
        AssertDefaultSortOrderId(default_sort_order_id=metadata.default_sort_order_id),
    )
