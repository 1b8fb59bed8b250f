"""Puffin files of one blob, which a snapshot has as its statistics (Iceberg specification, "Puffin file format").

Expiry keeps a snapshot's statistics, and the removal of orphan files knows them. The table's metadata names the file
without its blob: PyIceberg fails to read a table whose statistics have blobs of a type that it does not know.
"""

from __future__ import annotations

import uuid

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.puffin import MAGIC_BYTES, Footer, PuffinBlobMetadata, PuffinFile
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import SetStatisticsUpdate
from zstandard import ZstdError

from frazil.model.remembered import PuffinFile as StoredFile

BLOB_TYPE = "frazil-deletes-v1"
_LEVEL = 1
_NO_FLAGS = bytes(4)


def write_blob(io: FileIO, metadata: TableMetadata, content: bytes) -> StoredFile:
    """Write a file into the metadata folder of a table, computed from its current snapshot."""
    locations = load_location_provider(metadata.location, metadata.properties)
    path = locations.new_metadata_location(f"{uuid.uuid4()}-deletes.puffin")
    head = metadata.current_snapshot()
    blob = pa.Codec("zstd", _LEVEL).compress(content, asbytes=True)
    named = PuffinBlobMetadata(
        type=BLOB_TYPE,
        fields=[],
        **{
            "snapshot-id": -1 if head is None else head.snapshot_id,
            "sequence-number": -1 if head is None else head.sequence_number or 0,
            "compression-codec": "zstd",
        },
        offset=len(MAGIC_BYTES),
        length=len(blob),
    )
    payload = Footer(blobs=[named]).model_dump_json(by_alias=True, exclude_none=True).encode()
    footer = MAGIC_BYTES + payload + len(payload).to_bytes(4, "little") + _NO_FLAGS + MAGIC_BYTES
    whole = MAGIC_BYTES + blob + footer
    with io.new_output(path).create() as stream:
        stream.write(whole)
    return StoredFile(path, len(whole), len(footer))


def read_blob(io: FileIO, path: str) -> bytes | None:
    """Return the content of the only blob; None if the file is gone, or is not one of ours."""
    try:
        with io.new_input(path).open() as stream:
            content = stream.read()
    except FileNotFoundError:
        return None
    try:
        found = PuffinFile(content)
        (blob,) = found.footer.blobs
        return found.get_blob_payload(blob)
    except (ValueError, IndexError, ZstdError):
        return None


def as_statistics(file: StoredFile, snapshot_id: int) -> SetStatisticsUpdate:
    """Return the update that makes the file the statistics of a snapshot."""
    statistics = StatisticsFile(
        **{
            "snapshot-id": snapshot_id,
            "statistics-path": file.path,
            "file-size-in-bytes": file.size,
            "file-footer-size-in-bytes": file.footer,
            "blob-metadata": [],
        }
    )
    return SetStatisticsUpdate(statistics=statistics)
