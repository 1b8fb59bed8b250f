"""Memory allocators, set up so that a process gives back what it frees."""

from __future__ import annotations

import ctypes
import sys

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
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
