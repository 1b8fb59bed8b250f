"""What snapshots did to the sources of rows: the columns that say which record a row came from.

Nulls in these columns are counted in manifests, or in a data file's footer where its manifest lacks the count. Only
files that differ between the two snapshots are looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from frazil.adapters.iceberg.live_rows import Marks, counting, files_in, marks_of
from frazil.adapters.iceberg.recent import Recent
from frazil.adapters.iceberg.scan import FOOTERS_AT_ONCE
from frazil.model.snapshot import SourceChange

CHANGES_KEPT = 1_024


Ids = frozenset[int]


@dataclass(frozen=True, slots=True)
class _Columns:
    """The field ids of the columns, those that were made again included: `here` in a snapshot's schema, `ever` in any.

    A rewrite loses the values of fields that the schema lacks, although files still have them before it.
    """

    here: tuple[Ids, ...]
    ever: tuple[Ids, ...]


@dataclass(frozen=True, slots=True)
class _Traced:
    """How many rows of a data file have a value in each of some columns.

    The bounds differ only where a column was made again and the file has its values under two field ids.
    """

    at_least: int
    at_most: int


@dataclass(frozen=True, slots=True)
class _Rows:
    """A data file's rows, and those that are traced by the fields of the schema, or by those of any schema."""

    rows: int
    here: _Traced
    ever: _Traced


@dataclass(frozen=True, slots=True)
class _Held:
    """The data files of a snapshot by path, and which of their rows are marked as deleted."""

    files: Mapping[str, DataFile]
    marks: Marks

    def deleted(self, path: str) -> int:
        return len(self.marks.get(path, ()))

    def rows_of(self, counted: Mapping[str, _Rows]) -> list[tuple[_Rows, int]]:
        """Return the rows of each file that is here, and how many of them are marked."""
        return [(rows, self.deleted(path)) for path, rows in counted.items() if path in self.files]


class SourceChanges:
    """Compares two snapshots once: snapshots never change."""

    def __init__(self) -> None:
        self._known: Recent[SourceChange] = Recent(CHANGES_KEPT)

    def between(self, table: Table, before: Snapshot, after: Snapshot, names: Sequence[str]) -> SourceChange | None:
        """Return what the snapshots since `before` did, up to `after`; None if files are missing or cannot be parsed.

        Raises CatalogError if storage does not answer.
        """
        columns = _columns(table.metadata, after.schema_id, names)
        key = f"{before.manifest_list} {after.manifest_list} {columns}"
        known = self._known.get(key)
        if known is not None:
            return known
        try:
            with counting(f"sources of rows between the snapshots {before.snapshot_id} and {after.snapshot_id}"):
                found = _change(table, before, after, columns)
        except (FileNotFoundError, ValueError):
            return None  # a file may be missing for a moment only: try again next time
        self._known.put(key, found, weight=1)
        return found


def _columns(metadata: TableMetadata, schema_id: int | None, names: Sequence[str]) -> _Columns:
    schema = None if schema_id is None else metadata.schema_by_id(schema_id)
    present = (schema or metadata.schema()).field_ids
    ever = tuple(frozenset(_ids(metadata.schemas, name)) for name in names)
    return _Columns(tuple(ids & present for ids in ever), ever)


def _ids(schemas: Iterable[Schema], name: str) -> Iterator[int]:
    return (field.field_id for schema in schemas for field in schema.fields if field.name == name)


def _change(table: Table, before: Snapshot, after: Snapshot, columns: _Columns) -> SourceChange:
    had, has = _held(table.io, before.manifests(table.io), after.manifests(table.io))
    differ = {
        path: file
        for path, file in {**had.files, **has.files}.items()
        if (path in had.files) != (path in has.files) or had.deleted(path) != has.deleted(path)
    }
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        rows = pool.map(lambda file: _rows(table, file, columns), differ.values())
        counted = dict(zip(differ, rows, strict=True))
    gone, new = had.rows_of(counted), has.rows_of(counted)
    added = sum(f.rows - f.here.at_least for f, _ in new) - sum(f.rows - f.here.at_most for f, _ in gone)
    left = sum(max(f.ever.at_least - deleted, 0) for f, deleted in new)
    removed = sum(max(f.ever.at_most - deleted, 0) for f, deleted in gone) - left
    return SourceChange(unsourced_added=max(added, 0), sourced_removed=max(removed, 0))


