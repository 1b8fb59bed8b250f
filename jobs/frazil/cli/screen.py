"""The terminal that a command writes to: its width, and whether there is one."""

from __future__ import annotations

import os
import shutil
from typing import TextIO

WIDTH = 80
"""Where the output is no terminal and COLUMNS is not set."""


def width_of(stream: TextIO) -> int:
    """Return the columns of the terminal; without one, COLUMNS or 80."""
    if stream.isatty() and "COLUMNS" not in os.environ:
        try:
            return os.get_terminal_size(stream.fileno()).columns or WIDTH
        except OSError:
            return WIDTH
    return shutil.get_terminal_size((WIDTH, 24)).columns
