"""Every file that a table still needs, by its name: those of all snapshots, and those that nothing else names.

More files are taken for needed than are: a file too many stays in storage, a file too few is lost.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from frazil.adapters.iceberg.listing import READ_AT_ONCE
from frazil.model.snapshot import TableView
from frazil.model.summary import STATE_BYTES, state_in

METADATA_SUFFIXES = (".metadata.json", ".metadata.json.gz")

_GZIP = b"\x1f\x8b"


def plain(address: str) -> str:
    """Return an address as all of its spellings have it."""
    return address.removeprefix("file://").replace("s3a://", "s3://", 1).replace("s3n://", "s3://", 1)


def reachable(view: TableView) -> frozenset[str]:
    """Return the files of every snapshot, and with them of every branch and tag, whether they are live or removed.

    With them go metadata files, statistics, and what states and properties name. Raises what reading raises: then
    nothing is known.
    """
    table: Table = view.current
    metadata = table.metadata
    with ThreadPoolExecutor(READ_AT_ONCE) as pool:
        lists = pool.map(lambda snapshot: snapshot.manifests(table.io), metadata.snapshots)
        manifests = {each.manifest_path: each for listed in lists for each in listed}
        files = {path for paths in pool.map(lambda each: _named(table.io, each), manifests.values()) for path in paths}
    return frozenset(
        map(
            plain,
            (
                *files,
                *manifests,
                *(snapshot.manifest_list for snapshot in metadata.snapshots),
                *metadata_files(table),
                *_statistics(metadata),
                *_of_states(view),
            ),
        )
    )


def named_in_properties(view: TableView) -> str:
    """Return the text of all properties: a rebuild names files there that no snapshot has yet."""
    return "\n".join(view.properties.values())


def last_part(path: str) -> str:
    return path.rpartition("/")[2]


def table_in(io: FileIO, address: str) -> str | None:
    """Return the UUID of the table that a metadata file describes; None if it is gone or describes none."""
    try:
        return str(json.loads(content_of(io, address))["table-uuid"])
    except (FileNotFoundError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, KeyError, TypeError):
        return None


def metadata_files(table: Table) -> Iterator[str]:
    """Yield the table's metadata file, and those before it that it names."""
    yield table.metadata_location
    yield from (each.metadata_file for each in table.metadata.metadata_log)


def metadata_of_another(io: FileIO, uuid: str, addresses: Sequence[str]) -> str | None:
    """Return the first of these metadata files that describes another table; None if there is none."""
    with ThreadPoolExecutor(READ_AT_ONCE) as pool:
        found = zip(addresses, pool.map(lambda each: table_in(io, each), addresses), strict=True)
        return next((address for address, table in found if table not in {uuid, None}), None)


def content_of(io: FileIO, address: str) -> bytes:
    """Return what a file holds, decompressed if it is compressed with gzip."""
    with io.new_input(address).open() as stream:
        content = stream.read()
    return gzip.decompress(content) if content.startswith(_GZIP) else content


def log_actions(io: FileIO, path: str) -> list[Any]:
    """Return the actions in a file of a Delta log; of a checkpoint only those that add or remove files."""
    if not path.endswith(".parquet"):
        return [json.loads(line) for line in content_of(io, path).splitlines() if line.strip()]
    with io.new_input(path).open() as stream:
        known = pq.ParquetFile(stream)
        columns = [name for name in ("add", "remove") if name in known.schema_arrow.names]
        actions: list[Any] = known.read(columns=columns).to_pylist()
    return actions


def _named(io: FileIO, manifest: ManifestFile) -> list[str]:
    entries = manifest.fetch_manifest_entry(io, discard_deleted=False)
    return [entry.data_file.file_path for entry in entries]


def _statistics(metadata: TableMetadata) -> Iterator[str]:
    yield from (each.statistics_path for each in metadata.statistics)
    yield from (each.statistics_path for each in metadata.partition_statistics)


def _of_states(view: TableView) -> Iterator[str]:
    for snapshot in view.snapshots.values():
        if STATE_BYTES in snapshot.summary:
            remembered = state_in(snapshot).remembered
            if remembered is not None:
                yield remembered.file.path
