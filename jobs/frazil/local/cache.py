"""The folder that all checkouts of one user share, and the lock that keeps two processes apart."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """Return `FRAZIL_CACHE` if it is set, else `~/.cache/frazil`."""
    return Path(os.environ.get("FRAZIL_CACHE") or Path.home() / ".cache" / "frazil").absolute()


@contextmanager
def exclusively(lock_file: Path) -> Iterator[None]:
    """Hold a lock on `lock_file` during the block. The kernel releases it if the process dies."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
