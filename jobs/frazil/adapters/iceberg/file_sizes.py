"""The sizes of a snapshot's newest data files, from as few manifests as a look at many tables can afford."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from frazil.adapters.iceberg.live_rows import files_in
from frazil.adapters.iceberg.recent import Recent
from frazil.adapters.iceberg.scan import reading

MOST_MANIFESTS = 16
"""Manifests that are read for one table: on S3, each is a request."""

SIZES_KEPT = 200_000

_sizes: Recent[tuple[int, ...]] = Recent(SIZES_KEPT)
"""The sizes of the live data files of each manifest, which never changes once it is written."""


def newest_file_sizes(identifier: str, io: FileIO, snapshot: Snapshot, most: int) -> Sequence[int]:
    """Return the sizes in bytes of at most `most` data files, those that were added last first. Raises CatalogError."""
    with reading(identifier):
        return tuple(islice(_newest_first(io, snapshot), most))


def _newest_first(io: FileIO, snapshot: Snapshot) -> Iterator[int]:
    manifests = [each for each in snapshot.manifests(io) if each.content is ManifestContent.DATA]
    manifests.sort(key=lambda each: each.sequence_number, reverse=True)
    for manifest in manifests[:MOST_MANIFESTS]:
        yield from _sizes_in(io, manifest)


def _sizes_in(io: FileIO, manifest: ManifestFile) -> tuple[int, ...]:
    known = _sizes.get(manifest.manifest_path)
    if known is None:
        known = tuple(file.file_size_in_bytes for file in files_in(io, [manifest]))
        _sizes.put(manifest.manifest_path, known, weight=1 + len(known))
    return known
