"""The child processes of the double: job runs and Lambda functions. They end when the double ends."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from frazil.local.aws_double import leash

MARGIN_SECONDS = 10.0


class Child:
    """A running command. Its exit status follows the shell's convention: 128 plus the number of a fatal signal."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def stop(self, *, grace_seconds: float) -> None:
        """Send SIGTERM now and SIGKILL after `grace_seconds`. Return without waiting."""
        with contextlib.suppress(OSError):  # the child has already ended
            if self._process.stdin is not None:
                self._process.stdin.write(f"{grace_seconds}\n".encode())

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Return the exit status, or None if the command still runs after the timeout."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_seconds)
        return None

    def end(self, *, grace_seconds: float) -> int | None:
        """Stop the command and wait. Return its exit status, or None if it could not be stopped in time."""
        self.stop(grace_seconds=grace_seconds)
        return self.wait(grace_seconds + MARGIN_SECONDS)


def run(command: Sequence[str], *, environment: Mapping[str, str], folder: Path, stdout: Path, stderr: Path) -> Child:
    """Start a command in `folder`. It inherits no environment variables other than `environment`."""
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
