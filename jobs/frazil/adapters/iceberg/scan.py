"""Read a table file by file through PyIceberg: its data files, their footers and their rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    NotNull,
    Or,
)
from pyiceberg.expressions.visitors import ResidualEvaluator, UnpartitionedResidualEvaluator
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, ManifestFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import DataScan, FileScanTask, ManifestGroupPlanner, Table
from pyiceberg.types import PrimitiveType

from frazil.adapters.iceberg.file_schemas import FileSchemas
from frazil.adapters.iceberg.known_manifests import known
from frazil.adapters.iceberg.parquet_slices import SLICE_BYTES
from frazil.adapters.iceberg.undecodable import UndecodableFileError, decoding
from frazil.adapters.iceberg.windows import Range, can_read, rows_in
from frazil.materialize.ingest.stored_schema import arrow_schema
from frazil.model.errors import CatalogError
from frazil.model.snapshot import TableView

FOOTERS_AT_ONCE = 16
ROWS_AT_ONCE = 1_000_000
"""Small files are read together until they hold this many rows; a larger file is read alone, a slice at a time."""

FILES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of a snapshot, with the values that its manifest records."""

    path: str
    rows: int
    size: int
    format: str = "PARQUET"


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """Everything that a snapshot's manifests name."""

    data: tuple[LiveFile, ...]
    position_deletes: tuple[LiveFile, ...]
    equality_deletes: tuple[LiveFile, ...]


@dataclass(frozen=True, slots=True)
class Footer:
    """The size of a file and the rows in its footer, or why it cannot be read.

    `unsupported` says why the Iceberg library cannot read the columns of a file that is intact.
    """

    file: LiveFile
    rows: int = 0
    size: int = 0
    missing: bool = False
    problem: str = ""
    unsupported: str = ""


def metadata_location(view: TableView) -> str:
    return str(_table(view).metadata_location)


def snapshot_in(view: TableView, location: str) -> int | None:
    """The snapshot that is current by another metadata file of the table, such as an older one."""
    with reading(view.identifier):
        metadata = FromInputFile.table_metadata(_table(view).io.new_input(location))
    return metadata.current_snapshot_id


def live_files(view: TableView, snapshot_id: int) -> LiveFiles:
    table = _table(view)
    snapshot = table.snapshot_by_id(snapshot_id)
    found: dict[DataFileContent, list[LiveFile]] = {content: [] for content in DataFileContent}
    with reading(view.identifier):
        for manifest in [] if snapshot is None else snapshot.manifests(table.io):
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                file = entry.data_file
                found[file.content].append(
                    LiveFile(file.file_path, file.record_count, file.file_size_in_bytes, file.file_format.value)
                )
    return LiveFiles(
        data=tuple(found[DataFileContent.DATA]),
        position_deletes=tuple(found[DataFileContent.POSITION_DELETES]),
        equality_deletes=tuple(found[DataFileContent.EQUALITY_DELETES]),
    )


def footers(view: TableView, files: Sequence[LiveFile]) -> Iterator[Footer]:
    """Yield the footer of each file, in the given order; several are read in parallel."""
    io, schemas = _table(view).io, FileSchemas(_table(view).name_mapping())
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        yield from pool.map(lambda file: _footer(io, file, schemas), files)


def _footer(io: Any, file: LiveFile, schemas: FileSchemas) -> Footer:
    try:
        with io.new_input(file.path).open() as stream:
            size = stream.seek(0, 2)
            stream.seek(0)
            found = pq.read_metadata(stream)
        return Footer(file, rows=found.num_rows, size=int(size), unsupported=schemas.unsupported(found))
    except FileNotFoundError:
        return Footer(file, missing=True)
    except (OSError, pa.ArrowException) as problem:
        return Footer(file, problem=f"{type(problem).__name__}: {problem}")


