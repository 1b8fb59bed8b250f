"""The progress of a batch's running tasks: small files that tasks write and the driver adds up.

Only where driver and tasks share a disk. Spark's own accumulators arrive with the end of a task, which is too late.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from frazil.model.plan import OffsetRange
from frazil.ports import RecordReader
from frazil.records import OptionalFields, Records

FOLDER_PROPERTY = "frazil.progress.folder"
"""The local property of a Spark job that names the folder."""

WRITE_SECONDS = 0.5


@dataclass(slots=True)
class CountingReader:
    """A reader that keeps the number of offsets it has passed in a file (`ports.RecordReader`)."""

    reader: RecordReader
    file: Path
    offsets: int = 0
    _written_at: float = 0.0

    def read(self, ranges: Sequence[OffsetRange], optional: OptionalFields) -> Iterator[Iterator[Records]]:
        for wanted, chunks in zip(ranges, self.reader.read(ranges, optional), strict=True):
            yield self._counted(wanted.start, chunks)

    def _counted(self, position: int, chunks: Iterator[Records]) -> Iterator[Records]:
        for records in chunks:
            yield records
            self.offsets += records.next_offset - position
            position = records.next_offset
            self._write()

    def _write(self) -> None:
        now = time.monotonic()
        if now - self._written_at < WRITE_SECONDS:
            return
        self._written_at = now
        try:
            self.file.write_text(str(self.offsets), encoding="ascii")
        except OSError:
            return  # the driver has ended, or the disk is full: the task itself will say so


def offsets_read(folder: Path) -> int:
    """Return the offsets that all tasks of the folder have passed so far."""
    return sum(_number_in(file) for file in folder.iterdir()) if folder.is_dir() else 0


def _number_in(file: Path) -> int:
    """Return the number in the file, or 0 if a task is just writing it."""
    try:
        return int(file.read_text(encoding="ascii") or 0)
    except (OSError, ValueError):
        return 0
