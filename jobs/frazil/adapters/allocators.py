"""Memory allocators, set up so that a process gives back what it frees."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Parameters of glibc's `mallopt`."""

LARGE_BYTES = 128 << 10
"""From this size on, a freed block goes back to the operating system at once."""


def give_back_freed_memory() -> None:
    """Let Arrow use the system's allocator, and glibc one arena instead of one per thread.

    For commands that pass large blocks from thread to thread: each arena and Arrow's own pool would keep what is freed.
    To be called before threads start. Where the C library is another one, only Arrow's part is done.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    mallopt = _of_glibc("mallopt")
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)


@contextmanager
def peak_given_back() -> Iterator[None]:
    """Let Arrow use the system's allocator for work that needs much memory, and give back what is free after it.

    Arrow's own pool keeps about half of such a peak, even after `release_unused`. Where the C library is not glibc,
    only the allocator changes.
    """
    usual = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(usual)
        malloc_trim = _of_glibc("malloc_trim")
        if malloc_trim is not None:
            malloc_trim(0)


def _of_glibc(name: str) -> Callable[..., int] | None:
    """Return a function that glibc adds to the C library, or None where the library is another one."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
