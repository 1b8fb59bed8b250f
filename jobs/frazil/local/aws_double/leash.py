"""Run a command that never outlives its owner: `python leash.py COMMAND...`, the owner's end of a pipe as input.

The owner stops the command by writing the number of seconds between SIGTERM and SIGKILL. If the pipe closes, because
the owner has ended, END_SECONDS is used. The command and its children form one process group. This script imports only
the standard library and runs without site-packages, so it starts in a few milliseconds.
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
    """Run the command. Return its exit status; as in a shell, 128 plus the signal's number if a signal ended it."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    while child.poll() is None:
        if select.select([owner], [], [], LOOK_SECONDS)[0]:
            _end(child, within_seconds=_asked_seconds(os.read(owner, 64)))
    _signal_group(child, signal.SIGKILL)  # children that the command left behind
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
    """Return whether the group has a process that is not a zombie."""
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
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS raises the latter for zombies
        os.killpg(child.pid, number)


if __name__ == "__main__":
    sys.exit(hold(sys.argv[1:], sys.stdin.fileno()))
