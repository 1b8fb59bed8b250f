"""The width of a command's output."""

from __future__ import annotations

import os
import shutil
from typing import TextIO

WIDTH = 80
"""The width if the output is not a terminal and COLUMNS is not set."""


def width_of(stream: TextIO) -> int:
    """Return the columns of the terminal; without one, COLUMNS or 80."""
    if stream.isatty() and "COLUMNS" not in os.environ:
        try:
            return os.get_terminal_size(stream.fileno()).columns or WIDTH
        except OSError:
            return WIDTH
    return shutil.get_terminal_size((WIDTH, 24)).columns
