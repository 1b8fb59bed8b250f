"""An Iceberg snapshot's files as a Delta log has to name them, through PyIceberg."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table

from frazil.adapters.iceberg.delete_files import PATH_ID, names_one_file
from frazil.adapters.iceberg.scan import FOOTERS_AT_ONCE, reading
from frazil.model.delta import FileShape, TableFile, TableFiles
from frazil.model.snapshot import TableView

MANIFESTS_AT_ONCE = 16
"""A manifest on S3 costs a request, and every batch leaves one."""


@dataclass(frozen=True, slots=True)
class _ManifestFiles:
    """The live files of a manifest. For each file of position deletes, `deletes_of` has the one data file that it is
    about, or None if it may be about several."""

    data: tuple[TableFile, ...]
    deletes_of: tuple[str | None, ...]
    equality_deletes: int


SNAPSHOTS_CACHED = 3
"""A table with delete files is looked at as of its head, its last compaction, and the snapshot in the log."""


class SnapshotFiles:
    """The files of snapshots. Manifests never change, so those of the last snapshots of each table are cached."""

    def __init__(self) -> None:
        self._recent: dict[str, list[dict[str, _ManifestFiles]]] = {}

    def of_head(self, view: TableView) -> TableFiles:
        """Return all data files and delete files of the view's head.

        A file of position deletes is left out if the one data file that it is about is not in the table any more:
        compactions by Iceberg's Java leave such files, which remove no row.
        """
        table: Table = view.current
        snapshot = None if view.head is None else table.snapshot_by_id(view.head)
        recent = self._recent.get(view.location, [])
        known = ChainMap({}, *recent)
        with reading(view.identifier), ThreadPoolExecutor(MANIFESTS_AT_ONCE) as pool:
            manifests = [] if snapshot is None else snapshot.manifests(table.io)
            new = [manifest for manifest in manifests if manifest.manifest_path not in known]
            read = pool.map(lambda manifest: _of_manifest(view, manifest), new)
            known.update(zip((manifest.manifest_path for manifest in new), read, strict=True))
        here = {manifest.manifest_path: known[manifest.manifest_path] for manifest in manifests}
        self._recent[view.location] = [here, *recent][:SNAPSHOTS_CACHED]
        return _together(here.values())


def shapes(view: TableView, files: Sequence[TableFile]) -> Iterator[FileShape]:
    """Yield the columns of each file from its footer, in the order given; several footers are read at once."""
    table: Table = view.current
    with reading(view.identifier), ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        yield from pool.map(lambda file: _shape(table.io, file), files)


def _of_manifest(view: TableView, manifest: ManifestFile) -> _ManifestFiles:
    table: Table = view.current
    entries: dict[DataFileContent, list[ManifestEntry]] = {content: [] for content in DataFileContent}
    for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
        entries[entry.data_file.content].append(entry)
    return _ManifestFiles(
        data=tuple(_file(view, entry) for entry in entries[DataFileContent.DATA]),
        deletes_of=tuple(_target_of(entry.data_file) for entry in entries[DataFileContent.POSITION_DELETES]),
        equality_deletes=len(entries[DataFileContent.EQUALITY_DELETES]),
    )


def _together(parts: Collection[_ManifestFiles]) -> TableFiles:
    data = tuple(file for part in parts for file in part.data)
    live = {file.location for file in data}
    targets = (target for part in parts for target in part.deletes_of)
    return TableFiles(
        data=data,
        position_deletes=sum(target is None or target in live for target in targets),
        equality_deletes=sum(part.equality_deletes for part in parts),
    )


def _target_of(deletes: DataFile) -> str | None:
    return deletes.lower_bounds[PATH_ID].decode() if names_one_file(deletes) else None


def _file(view: TableView, entry: ManifestEntry) -> TableFile:
    file: DataFile = entry.data_file
    added = view.snapshots.get(entry.snapshot_id or 0)
    return TableFile(
        path=_below(view.location, file.file_path),
        location=file.file_path,
        format=file.file_format.value,
        rows=file.record_count,
        size=file.file_size_in_bytes,
        modified_ms=0 if added is None else int(added.committed_at.timestamp() * 1000),
        null_value_counts=file.null_value_counts or {},
        lower_bounds=file.lower_bounds or {},
        upper_bounds=file.upper_bounds or {},
    )


def _below(folder: str, path: str) -> str | None:
    root = _plain(folder).rstrip("/") + "/"
    return _plain(path).removeprefix(root) if _plain(path).startswith(root) else None


def _plain(address: str) -> str:
    return address.removeprefix("file://").replace("s3a://", "s3://", 1)


def _shape(io: Any, file: TableFile) -> FileShape:
    with io.new_input(file.location).open() as stream:
        columns = pq.read_schema(stream)
    try:
        return FileShape(file.location, pyarrow_to_schema(columns).model_dump_json())
    except ValueError:
        return FileShape(file.location, None)
