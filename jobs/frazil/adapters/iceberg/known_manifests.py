"""Manifests whose entries are kept between the looks of one process: a manifest never changes once it is written.

A batch of a table that follows keys looks at all files of the table several times, and most of its manifests are those
of the batch before. Reading one again takes CPU for each of its entries, and a request to storage.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntry, ManifestFile

from frazil.adapters.iceberg.recent import Recent

MOST_ENTRIES = 10_000
"""Live entries that a process keeps: about 90 MB where tables have 25 columns."""

_KNOWN: Recent[Sequence[ManifestEntry]] = Recent(MOST_ENTRIES)


class KnownManifest(ManifestFile):
    """A manifest whose live entries are read once in a process. Callers must not change them."""

    def fetch_manifest_entry(self, io: FileIO, discard_deleted: bool = True) -> list[ManifestEntry]:
        if not discard_deleted:
            return super().fetch_manifest_entry(io, discard_deleted=False)
        key = f"{self.manifest_path} {self.sequence_number}"  # entries take the number from the list of manifests
        entries = _KNOWN.get(key)
        if entries is None:
            entries = super().fetch_manifest_entry(io)
            if len(entries) <= MOST_ENTRIES:
                _KNOWN.put(key, entries, weight=1 + len(entries))
        return list(entries)


def known(manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    """Return the same manifests, each of which is read once in this process."""
    return [KnownManifest(*each._data) for each in manifests]