class TableScan:
    """The rows of one snapshot, by default the head of the view, with some columns, planned once.

    `equal` are values that columns must have; the columns in `or_null` may be null instead, and those `present` may not
    be null. With `added_by`, the rows are those that this snapshot added.

    The columns are those of the table's current schema, as readers of the table see them, not those of the snapshot's.
    If there is nothing to read, they need not exist: some tables get their columns with their first rows.
    """

    def __init__(
        self,
        view: TableView,
        *,
        columns: Sequence[str],
        equal: Mapping[str, object] | None = None,
        or_null: Collection[str] = (),
        present: Collection[str] = (),
        snapshot_id: int | None = None,
        without: Collection[str] = (),
        added_by: int | None = None,
    ) -> None:
        self._identifier = view.identifier
        self._table = _table(view)
        conditions = [_equal(name, value, name in or_null) for name, value in (equal or {}).items()]
        self._filter = all_of([*conditions, *(NotNull(term=name) for name in present)])
        scan: DataScan = self._table.scan(
            row_filter=self._filter, snapshot_id=added_by or (view.head if snapshot_id is None else snapshot_id)
        )
        with reading(view.identifier):
            tasks = planned(scan) if added_by is None else planned_of(scan, added_by)
            self._tasks = [task for task in tasks if task.file.file_path not in without]
            now = self._table.schema()
            there = columns if self._tasks else set(columns) & set(now.column_names)
            self._projection = now if "*" in columns else now.select(*there)

    @property
    def rows(self) -> int:
        """Rows of the files that have to be read."""
        return sum(task.file.record_count for task in self._tasks)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, with a few small files or a slice of a large file in memory at a time."""
        scan = self._arrow_scan(self._filter)
        for tasks in _portions(self._tasks):
            if len(tasks) == 1:
                yield from self._in_slices(tasks, Range(self._filter))
                continue
            with reading(self._identifier):
                batches = self._together(scan, tasks)
            yield from batches

    def between(self, column: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield, in batches, the rows whose `column`, a number or a time in microseconds, is in `[start, end)`."""
        inside = all_of([self._filter, GreaterThanOrEqual(term=column, value=start), LessThan(term=column, value=end)])
        field = self._table.schema().find_field(column)
        tasks = [task for task in self._tasks if _may_hold(task.file, field.field_id, field.field_type, start, end)]
        yield from self._in_slices(tasks, Range(inside, field.field_id, start, end))

    def slices(self, slice_bytes: int = SLICE_BYTES) -> Iterator[pa.RecordBatch]:
        """Yield all rows in small batches, for columns of large values; `batches` reads whole files.

        What is decoded at once takes up to `slice_bytes`. If less than a row group's text, that bound costs CPU.
        """
        yield from self._in_slices(self._tasks, Range(self._filter, slice_bytes=slice_bytes))

    def _in_slices(self, tasks: Iterable[FileScanTask], wanted: Range) -> Iterator[pa.RecordBatch]:
        with reading(self._identifier):  # one file after the other: together they would all be in memory
            for task in tasks:
                with decoding(self._table.io, task.file.file_path):
                    yield from self._rows_in(task, wanted)

    def _together(self, scan: ArrowScan, tasks: Sequence[FileScanTask]) -> list[pa.RecordBatch]:
        """Return the rows of several files. After a failure, read one file after the other to name it."""
        try:
            return list(scan.to_record_batches(tasks))
        except Exception:
            for task in tasks:
                with decoding(self._table.io, task.file.file_path):
                    list(scan.to_record_batches([task]))
            raise

    def _rows_in(self, task: FileScanTask, wanted: Range) -> Iterator[pa.RecordBatch]:
        if can_read(task):
            return rows_in(self._table, task, self._projection, wanted)
        return self._arrow_scan(wanted.condition).to_record_batches([task])

    def _arrow_scan(self, row_filter: BooleanExpression) -> ArrowScan:
        return ArrowScan(self._table.metadata, self._table.io, self._projection, row_filter)


