"""Keep other runs out of an environment while one works on its files."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from frazil.model.errors import ServiceError


@contextmanager
def alone(environment: str, folder: Path) -> Iterator[None]:
    """Hold the lock of the environment, whose files are in `folder`. Raises ServiceError if another run holds it.

    The system releases it when this process ends, even if it is killed; children do not inherit it.
    """
    file = folder.with_name(f"{folder.name}.running")
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = file.read_text(encoding="utf-8").strip()
            raise ServiceError(
                f"another run is in progress for the environment {environment}: process {other}",
                hint="wait until it ends",
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield
