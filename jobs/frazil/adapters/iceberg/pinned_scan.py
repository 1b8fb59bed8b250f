"""The rows of one snapshot with its own columns, in an order that stays the same, from any place in it.

Two scans of one snapshot yield the same rows in the same order, also after the table got other columns: files come in
the order of their lowest value of a column, then of their path, and the rows of a file as they are in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import And, BooleanExpression, GreaterThanOrEqual, LessThan
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import PrimitiveType

from frazil.adapters.iceberg.conditions import condition_of
from frazil.adapters.iceberg.scan import all_of, live_files, planned, reading
from frazil.adapters.iceberg.undecodable import decoding
from frazil.adapters.iceberg.windows import Range, can_read, rows_in
from frazil.model.errors import Misuse
from frazil.model.snapshot import TableView
from frazil.model.spelling import did_you_mean


@dataclass(frozen=True, slots=True)
class Bounds:
    """Rows whose `column`, a number or a time in microseconds, is in `[start, end)`; `end` is None for no end."""

    column: str
    start: int
    end: int | None = None

    def condition(self) -> BooleanExpression:
        from_start = GreaterThanOrEqual(term=self.column, value=self.start)
        return from_start if self.end is None else And(from_start, LessThan(term=self.column, value=self.end))


class PinnedScan:
    """Some columns of a snapshot, all if none are named, and the rows that meet a condition and are within bounds.

    Files of the snapshots `unlike`, if they are still there, are left out.
    """

    def __init__(
        self,
        view: TableView,
        snapshot_id: int,
        *,
        columns: Sequence[str] = (),
        where: str = "",
        bounds: Sequence[Bounds] = (),
        unlike: Collection[int] = (),
    ) -> None:
        self._identifier = view.identifier
        self._table = _as_of(view, snapshot_id)
        schema = self._table.schema()
        _check_columns(view.identifier, schema, [*columns, *(each.column for each in bounds)])
        chosen = condition_of(view.identifier, schema, where)
        self._condition = all_of([chosen, *(each.condition() for each in bounds)])
        names = columns or [field.name for field in schema.fields]
        self._projection = _in_order(schema, names)
        with reading(self._identifier):
            tasks = planned(self._table.scan(row_filter=self._condition, snapshot_id=snapshot_id))
        known = {file.path for each in unlike if each in view.snapshots for file in live_files(view, each).data}
        column = schema.find_field(bounds[0].column) if bounds else None
        self._tasks = sorted(
            (task for task in tasks if task.file.file_path not in known), key=lambda task: _place(task, column)
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns as `rows_of` yields them: text, binary values and lists with offsets of 32 bits."""
        return pa.schema([_with_small_offsets(field) for field in schema_to_pyarrow(self._projection, {}, False)])

    @property
    def types(self) -> dict[str, str]:
        """Iceberg's names of the types, by column."""
        return {field.name: str(field.field_type) for field in self._projection.fields}

    def schema_of(self, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of some of the columns, all if none are named."""
        schema = self.schema
        return pa.schema([schema.field(name) for name in columns]) if columns else schema

    @property
    def files(self) -> int:
        return len(self._tasks)

    def rows_of(self, file: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one file, by its number, in small batches."""
        task, wanted, schema = self._tasks[file], Range(self._condition), self.schema
        with reading(self._identifier), decoding(self._table.io, task.file.file_path):
            batches = rows_in(self._table, task, self._projection, wanted) if can_read(task) else self._library(task)
            for batch in batches:
                yield batch if batch.schema.equals(schema) else batch.cast(schema)

    def _library(self, task: FileScanTask) -> Iterator[pa.RecordBatch]:
        scan = ArrowScan(self._table.metadata, self._table.io, self._projection, self._condition)
        return scan.to_record_batches([task])


def _with_small_offsets(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _small(field.type), field.nullable)


def _small(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_with_small_offsets(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_with_small_offsets(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_with_small_offsets(kind.key_field), _with_small_offsets(kind.item_field))
    return kind


def type_at(view: TableView, snapshot_id: int, column: str) -> str:
    """Return Iceberg's name of a column's type. Raises Misuse if the snapshot has no such column."""
    table = _as_of(view, snapshot_id)
    _check_columns(view.identifier, table.schema(), [column])
    return str(table.schema().find_type(column))


def _check_columns(identifier: str, schema: Schema, names: Sequence[str]) -> None:
    known = [field.name for field in schema.fields]
    for name in names:
        if name not in known:
            likely = did_you_mean(name, known)
            hint = f"did you mean {likely}?" if likely else f"it has {', '.join(known[:30])}"
            raise Misuse(f"the table {identifier} has no column {name}", hint=hint)


def _as_of(view: TableView, snapshot_id: int) -> Table:
    """Return the table with the columns that it had when the snapshot was made."""
    table: Table = view.current
    made_with = view.snapshots[snapshot_id].schema_id
    if made_with is None or made_with == table.metadata.current_schema_id:
        return table
    metadata = table.metadata.model_copy(update={"current_schema_id": made_with})
    return Table((*table.name(),), metadata, table.metadata_location, table.io, table.catalog, table.config)


def _in_order(schema: Schema, names: Sequence[str]) -> Schema:
    return Schema(*(schema.find_field(name) for name in names), schema_id=schema.schema_id)


def _place(task: FileScanTask, column: Any) -> tuple[bool, Any, str]:
    """Return what files are sorted by; a file without a lowest value comes last."""
    lower = None if column is None else (task.file.lower_bounds or {}).get(column.field_id)
    if lower is None or not isinstance(column.field_type, PrimitiveType):
        return (True, 0, task.file.file_path)
    return (False, from_bytes(column.field_type, lower), task.file.file_path)
