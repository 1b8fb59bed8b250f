"""Identities in a temporary file, divided by their first bits, so that each part fits in memory (decision 0067)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType

import numpy as np
import numpy.typing as npt

from frazil.verify import by_identity
from frazil.verify.by_identity import Numbers

IDENTITY_BYTES = 16
BLOCK = 1_000_000
"""So many identities are divided and written at once."""

MOST_PARTS = 1 << 12
IN_MEMORY_BYTES = 32_000_000
"""No file is made until the identities take more than this."""

HALVES = np.dtype([("first", np.int64), ("second", np.int64)])


class SpilledIdentities:
    """Takes identities in any order, and yields those of one part after the other, in the order of their first halves.

    The file is written once and read once, in blocks; each block is sorted by part. It has no name, so it is gone after
    a crash as well. `complete` becomes False if there is no temporary folder with room for all identities.
    """

    def __init__(self, *, rows: int, block: int = BLOCK) -> None:
        """Plan the parts for `rows` identities. One that is larger than the others takes several passes later."""
        parts = -(-rows // max(by_identity.MOST_HELD // 2, 1))
        self._bits = max((min(parts, MOST_PARTS) - 1).bit_length(), 1)
        self.complete = _has_room(rows)
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES)  # noqa: SIM115 - closed with this object
        self._block = np.empty(min(block, max(rows, 1)), HALVES)
        self._held = 0
        self._bounds: list[npt.NDArray[np.int32]] = []
        self._begins: list[int] = [0]

    def __enter__(self) -> SpilledIdentities:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # of a full disk, once more
            self._file.close()

    @property
    def parts(self) -> int:
        return 1 << self._bits

    def add(self, first: Numbers, second: Numbers) -> None:
        done = 0
        while done < len(first) and self.complete:
            taken = min(len(first) - done, len(self._block) - self._held)
            room = self._block[self._held : self._held + taken]
            room["first"], room["second"] = first[done : done + taken], second[done : done + taken]
            self._held += taken
            done += taken
            if self._held == len(self._block):
                self._write()

    def finish(self) -> bool:
        """Write what is left, and return whether the parts are complete."""
        self._write()
        return self.complete

    def part(self, number: int) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield the identities of a part, those of one block at a time. Call `finish` first."""
        for begin, bounds in zip(self._begins, self._bounds, strict=False):
            start, end = bounds[number : number + 2].tolist()
            if start < end:
                self._file.seek((begin + start) * IDENTITY_BYTES)
                found = np.frombuffer(self._file.read((end - start) * IDENTITY_BYTES), HALVES)
                yield found["first"], found["second"]

    def _write(self) -> None:
        if not self._held:
            return
        block = self._block[: self._held]
        part = (block["first"] >> (64 - self._bits)) + self.parts // 2
        order = np.argsort(part.astype(np.uint16), kind="stable")
        self._bounds.append(np.searchsorted(part[order], np.arange(self.parts + 1)).astype(np.int32))
        self._begins.append(self._begins[-1] + self._held)
        self._held = 0
        try:
            self._file.write(block[order].tobytes())
            self._file.flush()
        except OSError:  # the disk is full, of files of others
            self.complete = False


def _has_room(rows: int) -> bool:
    """Return whether the identities of so many rows take at most half of what the temporary folder has free."""
    needed = IDENTITY_BYTES * rows
    if needed <= IN_MEMORY_BYTES:
        return True
    try:
        return 2 * needed <= shutil.disk_usage(tempfile.gettempdir()).free
    except OSError:  # no such folder, or none that a file can be written to
        return False
