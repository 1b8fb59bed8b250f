"""What snapshots did to the sources of rows: the columns that say which record a row came from.

Nulls in these columns are counted in manifests, or in a data file's footer where its manifest lacks the count. Only
files that differ between the two snapshots are looked at. The columns themselves are read only from files with rows
marked as deleted that have rows both with and without a source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyroaring import BitMap64

from frazil.adapters.iceberg.live_rows import Marks, counting, files_in, marks_of
from frazil.adapters.iceberg.recent import Recent
from frazil.adapters.iceberg.scan import FOOTERS_AT_ONCE
from frazil.adapters.iceberg.source_nulls import Ids, nulls_in_footer, rows_without_source
from frazil.model.snapshot import SourceChange

CHANGES_KEPT = 1_024


@dataclass(frozen=True, slots=True)
class _Columns:
    """The field ids of the columns, those that were made again included: `here` in a snapshot's schema, `ever` in any.

    A rewrite loses the values of fields that the schema lacks, although files still have them before it.
    """

    here: tuple[Ids, ...]
    ever: tuple[Ids, ...]

    @property
    def all(self) -> Ids:
        return frozenset[int]().union(*self.ever)


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

    @property
    def is_exact(self) -> bool:
        """Return whether the number of traced rows is known, and the same by each schema."""
        return self.here == self.ever and self.here.at_least == self.here.at_most


@dataclass(frozen=True, slots=True)
class _File:
    """A data file in manifests: a snapshot may list it several times, and has its rows as often.

    Of its statistics only the nulls of the wanted columns are kept: a snapshot may have 100,000 files.
    """

    rows: int
    nulls: tuple[tuple[int, int], ...]
    times: int = 1


Files = Mapping[str, _File]


@dataclass(frozen=True, slots=True)
class _Held:
    """The data files of a snapshot by path, and which of their rows are marked as deleted."""

    files: Files
    marks: Marks

    def state_of(self, path: str) -> tuple[int, BitMap64 | None]:
        """Return what may differ between two snapshots."""
        file = self.files.get(path)
        return (0, None) if file is None else (file.times, self.marks.get(path))


@dataclass(frozen=True, slots=True)
class _Marked:
    """How many rows of a file are marked as deleted, and how many of them lack a source; None if that is unknown."""

    rows: int
    unsourced: int | None

    def unsourced_left(self, rows: int) -> int:
        """Return how many rows without a source are left; all of them if it is unknown which rows are marked."""
        return rows - (self.unsourced or 0)

    def sourced_left(self, rows: int) -> int:
        """Return how many rows with a source are left, at least."""
        return max(rows - self.rows + (self.unsourced or 0), 0)


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
    """Both figures may be negative: rows that go may have been added before, and rows may come back."""
    had, has = _held(table.io, before.manifests(table.io), after.manifests(table.io), columns.all)
    differ = {
        path: file for path, file in {**had.files, **has.files}.items() if had.state_of(path) != has.state_of(path)
    }
    rows = _rows_of(table, differ, columns)
    without = _without_source(table, rows, (had.marks, has.marks), columns)
    found = [_change_of(each, had.state_of(path), has.state_of(path), without.get(path)) for path, each in rows.items()]
    added, removed = sum(each.unsourced_added for each in found), sum(each.sourced_removed for each in found)
    is_same_by_each_schema = all(each.here == each.ever for each in rows.values())
    return SourceChange(added if is_same_by_each_schema else max(added, 0), removed)


def _without_source(
    table: Table, rows: Mapping[str, _Rows], marks: Sequence[Marks], columns: _Columns
) -> dict[str, BitMap64]:
    """Return which marked rows lack a source, in files that have rows both with and without one: these are opened."""
    mixed = (path for path, each in rows.items() if each.is_exact and 0 < each.here.at_most < each.rows)
    among = {path: BitMap64().union(*(each.get(path, BitMap64()) for each in marks)) for path in mixed}
    opened = {path: marked for path, marked in among.items() if marked}
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        found = pool.map(lambda path: rows_without_source(table, path, columns.here, among=opened[path]), opened)
        return dict(zip(opened, found, strict=True))


def _change_of(
    rows: _Rows, before: tuple[int, BitMap64 | None], now: tuple[int, BitMap64 | None], without: BitMap64 | None
) -> SourceChange:
    marked_before, marked = _marked(rows, before[1], without), _marked(rows, now[1], without)
    return SourceChange(
        unsourced_added=now[0] * marked.unsourced_left(rows.rows - rows.here.at_least)
        - before[0] * marked_before.unsourced_left(rows.rows - rows.here.at_most),
        sourced_removed=before[0] * marked_before.sourced_left(rows.ever.at_most)
        - now[0] * marked.sourced_left(rows.ever.at_least),
    )


def _marked(rows: _Rows, marks: BitMap64 | None, without: BitMap64 | None) -> _Marked:
    if not marks or rows.here.at_least == rows.rows:
        return _Marked(len(marks or ()), 0)
    if without is not None:
        return _Marked(len(marks), len(marks & without))
    return _Marked(len(marks), len(marks) if rows.is_exact else None)


def _held(io: FileIO, had: Sequence[ManifestFile], has: Sequence[ManifestFile], wanted: Ids) -> tuple[_Held, _Held]:
    """The files in manifests that only one of two snapshots has, and those of whose rows others are marked."""
    shared = _paths(had, ManifestContent.DATA) & _paths(has, ManifestContent.DATA)
    before, after = (_listed(files_in(io, _data(each, shared)), wanted) for each in (had, has))
    if _paths(had, ManifestContent.DELETES) == _paths(has, ManifestContent.DELETES):
        same = _marks(io, had) if before.keys() - after.keys() else {}
        return _Held(before, same), _Held(after, same)
    marked, marks = _marks(io, had), _marks(io, has)
    differ = {path for path in {*marked, *marks} if marked.get(path) != marks.get(path)}
    elsewhere = differ - before.keys() - after.keys()
    both = _files_named(io, [m for m in had if m.manifest_path in shared], elsewhere, wanted) if elsewhere else {}
    return _Held({**before, **both}, marked), _Held({**after, **both}, marks)


def _files_named(io: FileIO, manifests: Sequence[ManifestFile], paths: Collection[str], wanted: Ids) -> Files:
    """Read the manifests one after the other: together they may list every file of the table."""
    return _listed((file for file in files_in(io, manifests) if file.file_path in paths), wanted)


def _paths(manifests: Sequence[ManifestFile], content: ManifestContent) -> frozenset[str]:
    return frozenset(each.manifest_path for each in manifests if each.content is content)


def _data(manifests: Sequence[ManifestFile], without: Collection[str]) -> list[ManifestFile]:
    return [m for m in manifests if m.content is ManifestContent.DATA and m.manifest_path not in without]


def _listed(files: Iterable[DataFile], wanted: Ids) -> dict[str, _File]:
    """Keep little of each file. Most have the same nulls, which are kept once."""
    found: dict[str, _File] = {}
    once: dict[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]] = {}
    for file in files:
        nulls = tuple(sorted((n, null) for n, null in (file.null_value_counts or {}).items() if n in wanted))
        known = found.get(file.file_path)
        entry = _File(file.record_count, once.setdefault(nulls, nulls))
        found[file.file_path] = entry if known is None else replace(known, times=known.times + 1)
    return found


def _marks(io: FileIO, manifests: Sequence[ManifestFile]) -> Marks:
    """Return the deleted positions. Equality deletes are ignored: `verify` proves nothing if there are any."""
    deletes = files_in(io, [each for each in manifests if each.content is ManifestContent.DELETES])
    return marks_of(io, [file for file in deletes if file.content is DataFileContent.POSITION_DELETES])


def _rows_of(table: Table, files: Files, columns: _Columns) -> dict[str, _Rows]:
    known = {path: dict(file.nulls) for path, file in files.items()}
    unknown = [path for path, nulls in known.items() if not _are_enough(nulls, columns)]
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        known |= zip(unknown, pool.map(lambda path: nulls_in_footer(table, path, columns.all), unknown), strict=True)
    return {path: _rows(file.rows, known[path], columns) for path, file in files.items()}


def _are_enough(nulls: Mapping[int, int], columns: _Columns) -> bool:
    """Return whether a manifest has the nulls of each column, or shows that all rows have a source."""
    whole = {number for number, null in nulls.items() if null == 0}
    return all(ids & whole for ids in columns.here) or columns.all <= nulls.keys()


def _rows(rows: int, nulls: Mapping[int, int], columns: _Columns) -> _Rows:
    return _Rows(rows, _traced(rows, nulls, columns.here), _traced(rows, nulls, columns.ever))


def _traced(rows: int, nulls: Mapping[int, int], columns: Sequence[Ids]) -> _Traced:
    values = [[rows - nulls.get(number, rows) for number in ids] for ids in columns]
    return _Traced(
        at_least=min(max(found, default=0) for found in values),
        at_most=min(min(sum(found), rows) for found in values),
    )
