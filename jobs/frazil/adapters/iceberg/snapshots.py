"""New snapshots: their manifests and manifest lists, written through PyIceberg's own writers.

The library's own snapshot builders copy the table's whole metadata several times a commit, give every file the
table's present partition spec, and write nothing of ours into a manifest list.
"""

from __future__ import annotations

import base64
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import cast

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestListWriterV2,
    ManifestWriter,
    write_manifest,
)
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.locations import LocationProvider, load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary, UpdateMetrics, update_snapshot_summaries
from pyiceberg.typedef import Record

from frazil.adapters.iceberg.delete_files import DeleteManifestWriter, files_named, write_deletes
from frazil.adapters.iceberg.known_manifests import known
from frazil.adapters.iceberg.manifests import Removal, removed_by, to_merge, with_files
from frazil.model.errors import CommitRejectedError, CountMismatchError
from frazil.model.ingested import DeletedRows, Deletion, ForgottenFiles, WrittenFile

DOCUMENT_KEY = "frazil.state"
"""The key of a manifest list's header that holds the state document, in Base64: PyIceberg reads headers as text."""

WRITTEN_AT_ONCE = 16
"""Files of deletes are small: what they cost on S3 is the wait for its answers."""

DELETES_VERSION = 2
"""The format version whose deletes are written. Version 3 has deletion vectors instead of new files of positions."""


