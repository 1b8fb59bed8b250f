"""Copy a growing file into a log stream, as the AWS services do with the output of their processes."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BATCH_BYTES = 500_000  # PutLogEvents accepts 1,048,576 bytes per call and counts 26 bytes of overhead per event


@dataclass(slots=True)
class CopiedLog:
    """A file and its log stream. `copy` sends lines added since the last call; `finish` also sends a partial line."""

    logs: Any
    group: str
    stream: str
    file: Path
    _position: int = 0
    _exists: bool = field(default=False)

    def copy(self) -> None:
        while lines := self._next_lines():
            self._put(lines)

    def finish(self) -> None:
        self.copy()
        with self.file.open("rb") as written:
            written.seek(self._position)
            if last := written.read(BATCH_BYTES):
                self._put([last])

    def _next_lines(self) -> list[bytes]:
        with contextlib.suppress(FileNotFoundError), self.file.open("rb") as written:
            written.seek(self._position)
            whole = written.read(BATCH_BYTES).rpartition(b"\n")[0]
            self._position += len(whole) + 1 if whole else 0
            return whole.split(b"\n") if whole else []
        return []

    def _put(self, lines: list[bytes]) -> None:
        now = int(time.time() * 1000)
        events = [{"timestamp": now, "message": line.decode("utf-8", "replace")} for line in lines if line.strip()]
        if not self._exists:
            self._create()
        if events:
            self.logs.put_log_events(logGroupName=self.group, logStreamName=self.stream, logEvents=events)

    def _create(self) -> None:
        try:
            self._create_stream()
        except self.logs.exceptions.ResourceNotFoundException:
            with contextlib.suppress(self.logs.exceptions.ResourceAlreadyExistsException):
                self.logs.create_log_group(logGroupName=self.group)
            self._create_stream()
        self._exists = True

    def _create_stream(self) -> None:
        with contextlib.suppress(self.logs.exceptions.ResourceAlreadyExistsException):
            self.logs.create_log_stream(logGroupName=self.group, logStreamName=self.stream)
