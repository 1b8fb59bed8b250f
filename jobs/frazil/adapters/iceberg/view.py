"""A table's metadata as `model/snapshot.py` shows it. Snapshots are made when they are looked at."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType

from frazil.adapters.iceberg.avro_header import NoAvroHeaderError, read_header
from frazil.adapters.iceberg.file_sizes import newest_file_sizes
from frazil.adapters.iceberg.filled_columns import filled_columns
from frazil.adapters.iceberg.known_layouts import layout_of
from frazil.adapters.iceberg.snapshots import DOCUMENT_KEY
from frazil.model.masked import masked_as
from frazil.model.snapshot import Snapshot, SourceChange, TableView
from frazil.model.unions import marked

CountLive = Callable[[FileIO, Any], int | None]
"""From storage and the library's own snapshot to the number of rows that a reader sees."""

CompareSources = Callable[[Table, Any, Any, Sequence[str]], SourceChange | None]
"""From two of the library's own snapshots to what the later ones did to the sources of rows."""

ReadDocument = Callable[[FileIO, str], bytes | None]
"""From storage and the address of a manifest list to the document in its header."""


def view_of(identifier: str, table: Table, read: ReadDocument, count: CountLive, compare: CompareSources) -> TableView:
    metadata = table.metadata
    refs = metadata.refs
    layout = layout_of(metadata)
    return TableView(
        identifier=identifier,
        location=metadata.location,
        head=metadata.current_snapshot_id,
        branches={n: r.snapshot_id for n, r in refs.items() if r.snapshot_ref_type == SnapshotRefType.BRANCH},
        tags={n: r.snapshot_id for n, r in refs.items() if r.snapshot_ref_type == SnapshotRefType.TAG},
        snapshots=_Snapshots(identifier, table, read, count, compare),
        properties=dict(metadata.properties),
        columns=masked_as(marked(layout.columns, metadata.properties), metadata.properties),
        format_version=metadata.format_version,
        schema_json=layout.schema_json,
        partition_spec_json=layout.partition_spec_json,
        partition_fields=layout.partition_fields,
        current=table,
        uuid=str(metadata.table_uuid),
        partition_names=_partition_names(metadata),
        sort_order_json=layout.sort_order_json,
        sort_fields=layout.sort_fields,
    )


def _partition_names(metadata: TableMetadata) -> frozenset[str]:
    fields = (field for spec in metadata.partition_specs for field in spec.fields)
    return frozenset(field.name for field in fields) - {field.name for field in metadata.schema().fields}


def read_document(io: FileIO, manifest_list: str) -> bytes | None:
    """Return the state document in the header of a manifest list; None where there is none. Raises OSError."""
    try:
        with io.new_input(manifest_list).open(seekable=False) as stream:
            held = read_header(stream).get(DOCUMENT_KEY)
        return None if held is None else base64.b64decode(held, validate=True)
    except (FileNotFoundError, NoAvroHeaderError, ValueError):
        return None


class _Snapshots(Mapping[int, Snapshot]):
    def __init__(
        self, identifier: str, table: Table, read: ReadDocument, count: CountLive, compare: CompareSources
    ) -> None:
        self._identifier = identifier
        self._raw = {raw.snapshot_id: raw for raw in table.metadata.snapshots}
        self._table = table
        self._io = table.io
        self._read = read
        self._count = count
        self._compare = compare

    def __getitem__(self, snapshot_id: int) -> Snapshot:
        raw: Any = self._raw[snapshot_id]
        summary = raw.summary
        return Snapshot(
            id=raw.snapshot_id,
            parent_id=raw.parent_snapshot_id,
            operation="" if summary is None else summary.operation.value,
            summary={} if summary is None else dict(summary.additional_properties),
            committed_at=datetime.fromtimestamp(raw.timestamp_ms / 1000, tz=UTC),
            manifest_list=raw.manifest_list or "",
            read_document=partial(self._read, self._io, raw.manifest_list),
            count_live=partial(self._count, self._io, raw),
            sources_since=partial(self._sources_since, raw),
            filled_columns=partial(filled_columns, self._identifier, self._table, raw),
            schema_id=raw.schema_id,
            newest_file_sizes=partial(newest_file_sizes, self._identifier, self._io, raw),
        )

    def _sources_since(self, raw: Any, before: int, names: Sequence[str]) -> SourceChange | None:
        return self._compare(self._table, self._raw[before], raw, names)

    def __contains__(self, snapshot_id: object) -> bool:
        return snapshot_id in self._raw

    def __iter__(self) -> Iterator[int]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)
