"""The rows that a reader of a snapshot sees, counted in its manifests and position deletes.

Summaries cannot say it: a position delete stays when its data file is dropped, and two may name the same row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Snapshot
from pyroaring import BitMap64

from frazil.adapters.iceberg.position_deletes import positions
from frazil.adapters.iceberg.recent import Recent
from frazil.adapters.iceberg.undecodable import UndecodableFileError, decoding, warn_once
from frazil.model.errors import CatalogError

COUNTS_KEPT = 1_024

Marks = dict[str, BitMap64]
"""The positions of deleted rows by data file."""


@dataclass(frozen=True, slots=True)
class _Count:
    """The live rows of a snapshot; None if its manifests show that they cannot be counted."""

    rows: int | None


class LiveRows:
    """Counts a snapshot once: snapshots never change."""

    def __init__(self) -> None:
        self._counted: Recent[_Count] = Recent(COUNTS_KEPT)

    def count(self, io: FileIO, snapshot: Snapshot) -> int | None:
        """Return the number of live rows, or None if there are equality deletes or files that cannot be parsed.

        Raises CatalogError if storage does not answer.
        """
        known = self._counted.get(snapshot.manifest_list)
        if known is not None:
            return known.rows
        try:
            with counting(f"rows of snapshot {snapshot.snapshot_id}"):
                found = live_rows(io, snapshot.manifests(io))
        except (FileNotFoundError, ValueError):
            return None  # a file may be missing for a moment only: try again next time
        self._counted.put(snapshot.manifest_list, _Count(found), weight=1)
        return found


@contextmanager
def counting(what: str) -> Iterator[None]:
    """Raise CatalogError if storage does not answer; errors of missing and damaged files propagate.

    A file that cannot be decoded is logged.
    """
    try:
        yield
    except UndecodableFileError as undecodable:
        warn_once(undecodable.path, undecodable.problem)
        raise
    except (FileNotFoundError, ValueError):
        raise
    except Exception as problem:
        raise CatalogError(
            f"the {what} cannot be counted: {type(problem).__name__}: {problem}",
            hint="check the credentials, the network and `catalog` in frazil.yaml",
        ) from problem


def live_rows(io: FileIO, manifests: Iterable[ManifestFile]) -> int | None:
    """Holds the marks of deleted rows in memory, and one manifest of data files at a time."""
    by_content: dict[ManifestContent, list[ManifestFile]] = defaultdict(list)
    for manifest in manifests:
        by_content[manifest.content].append(manifest)
    deletes = list(files_in(io, by_content[ManifestContent.DELETES]))
    if any(file.content is not DataFileContent.POSITION_DELETES for file in deletes):
        return None
    marks = marks_of(io, deletes)
    return sum(
        file.record_count - len(marks.get(file.file_path, ()))
        for file in files_in(io, by_content[ManifestContent.DATA])
    )


def files_in(io: FileIO, manifests: Iterable[ManifestFile]) -> Iterator[DataFile]:
    return (entry.data_file for manifest in manifests for entry in manifest.fetch_manifest_entry(io))


def marks_of(io: FileIO, deletes: Iterable[DataFile]) -> Marks:
    marks: Marks = defaultdict(BitMap64)
    for file in deletes:
        with decoding(io, file.file_path):
            for path, rows in positions(io, file):
                marks[path].update(rows.to_numpy())
    return marks
