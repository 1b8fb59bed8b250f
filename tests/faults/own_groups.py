"""Processes that a test starts in groups of their own, since they or their groups are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 300


@dataclass(slots=True)
class OwnGroups:
    """Runs modules, each in a process group of its own. What is left of the groups runs until `kill`."""

    log: Path
    _started: list[int] = field(default_factory=list)

    def run(self, module: str, *arguments: object) -> int:
        """Return how the process ended: its exit code, or less than 0 for a signal."""
        command = [sys.executable, "-m", module, *map(str, arguments)]
        with (
            self.log.open("wb") as log,
            subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True) as process,
        ):
            self._started.append(process.pid)
            try:
                return process.wait(SECONDS)
            finally:
                process.kill()

    def kill(self) -> None:
        for group in self._started:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
