"""Follow the file that a process appends its output to."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO

POLL_SECONDS = 0.1


@dataclass(slots=True)
class Tail:
    """Reads a file from `position` on, without moving the offset that the process may share."""

    file: BinaryIO
    position: int

    def lines(self, process: subprocess.Popen[bytes]) -> Iterator[str]:
        """Yield the unread lines until the process has ended; may be called again after an interruption."""
        has_ended = False
        while not has_ended:
            has_ended = _has_ended(process)  # before reading, so that the last lines are read too
            for line in BytesIO(self._unread()):
                if line.endswith(b"\n") or has_ended:
                    self.position += len(line)
                    yield line.decode(errors="replace").rstrip("\r\n")

    def _unread(self) -> bytes:
        file = self.file.fileno()
        return os.pread(file, os.fstat(file).st_size - self.position, self.position)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True