@dataclass(slots=True)
class SnapshotWriter:
    """Writes one snapshot of a table and all files that it needs. Nothing refers to them before a commit does."""

    metadata: TableMetadata
    io: FileIO
    snapshot_id: int = field(init=False)
    _attempt: str = field(default_factory=lambda: str(uuid.uuid4()))
    _numbers: count[int] = field(default_factory=count)
    _locations: LocationProvider = field(init=False)

    def __post_init__(self) -> None:
        self.snapshot_id = self.metadata.new_snapshot_id()
        self._locations = load_location_provider(self.metadata.location, self.metadata.properties)

    def write(
        self,
        files: Sequence[WrittenFile],
        *,
        parent: int | None,
        summary: Mapping[str, str],
        document: bytes,
        timestamp_ms: int,
        deletes: Sequence[Deletion] = (),
        same_rows: bool = False,
    ) -> Snapshot:
        """Append `files` to the snapshot `parent`, and take rows out of its data files and out of these.

        With `same_rows`, the files have the rows of those that are dropped, and the snapshot says so.
        Raises CommitRejectedError where the partition spec of a file is gone, or a file with rows to delete.
        """
        data_files = [data_file(file) for file in files]
        before = None if parent is None else self.metadata.snapshot_by_id(parent)
        existing = [] if before is None else with_files(known(before.manifests(self.io)))
        delete_files = self._delete_files([d for d in deletes if isinstance(d, DeletedRows)], data_files, existing)
        removal = Removal({path for each in deletes for path in removed_by(each)})
        left = removal.left_of(self.io, existing)
        if any(isinstance(each, ForgottenFiles) for each in deletes):
            telling = [*removal.touched, *(each for each in left if each.deleted_files_count != 0)]
            left = [each for each in left if each.deleted_files_count == 0]
            rewritten = self._live_only(telling, removal)
        else:
            rewritten = [self._rewritten(manifest, removal) for manifest in removal.touched]
        manifests = [
            *self._manifests(delete_files),
            *self._manifests(data_files),
            *rewritten,
            *self._merged(left),
        ]
        sequence_number = self.metadata.next_sequence_number()
        return Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent,
            sequence_number=sequence_number,
            timestamp_ms=timestamp_ms,
            manifest_list=self._manifest_list(manifests, parent, sequence_number, document),
            summary=_summary([*data_files, *delete_files], removal.removed, before, summary, same_rows),
            schema_id=self.metadata.current_schema_id,
        )

    def _delete_files(
        self, deletes: Sequence[DeletedRows], added: Sequence[DataFile], existing: Sequence[ManifestFile]
    ) -> list[DataFile]:
        """Write a file for each data file that loses rows."""
        if not deletes:
            return []
        if self.metadata.format_version != DELETES_VERSION:
            found = self.metadata.format_version
            raise CommitRejectedError(
                f"rows are deleted in format version {DELETES_VERSION} only, the table has {found}"
            )
        named = files_named(self.io, deletes, added, existing)
        with ThreadPoolExecutor(WRITTEN_AT_ONCE) as pool:
            written = [pool.submit(write_deletes, self.io, self._delete_path(), d, named[d.path]) for d in deletes]
            return [each.result() for each in written]

    def _delete_path(self) -> str:
        return self._locations.new_data_location(f"{self._attempt}-d{next(self._numbers)}-deletes.parquet")

    def _manifests(self, files: Sequence[DataFile]) -> list[ManifestFile]:
        """Write one manifest for each partition spec among the files, which all are data files or all delete files."""
        by_spec: dict[int, list[DataFile]] = defaultdict(list)
        for file in files:
            by_spec[file.spec_id].append(file)
        return [self._manifest(spec_id, of_spec) for spec_id, of_spec in sorted(by_spec.items())]

    def _manifest(self, spec_id: int, files: Sequence[DataFile]) -> ManifestFile:
        with self._manifest_writer(spec_id, files[0].content) as writer:
            for file in files:
                entry = ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=self.snapshot_id, data_file=file
                )
                writer.add(entry)
        return writer.to_manifest_file()

    def _rewritten(self, manifest: ManifestFile, removal: Removal) -> ManifestFile:
        """Write a manifest without the files that are removed, which it names as deleted."""
        with self._manifest_writer(manifest.partition_spec_id, _content_of(manifest)) as writer:
            for entry in manifest.fetch_manifest_entry(self.io):
                (writer.delete if entry.data_file.file_path in removal.paths else writer.existing)(entry)
        return writer.to_manifest_file()

    def _live_only(self, manifests: Sequence[ManifestFile], removal: Removal) -> list[ManifestFile]:
        """Return manifests of the files that are left, which name no removed file."""
        written = []
        for manifest in manifests:
            entries = manifest.fetch_manifest_entry(self.io)
            kept = [entry for entry in entries if entry.data_file.file_path not in removal.paths]
            if not kept:
                continue
            with self._manifest_writer(manifest.partition_spec_id, _content_of(manifest)) as writer:
                for entry in kept:
                    writer.existing(entry)
            written.append(writer.to_manifest_file())
        return written

    def _merged(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """Return manifests with the same entries. Entries keep the snapshot that added them, as EXISTING ones."""
        small = to_merge(manifests)
        if not small:
            return list(manifests)
        entries = [entry for manifest in small for entry in manifest.fetch_manifest_entry(self.io)]
        others = [manifest for manifest in manifests if manifest not in small]
        if not entries:
            return others
        with self._manifest_writer(small[0].partition_spec_id, _content_of(small[0])) as writer:
            for entry in entries:
                writer.existing(entry)
        return [*others, writer.to_manifest_file()]

    def _manifest_writer(self, spec_id: int, content: DataFileContent = DataFileContent.DATA) -> ManifestWriter:
        spec = self.metadata.specs().get(spec_id)
        if spec is None:
            raise CommitRejectedError(
                f"files were written with partition spec {spec_id}, the table has {sorted(self.metadata.specs())}"
            )
        path = self._locations.new_metadata_location(f"{self._attempt}-m{next(self._numbers)}.avro")
        output, schema = self.io.new_output(path), self.metadata.schema()
        if content == DataFileContent.POSITION_DELETES:
            return DeleteManifestWriter(spec, schema, output, self.snapshot_id, self._compression)
        version = self.metadata.format_version
        return write_manifest(version, spec, schema, output, self.snapshot_id, self._compression)

    def _manifest_list(
        self, manifests: Sequence[ManifestFile], parent: int | None, sequence_number: int, document: bytes
    ) -> str:
        path = self._locations.new_metadata_location(f"snap-{self.snapshot_id}-0-{self._attempt}.avro")
        writer = ManifestListWriterV2(
            self.io.new_output(path), self.snapshot_id, parent, sequence_number, self._compression
        )
        if document:
            writer._meta[DOCUMENT_KEY] = base64.b64encode(document).decode()
        with writer:
            writer.add_manifests(list(manifests))
        return path

    @property
    def _compression(self) -> AvroCompressionCodec:
        name, default = TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
        return cast(AvroCompressionCodec, self.metadata.properties.get(name, default))


def _content_of(manifest: ManifestFile) -> DataFileContent:
    is_data = manifest.content == ManifestContent.DATA
    return DataFileContent.DATA if is_data else DataFileContent.POSITION_DELETES


def _summary(
    files: Sequence[DataFile],
    removed: Sequence[DataFile],
    before: Snapshot | None,
    ours: Mapping[str, str],
    same_rows: bool,
) -> Summary:
    """Count files and rows, and name no partitions: Python's datetimes end with the year 9999."""
    metrics = UpdateMetrics()
    for file in files:
        metrics.add_file(file)
    for file in removed:
        metrics.remove_file(file)
    deletes = bool(removed) or any(file.content != DataFileContent.DATA for file in files)
    changed = update_snapshot_summaries(
        Summary(Operation.OVERWRITE if deletes else Operation.APPEND, **metrics.to_dict(), **ours),
        None if before is None or before.summary is None else before.summary.additional_properties,
    )
    return Summary(Operation.REPLACE, **changed.additional_properties) if same_rows else changed


def check_figures(identifier: str, snapshot: Snapshot, figures: Mapping[str, int]) -> None:
    """Raise CountMismatchError unless a snapshot's summary has these figures. One that it lacks counts as 0."""
    said = {} if snapshot.summary is None else snapshot.summary.additional_properties
    found = {name: int(said.get(name, "0")) for name in figures}
    if found != figures:
        expected, there = (", ".join(f"{count} {name}" for name, count in each.items()) for each in (figures, found))
        raise CountMismatchError(
            f"{identifier}: files were to be rewritten with {there}, expected {expected}; nothing was changed",
            hint="this is a defect in Frazil: report it with the log; the table is intact",
        )


def data_file(file: WrittenFile) -> DataFile:
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat.PARQUET,
        partition=Record(*file.partition),
        record_count=file.rows,
        file_size_in_bytes=file.size,
        column_sizes=dict(file.column_sizes),
        value_counts=dict(file.value_counts),
        null_value_counts=dict(file.null_value_counts),
        nan_value_counts=dict(file.nan_value_counts),
        lower_bounds=dict(file.lower_bounds),
        upper_bounds=dict(file.upper_bounds),
        split_offsets=list(file.split_offsets) or None,
        key_metadata=None,
        equality_ids=None,
        sort_order_id=file.sort_order_id,
    )
    made.spec_id = file.spec_id
    return made


def added_files(table: Table, snapshot_id: int) -> list[WrittenFile]:
    """Return the data files that a snapshot added."""
    snapshot = table.snapshot_by_id(snapshot_id)
    manifests = [] if snapshot is None else snapshot.manifests(table.io)
    added = (m for m in manifests if (m.added_snapshot_id, m.content) == (snapshot_id, ManifestContent.DATA))
    entries = (entry for manifest in added for entry in manifest.fetch_manifest_entry(table.io))
    return [_written_file(entry.data_file) for entry in entries if entry.snapshot_id == snapshot_id]


def _written_file(file: DataFile) -> WrittenFile:
    return WrittenFile(
        path=file.file_path,
        rows=file.record_count,
        size=file.file_size_in_bytes,
        partition=tuple(file.partition[n] for n in range(len(file.partition))),
        spec_id=file.spec_id,
        column_sizes=file.column_sizes or {},
        value_counts=file.value_counts or {},
        null_value_counts=file.null_value_counts or {},
        nan_value_counts=file.nan_value_counts or {},
        lower_bounds=file.lower_bounds or {},
        upper_bounds=file.upper_bounds or {},
        split_offsets=tuple(file.split_offsets or ()),
        sort_order_id=file.sort_order_id,
    )
