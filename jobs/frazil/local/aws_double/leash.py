"""Run a command that never outlives its owner: `python leash.py COMMAND...`, the owner's end of a pipe as input.

The owner writes the seconds that the command has between SIGTERM and SIGKILL; when the pipe closes, because the owner
ended in whatever way, they are END_SECONDS. The command and its children are one process group. Standard library
only: the file is run by itself, without site-packages, in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

END_SECONDS = 2.0
LOOK_SECONDS = 0.1


def hold(command: Sequence[str], owner: int) -> int:
    """The command's exit status, as a shell tells it: 128 and the number of the signal where one ended it."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    while child.poll() is None:
        if select.select([owner], [], [], LOOK_SECONDS)[0]:
            _end(child, within_seconds=_asked_seconds(os.read(owner, 64)))
    _signal_group(child, signal.SIGKILL)  # what the command left behind
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _asked_seconds(written: bytes) -> float:
    return float(written.split()[0]) if written.strip() else END_SECONDS


def _end(child: subprocess.Popen[bytes], *, within_seconds: float) -> None:
    _signal_group(child, signal.SIGTERM)
    deadline = time.monotonic() + within_seconds
    while (child.poll() is None or _has_living(child.pid)) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    _signal_group(child, signal.SIGKILL)
    child.wait()


def _has_living(group: int) -> bool:
    """Return whether any process of the group runs that is not a zombie."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    states = [stat.rpartition(")")[2].split()[:3] for stat in map(_text, Path("/proc").glob("[0-9]*/stat")) if stat]
    return not states or any(int(of) == group and state not in "ZX" for state, _, of in states)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _signal_group(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
        os.killpg(child.pid, number)


if __name__ == "__main__":
    sys.exit(hold(sys.argv[1:], sys.stdin.fileno()))
