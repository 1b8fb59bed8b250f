"""The processes that the double runs for others: job runs and Lambda functions. None of them outlives it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from frazil.local.aws_double import leash

MARGIN_SECONDS = 10.0


class Child:
    """A running command. Its exit status is a shell's: 128 and more where a signal ended it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def stop(self, *, grace_seconds: float) -> None:
        """SIGTERM now, SIGKILL after the grace; does not wait."""
        with contextlib.suppress(OSError):  # it ended already
            if self._process.stdin is not None:
                self._process.stdin.write(f"{grace_seconds}\n".encode())

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """The exit status, or None if it still runs after the timeout."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_seconds)
        return None

    def end(self, *, grace_seconds: float) -> int | None:
        """Stop it and wait."""
        self.stop(grace_seconds=grace_seconds)
        return self.wait(grace_seconds + MARGIN_SECONDS)


def run(command: Sequence[str], *, environment: Mapping[str, str], folder: Path, stdout: Path, stderr: Path) -> Child:
    """Start a command in `folder` with exactly this environment."""
    with stdout.open("ab") as output, stderr.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-E", "-S", leash.__file__, *command],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            start_new_session=True,
            bufsize=0,
        )
    return Child(process)
