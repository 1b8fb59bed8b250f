"""Columns that another writer renamed or dropped, and their values in a snapshot's files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from frazil.adapters.iceberg.scan import FOOTERS_AT_ONCE, planned, reading
from frazil.adapters.iceberg.windows import Range, can_read, rows_in
from frazil.model.snapshot import TableView


@dataclass(frozen=True, slots=True)
class FormerColumn:
    """An earlier column of a name: its present name, or None if it was dropped, and its newest field.

    `leaves` are the field ids of its values: its own, or those within a list, a map or a struct.
    """

    name_now: str | None
    field: NestedField
    leaves: frozenset[int]

    @property
    def read_as(self) -> str:
        return f"frazil_former_{self.field.field_id}"


def former_columns(view: TableView, name: str) -> tuple[FormerColumn, ...]:
    """Return the earlier columns of this name, by field id."""
    metadata = view.current.metadata
    now = metadata.schema()
    fields: dict[int, list[NestedField]] = {}
    for schema in sorted(metadata.schemas, key=lambda each: each.schema_id):
        for field in schema.fields:
            if field.name == name:
                fields.setdefault(field.field_id, []).append(field)
    present = {field.field_id for field in now.fields if field.name == name}
    return tuple(
        FormerColumn(now.find_column_name(number), found[-1], frozenset(n for field in found for n in leaves_of(field)))
        for number, found in sorted(fields.items())
        if number not in present
    )


def hidden_columns(
    view: TableView, snapshot_id: int, name: str, *, without: Collection[str] = ()
) -> tuple[FormerColumn, ...]:
    """Return the earlier columns of this name that hold values in the snapshot's files, which readers do not see.

    A row with a value of the present column hides nothing, and neither does one that position deletes name. Files
    `without` are not opened.
    """
    former = former_columns(view, name)
    if not former:
        return ()
    table: Table = view.current
    present = table.schema().find_field(name)
    with reading(view.identifier), ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        tasks = [t for t in planned(table.scan(snapshot_id=snapshot_id)) if t.file.file_path not in without]
        found = list(pool.map(lambda task: _hidden_in(table, task, present, former), tasks))
    return tuple(each for each in former if any(each in of_file for of_file in found))


def _hidden_in(
    table: Table, task: FileScanTask, present: NestedField, former: Sequence[FormerColumn]
) -> tuple[FormerColumn, ...]:
    whole = present.field_id if present.field_type.is_primitive else None
    held = _ids_with_values(table, task.file.file_path, whole)
    found = tuple(each for each in former if each.leaves & held)
    return tuple(_of_live_rows(table, task, present, found)) if found and can_read(task) else found


def _of_live_rows(
    table: Table, task: FileScanTask, present: NestedField, former: Sequence[FormerColumn]
) -> Iterator[FormerColumn]:
    """Yield the former columns that have a value in a live row whose present column is null."""
    for each in former:
        field = NestedField(each.field.field_id, each.read_as, each.field.field_type)
        batches = rows_in(table, task, Schema(present, field), Range(AlwaysTrue()))
        if any(_some_hidden(batch.column(each.read_as), batch.column(present.name)) for batch in batches):
            yield each


def _some_hidden(earlier: pa.Array, here: pa.Array) -> bool:
    return bool(pc.any(pc.and_(earlier.is_valid(), here.is_null())).as_py())


def held_in(table: Table, paths: Sequence[str]) -> frozenset[int]:
    """Return the ids of leaves with values in data files."""
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        return frozenset[int]().union(*pool.map(lambda path: _ids_with_values(table, path, None), paths))


def _ids_with_values(table: Table, path: str, whole: int | None) -> frozenset[int]:
    """Return the ids of leaves with values in a data file; none if `whole` has a value in each row."""
    with table.io.new_input(path).open() as stream:
        footer = pq.ParquetFile(stream)
    schema = pyarrow_to_schema(footer.schema_arrow, table.name_mapping(), downcast_ns_timestamp_to_us=True)
    leaves = [leaf for field in schema.fields for leaf in leaves_of(field)]
    nulls = [_nulls(footer.metadata, column) for column in range(footer.metadata.num_columns)]
    if len(leaves) != len(nulls):
        return frozenset(leaves)
    if whole in leaves and nulls[leaves.index(whole)][1] == 0:
        return frozenset()
    return frozenset(leaf for leaf, (values, null) in zip(leaves, nulls, strict=True) if null is None or null < values)


def _nulls(metadata: pq.FileMetaData, column: int) -> tuple[int, int | None]:
    """Return how many values a column chunk has in all row groups, and how many are null, None if that is unknown."""
    chunks = [metadata.row_group(number).column(column) for number in range(metadata.num_row_groups)]
    found = [chunk.statistics for chunk in chunks]
    known = all(each is not None and each.has_null_count for each in found)
    return sum(chunk.num_values for chunk in chunks), sum(each.null_count for each in found) if known else None


def leaves_of(field: NestedField) -> Iterator[int]:
    """Yield the field ids of the values within a field, in the order in which Parquet stores them."""
    within = fields_within(field.field_type)
    if within is None:
        yield field.field_id
    for each in within or ():
        yield from leaves_of(each)


def fields_within(kind: IcebergType) -> tuple[NestedField, ...] | None:
    """Return the fields of a struct, the element of a list, or the key and value of a map; None for other types."""
    if isinstance(kind, StructType):
        return kind.fields
    if isinstance(kind, ListType):
        return (kind.element_field,)
    return (kind.key_field, kind.value_field) if isinstance(kind, MapType) else None
