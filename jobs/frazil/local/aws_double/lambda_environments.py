"""Lambda's execution environments: a process that runs one invocation after another until it has been idle for a while.

As in AWS, modules of a function are imported once, an environment runs one invocation at a time, and a changed function
gets new environments. Importing boto3 takes a second, and the rotation of a key takes four invocations.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import threading
import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frazil.local.aws_double.children import Child
from frazil.local.aws_double.log_streams import CopiedLog

IDLE_SECONDS = 60.0
MOST_SECONDS = 900.0
"""The age at which an environment is not used again: its credentials expire."""
MOST_IDLE = 8
"""How many idle environments of one function are kept, each of some 60 MB: as many as there are keys to rotate."""
LOOK_SECONDS = 0.05
EVENTS, ANSWERS = "events", "answers"
"""The named pipes in an environment's folder: one line of JSON for each invocation."""


def make_pipes(folder: Path) -> None:
    for name in (EVENTS, ANSWERS):
        os.mkfifo(folder / name, 0o600)


@dataclass(slots=True, eq=False)
class ExecutionEnvironment:
    """The process of a function. `log` copies `output`, which holds all that the process printed."""

    folder: Path
    child: Child
    output: Path
    log: CopiedLog
    began: float = field(default_factory=time.monotonic)
    _events: int = -1
    _answers: int = -1
    _read_bytes: int = 0
    _idle: threading.Timer | None = None

    def __post_init__(self) -> None:
        # open for both directions, a pipe opens without waiting for the process
        both = os.O_RDWR | os.O_NONBLOCK
        self._events, self._answers = (os.open(self.folder / name, both) for name in (EVENTS, ANSWERS))

    def ask(self, asked: Mapping[str, Any], *, within_seconds: float) -> dict[str, Any] | None:
        """Run one invocation. Return its result, or None if the process ended first or takes longer."""
        deadline = time.monotonic() + within_seconds
        unsent, answer = json.dumps(asked).encode() + b"\n", b""
        while not answer.endswith(b"\n"):
            ended = self.status() is not None
            wants = [self._events] if unsent else []
            readable, writable, _ = select.select([self._answers], wants, [], LOOK_SECONDS)
            if writable:
                unsent = unsent[os.write(self._events, unsent) :]
            elif readable:
                answer += os.read(self._answers, 65536)
            elif ended or time.monotonic() > deadline:
                return None
        found: dict[str, Any] = json.loads(answer)
        return found

    def status(self) -> int | None:
        """Return the exit status of the process, or None while it runs."""
        return self.child.wait(0)

    def printed(self) -> str:
        """Return what the process printed since the last call, and copy it to the log stream."""
        with self.output.open("rb") as file:
            file.seek(self._read_bytes)
            printed = file.read()
        self._read_bytes += len(printed)
        self.log.copy()
        return printed.decode("utf-8", "replace")

    def end(self) -> None:
        self.child.end(grace_seconds=0)
        self.log.finish()
        for pipe in (self._events, self._answers):
            os.close(pipe)
        shutil.rmtree(self.folder, ignore_errors=True)


class IdleEnvironments:
    """Environments between two invocations, by the configuration of their function."""

    def __init__(self, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._changing = threading.Lock()
        self._idle: dict[Hashable, list[ExecutionEnvironment]] = {}

    def take(self, configuration: Hashable) -> ExecutionEnvironment | None:
        """Return an environment that can be used again, or None."""
        while (found := self._taken(configuration)) is not None:
            if found.status() is None and time.monotonic() < found.began + MOST_SECONDS:
                return found
            found.end()
        return None

    def keep(self, configuration: Hashable, environment: ExecutionEnvironment) -> None:
        """Keep an environment for the next invocation, or end it if there are enough."""
        with self._changing:
            idle = self._idle.setdefault(configuration, [])
            if len(idle) < MOST_IDLE:
                idle.append(environment)
                environment._idle = threading.Timer(self._idle_seconds, self._expire, (configuration, environment))
                environment._idle.daemon = True
                environment._idle.start()
                return
        environment.end()

    def _taken(self, configuration: Hashable) -> ExecutionEnvironment | None:
        with self._changing:
            idle = self._idle.get(configuration, [])
            found = idle.pop() if idle else None
        if found is not None and found._idle is not None:
            found._idle.cancel()
        return found

    def _expire(self, configuration: Hashable, environment: ExecutionEnvironment) -> None:
        with self._changing:
            idle = self._idle.get(configuration, [])
            if environment not in idle:
                return
            idle.remove(environment)
            if not idle:
                del self._idle[configuration]
        with contextlib.suppress(Exception):  # the log group may be gone
            environment.end()
