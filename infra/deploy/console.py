"""Write to the terminal; a reader that is gone, such as a closed terminal or an ended `tee`, stops nothing."""

from __future__ import annotations

import errno
import os
import sys
from typing import TextIO

READER_IS_GONE = frozenset({errno.EPIPE, errno.EIO})
"""What a write to a closed pipe and to a closed terminal ends with."""


def tell(line: str) -> None:
    """Write a line of progress to stderr."""
    _write(sys.stderr, line)


def show(text: str) -> None:
    """Write a result to stdout."""
    _write(sys.stdout, text)


def _write(stream: TextIO, line: str) -> None:
    try:
        stream.write(f"{line}\n")  # one write per line, because some steps run concurrently
        stream.flush()
    except OSError as failed:
        if failed.errno not in READER_IS_GONE:
            raise
        _discard(stream)


def _discard(stream: TextIO) -> None:
    """Send all that is written to the stream from now on to nowhere; Python also flushes it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