def _held(io: FileIO, had: Sequence[ManifestFile], has: Sequence[ManifestFile]) -> tuple[_Held, _Held]:
    """The files in manifests that only one of two snapshots has, and those of whose rows more or fewer are marked."""
    shared = _paths(had, ManifestContent.DATA) & _paths(has, ManifestContent.DATA)
    before, after = _data_files(io, had, shared), _data_files(io, has, shared)
    if _paths(had, ManifestContent.DELETES) == _paths(has, ManifestContent.DELETES):
        same = _marks(io, had) if before.keys() - after.keys() else {}
        return _Held(before, same), _Held(after, same)
    marked, marks = _marks(io, had), _marks(io, has)
    differ = {path for path in {*marked, *marks} if len(marked.get(path, ())) != len(marks.get(path, ()))}
    elsewhere = differ - before.keys() - after.keys()
    both = _files_named(io, [m for m in had if m.manifest_path in shared], elsewhere) if elsewhere else {}
    return _Held({**before, **both}, marked), _Held({**after, **both}, marks)


def _files_named(io: FileIO, manifests: Sequence[ManifestFile], wanted: Collection[str]) -> dict[str, DataFile]:
    """Read the manifests one after the other: together they may list every file of the table."""
    return {file.file_path: file for each in manifests for file in files_in(io, [each]) if file.file_path in wanted}


def _paths(manifests: Sequence[ManifestFile], content: ManifestContent) -> frozenset[str]:
    return frozenset(each.manifest_path for each in manifests if each.content is content)


def _data_files(io: FileIO, manifests: Sequence[ManifestFile], without: Collection[str]) -> dict[str, DataFile]:
    data = [m for m in manifests if m.content is ManifestContent.DATA and m.manifest_path not in without]
    return {file.file_path: file for file in files_in(io, data)}


def _marks(io: FileIO, manifests: Sequence[ManifestFile]) -> Marks:
    """Return the deleted positions. Equality deletes are ignored: `verify` proves nothing if there are any."""
    deletes = files_in(io, [each for each in manifests if each.content is ManifestContent.DELETES])
    return marks_of(io, [file for file in deletes if file.content is DataFileContent.POSITION_DELETES])


def _rows(table: Table, file: DataFile, columns: _Columns) -> _Rows:
    rows, nulls = file.record_count, dict(file.null_value_counts or {})
    whole = {number for number, null in nulls.items() if null == 0}
    if not all(ids & whole for ids in columns.here) and not frozenset[int]().union(*columns.ever) <= nulls.keys():
        nulls = _nulls_in_footer(table, file.file_path, frozenset().union(*columns.ever))
    return _Rows(rows, _traced(rows, nulls, columns.here), _traced(rows, nulls, columns.ever))


def _traced(rows: int, nulls: Mapping[int, int], columns: Sequence[Ids]) -> _Traced:
    values = [[rows - nulls.get(number, rows) for number in ids] for ids in columns]
    return _Traced(
        at_least=min(max(found, default=0) for found in values),
        at_most=min(min(sum(found), rows) for found in values),
    )


def _nulls_in_footer(table: Table, path: str, wanted: Ids) -> dict[int, int]:
    """Return the nulls of those of the columns that a data file has. Raises ValueError if they have no statistics."""
    with table.io.new_input(path).open() as stream:
        footer = pq.ParquetFile(stream)
    schema = pyarrow_to_schema(footer.schema_arrow, table.name_mapping(), downcast_ns_timestamp_to_us=True)
    ids = {field.name: field.field_id for field in schema.fields}
    columns = {footer.metadata.schema.column(n).path: n for n in range(footer.metadata.num_columns)}
    return {ids[name]: _nulls(footer.metadata, column) for name, column in columns.items() if ids.get(name) in wanted}


def _nulls(metadata: pq.FileMetaData, column: int) -> int:
    found = [metadata.row_group(number).column(column).statistics for number in range(metadata.num_row_groups)]
    if not all(each is not None and each.has_null_count for each in found):
        raise ValueError(f"no statistics of column {column}")
    return sum(each.null_count for each in found)
