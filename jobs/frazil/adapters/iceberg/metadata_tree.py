"""The files of a table as a tree: metadata, the list of manifests, manifests, and data files, as the table names them.

Iceberg specification, "Overview" and "Manifests": https://iceberg.apache.org/spec/#overview
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, PrimitiveType

from frazil.adapters.iceberg.scan import reading
from frazil.model.snapshot import TableView


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A data file or a file of deletes, with what its manifest records.

    `partition` are the values by which the file is partitioned, as people read them, by the partition field's name.
    `bounds` are the least and greatest value of one column, if the manifest has them; texts may be cut.
    """

    path: str
    rows: int
    size: int
    deletes: bool
    partition: Mapping[str, str]
    bounds: tuple[object, object] | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest of the snapshot, with the files that the snapshot still has. `added_by` wrote it."""

    path: str
    size: int
    added_by: int
    files: tuple[NamedFile, ...]


@dataclass(frozen=True, slots=True)
class MetadataTree:
    """What readers follow from the catalog down to the rows of one snapshot. Sizes are bytes."""

    metadata_file: str
    metadata_size: int
    former_files: int
    """Metadata files of earlier commits that the newest one still names."""

    schemas: int
    list_size: int
    manifests: tuple[Manifest, ...]


def metadata_tree(view: TableView, *, bounds_of: str) -> MetadataTree:
    """Read the tree of the view's head: the list of manifests and each manifest, but no data file.

    `bounds_of` names the column whose bounds are read. Raises CatalogError if a file cannot be read.
    """
    table: Table = view.current
    head = table.snapshot_by_id(view.head) if view.head is not None else None
    with reading(view.identifier):
        manifests = [] if head is None else head.manifests(table.io)
        return MetadataTree(
            metadata_file=table.metadata_location,
            metadata_size=_size(table.io, table.metadata_location),
            former_files=len(table.metadata.metadata_log),
            schemas=len(table.metadata.schemas),
            list_size=0 if head is None else _size(table.io, head.manifest_list),
            manifests=tuple(_manifest(table, each, bounds_of) for each in manifests),
        )


def _size(io: FileIO, path: str) -> int:
    return len(io.new_input(path))


def _manifest(table: Table, manifest: ManifestFile, bounds_of: str) -> Manifest:
    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    schema, spec = table.schema(), table.specs()[manifest.partition_spec_id]
    types = {field.field_id: field.field_type for each in table.schemas().values() for field in each.fields}
    return Manifest(
        path=manifest.manifest_path,
        size=manifest.manifest_length,
        added_by=manifest.added_snapshot_id or 0,
        files=tuple(
            NamedFile(
                path=file.file_path,
                rows=file.record_count,
                size=file.file_size_in_bytes,
                deletes=file.content is not DataFileContent.DATA,
                partition=_partition(file, spec, types),
                bounds=_bounds(file, schema, bounds_of),
            )
            for file in (entry.data_file for entry in entries)
        ),
    )


def _partition(file: DataFile, spec: PartitionSpec, types: Mapping[int, IcebergType]) -> dict[str, str]:
    """Return the partition's values, such as 2026-01-31 for a day. `types` are those of columns, by their ids."""
    return {
        field.name: field.transform.to_human_string(types[field.source_id], file.partition[place])
        for place, field in enumerate(spec.fields)
    }


def _bounds(file: DataFile, schema: Schema, column: str) -> tuple[object, object] | None:
    if column not in schema.column_names:
        return None
    field = schema.find_field(column)
    lower, upper = (file.lower_bounds or {}).get(field.field_id), (file.upper_bounds or {}).get(field.field_id)
    if lower is None or upper is None or not isinstance(field.field_type, PrimitiveType):
        return None
    return from_bytes(field.field_type, lower), from_bytes(field.field_type, upper)