@contextmanager
def reading(identifier: str) -> Iterator[None]:
    """Raise CatalogError for any failure to read the files of a table."""
    try:
        yield
    except UndecodableFileError as problem:
        error = CatalogError(
            f"{identifier}: {problem}",
            hint="if another writer wrote it, delete its rows or write them again; otherwise restore it from a copy",
        )
        error.worth_retrying = False
        raise error from problem
    except Exception as problem:
        raise CatalogError(
            f"the files of {identifier} cannot be read: {type(problem).__name__}: {problem}",
            hint="check the credentials, the network and `catalog` in frazil.yaml; `frazil verify` lists missing files",
        ) from problem


def planned(scan: DataScan) -> list[FileScanTask]:
    """Return the data files that a scan reads, with their files of deletes."""
    snapshot = scan.snapshot()
    return [] if snapshot is None else _planned(scan, snapshot.manifests(scan.io))


def planned_of(scan: DataScan, snapshot_id: int) -> list[FileScanTask]:
    """Return the data files that a snapshot added, by their paths, with the deletes that it added for them."""
    snapshot = scan.snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(scan.io)
    own = [manifest for manifest in manifests if manifest.added_snapshot_id == snapshot_id]
    added = {
        entry.data_file.file_path
        for manifest in own
        for entry in manifest.fetch_manifest_entry(scan.io)
        if entry.snapshot_id == snapshot_id
    }
    tasks = [task for task in _planned(scan, own) if task.file.file_path in added]
    return sorted(tasks, key=lambda task: str(task.file.file_path))


class _Planner(ManifestGroupPlanner):
    """Leaves each task the whole condition, which is what is checked here when its file is read.

    The library would take out what the file's partition meets, and fails at a partition of nulls.
    """

    def _build_residual_evaluator(self, spec_id: int) -> Callable[[DataFile], ResidualEvaluator]:
        whole = UnpartitionedResidualEvaluator(self.table_metadata.schema(), self.row_filter)
        return lambda file: whole


def _planned(scan: DataScan, manifests: Sequence[ManifestFile]) -> list[FileScanTask]:
    planner = _Planner(
        scan.table_metadata, scan.io, scan.row_filter, case_sensitive=scan.case_sensitive, options=scan.options
    )
    return list(planner.plan_files(known(manifests)))


def _portions(tasks: Iterable[FileScanTask]) -> Iterator[list[FileScanTask]]:
    portion: list[FileScanTask] = []
    rows = 0
    for task in tasks:
        if portion and (rows + task.file.record_count > ROWS_AT_ONCE or len(portion) >= FILES_AT_ONCE):
            yield portion
            portion, rows = [], 0
        portion.append(task)
        rows += task.file.record_count
    if portion:
        yield portion


def _may_hold(file: DataFile, field_id: int, kind: Any, start: int, end: int) -> bool:
    """Return whether the file's bounds allow a value in `[start, end)`; true if it has no bounds."""
    lower, upper = (file.lower_bounds or {}).get(field_id), (file.upper_bounds or {}).get(field_id)
    if lower is None or upper is None or not isinstance(kind, PrimitiveType):
        return True
    lowest: Any = from_bytes(kind, lower)
    highest: Any = from_bytes(kind, upper)
    return bool(lowest < end and highest >= start)


def _equal(name: str, value: object, or_null: bool) -> BooleanExpression:
    equal = EqualTo(term=name, value=value)
    return Or(equal, IsNull(term=name)) if or_null else equal


def all_of(conditions: Sequence[BooleanExpression]) -> BooleanExpression:
    """Return the condition that all of them are met, which is always true for none."""
    together: BooleanExpression = AlwaysTrue()
    for condition in conditions:
        together = And(together, condition)
    return together


def _table(view: TableView) -> Table:
    table: Table = view.current
    return table


def arrow_schema_of(view: TableView) -> pa.Schema:
    """Return the view's schema, with field ids."""
    return arrow_schema(view.schema_json)


def schemas_of(view: TableView) -> Iterator[pa.Schema]:
    """Yield all schemas that the table has had, oldest first, with field ids."""
    for schema in sorted(view.current.metadata.schemas, key=lambda each: each.schema_id):
        yield schema_to_pyarrow(schema)
