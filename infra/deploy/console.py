"""Write to the terminal; a reader that is gone, such as a closed terminal or an ended `tee`, stops nothing."""

from __future__ import annotations

import os
import sys
from typing import TextIO


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
    except OSError:  # a broken pipe, or EIO of a terminal that was closed
        _discard(stream)


def _discard(stream: TextIO) -> None:
    """Send all that is written to the stream from now on to nowhere; Python also flushes it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
