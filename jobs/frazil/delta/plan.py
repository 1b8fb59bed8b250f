"""Plan the next version of a Delta log: the difference between the log and a snapshot of the table.

Delta finds columns by name, Iceberg by id. A file is added only if both find the same columns in it, according to its
footer. The footers of files that the log already names were compared when they were added, and are not read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from frazil.delta.expressible import inexpressible
from frazil.delta.follow import DELETES
from frazil.delta.schema import LoggedColumn, NoPlaceInDeltaError, columns_of, fields_with, metadata_of
from frazil.delta.skipping import columns_skipped_by, skipping_columns
from frazil.delta.statistics import scalar_columns, statistics_of
from frazil.model.delta import (
    READER_VERSION,
    WRITER_VERSION,
    AddFile,
    BeginLog,
    DeltaLog,
    DeltaMetadata,
    ExtendLog,
    FileShape,
    LogIsCurrent,
    LogPlan,
    RemoveFile,
    ReplaceLog,
    TableFile,
    TableFiles,
    Withheld,
)
from frazil.model.snapshot import TableView
from frazil.model.spelling import plural

REWRITE_ALL = "rewrite all files (Iceberg's `rewrite_data_files` with `rewrite-all`)"
"""Frazil's own maintenance merges only files where that pays: one that is alone in its partition stays as it is."""

ReadShapes = Callable[[Sequence[TableFile]], Iterable[FileShape]]
"""Reads the footers of files. Called only with files that the log does not name yet."""


def plan_log(view: TableView, files: TableFiles, log: DeltaLog | None, *, shapes: ReadShapes) -> LogPlan | None:
    """Plan the log's next version for the view's head, whose files are given; None if the table has no snapshot."""
    if view.head is None:
        return None
    try:
        metadata = _with_skipping(metadata_of(view.schema_json), files, log)
    except NoPlaceInDeltaError as none:
        return Withheld(view.head, f"the column {none}")
    if log is not None and _describes(log, view.head, files, metadata):
        return LogIsCurrent(log.version, view.head)
    reason = _no_place(view) or _without_words(files) or _foreign(log) or _old_names(files, log, metadata)
    reason = reason or _misfit(shapes(_added(files, log)), metadata)
    return Withheld(view.head, reason) if reason else _write(view, files, log, metadata)


def _describes(log: DeltaLog, head: int, files: TableFiles, wanted: DeltaMetadata) -> bool:
    """Return whether the log records the snapshot and matches its files and schema."""
    return (
        log.snapshot_id == head
        and _foreign(log) is None
        and {file.path for file in log.files} == {file.path for file in files.data}
        and columns_of(log.metadata.schema) == columns_of(wanted.schema)
        and log.metadata.skipping == wanted.skipping
    )


def _with_skipping(wanted: DeltaMetadata, files: TableFiles, log: DeltaLog | None) -> DeltaMetadata:
    if log is not None and _difference(columns_of(log.metadata.schema), columns_of(wanted.schema)):
        log = None
    return replace(wanted, skipping=skipping_columns(files.data, wanted.schema, log=log))


def _no_place(view: TableView) -> str | None:
    return next((f"the column {each.path} {each.problem}" for each in inexpressible(view.columns)), None)


def _without_words(files: TableFiles) -> str | None:
    """Return why Delta's reader version 1 cannot represent the snapshot, independent of the log; None if it can."""
    if files.position_deletes or files.equality_deletes:
        return DELETES
    for file in files.data:
        if file.format != "PARQUET":
            return f"{file.location} is not a Parquet file"
        if file.path is None:
            return f"{file.location} is outside the table's folder"
    return None


def _foreign(log: DeltaLog | None) -> str | None:
    if log is None:
        return None
    said = (log.metadata.reader_version, log.metadata.writer_version)
    if said[0] > READER_VERSION or said[1] > WRITER_VERSION:
        return f"another writer changed the log to reader version {said[0]} and writer version {said[1]}"
    if log.metadata.partition_columns:
        return f"another writer gave the log the partition columns {', '.join(log.metadata.partition_columns)}"
    added = next((path for path, each in columns_of(log.metadata.schema).items() if each.field_id is None), None)
    if added is not None:
        return f"another writer added the column {added} to the log"
    unusual = next((file.path for file in log.files if not file.is_removable), None)
    if unusual is not None:
        return f"another writer added {unusual} to the log, in an encoding that Frazil cannot remove"
    return None


def _old_names(files: TableFiles, log: DeltaLog | None, wanted: DeltaMetadata) -> str | None:
    """Return why files in the log would be misread with the table's schema; None if they would not."""
    kept = 0 if log is None else len({file.path for file in log.files} & {file.path for file in files.data})
    if log is None or not kept:
        return None
    problem = _difference(columns_of(log.metadata.schema), columns_of(wanted.schema))
    return problem and f"{problem}, and the old columns remain in {plural(kept, 'file')}: {REWRITE_ALL}"


def _misfit(shapes: Iterable[FileShape], wanted: DeltaMetadata) -> str | None:
    columns = columns_of(wanted.schema)
    for shape in shapes:
        if shape.schema_json is None:
            return f"{shape.location} has columns without Iceberg field ids"
        try:
            problem = _difference(columns_of(metadata_of(shape.schema_json).schema), columns)
        except NoPlaceInDeltaError as none:
            problem = f"the column {none}"
        if problem:
            return f"{problem}, and {shape.location} still has the old columns: {REWRITE_ALL}"
    return None


def _difference(older: dict[str, LoggedColumn], newer: dict[str, LoggedColumn]) -> str | None:
    """Return why files with the older columns cannot be read with the newer ones, or None. Additions are compatible."""
    names = {column.field_id: path for path, column in newer.items()}
    for path, column in older.items():
        now = newer.get(path)
        if now == column:
            continue
        if now is not None and now.field_id == column.field_id:
            return f"the column {path} changed from {column.type} to {now.type}"
        if column.field_id is not None and column.field_id in names:
            return f"the column {path} was renamed to {names[column.field_id]}"
        return f"the column {path} was dropped" + ("" if now is None else ", and another column took its name")
    return None


def _added(files: TableFiles, log: DeltaLog | None) -> tuple[TableFile, ...]:
    known = set() if log is None else {file.path for file in log.files}
    return tuple(file for file in files.data if file.path not in known)


def _write(
    view: TableView, files: TableFiles, log: DeltaLog | None, metadata: DeltaMetadata
) -> BeginLog | ExtendLog | ReplaceLog:
    head = view.head_snapshot()
    assert head is not None  # noqa: S101 - checked by plan_log
    changed = log is None or _changes_rows(view, log.snapshot_id)
    add = tuple(_adds(_added(files, log), metadata, data_change=changed))
    if log is None:
        return BeginLog(head.id, metadata, add)
    sets_skipping = log.metadata.skipping != metadata.skipping
    if _difference(columns_of(log.metadata.schema), columns_of(metadata.schema)):
        return ReplaceLog(head.id, log.version, metadata, add, sets_skipping)
    live = {file.path for file in files.data}
    when = int(head.committed_at.timestamp() * 1000)
    remove = tuple(RemoveFile(f.path, f.size, when, changed) for f in log.files if f.path not in live)
    new_columns = _new_columns(log.metadata, metadata)
    return ExtendLog(head.id, log.version, metadata, add, remove, new_columns, sets_skipping)


def _changes_rows(view: TableView, since: int | None) -> bool:
    """Return False if all changes since the log's snapshot were compactions, which streaming readers then skip."""
    between = list(takewhile(lambda snapshot: snapshot.id != since, view.ancestry(view.head)))
    reached = bool(between) and between[-1].parent_id == since
    return since is None or not reached or any(snapshot.operation != "replace" for snapshot in between)


def _new_columns(logged: DeltaMetadata, wanted: DeltaMetadata) -> tuple[str, ...]:
    known = columns_of(logged.schema)
    return fields_with(wanted.schema, [path for path in columns_of(wanted.schema) if path not in known])


def _adds(files: Iterable[TableFile], metadata: DeltaMetadata, *, data_change: bool) -> Iterator[AddFile]:
    columns = scalar_columns(metadata.schema)
    skip_by = columns_skipped_by(metadata.skipping or "", columns)
    for file in files:
        assert file.path is not None  # noqa: S101 - checked by _without_words
        statistics = statistics_of(file, columns, skip_by)
        yield AddFile(file.path, file.size, file.modified_ms, statistics, data_change)
