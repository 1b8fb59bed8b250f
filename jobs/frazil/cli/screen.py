"""The width of a command's output, and lines that fit it."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from typing import TextIO

WIDTH = 80
"""The width if the output is not a terminal and COLUMNS is not set."""

NO_BREAK = "\u00a0"
WHOLE = re.compile(r"`[^`]*`|\S+ \[\d+, \d+\)")
"""What is not broken: a command in backquotes, so that it can be copied, and a partition with its offsets."""


def width_of(stream: TextIO) -> int:
    """Return the columns of the terminal; without one, COLUMNS or 80."""
    if stream.isatty() and "COLUMNS" not in os.environ:
        try:
            return os.get_terminal_size(stream.fileno()).columns or WIDTH
        except OSError:
            return WIDTH
    return shutil.get_terminal_size((WIDTH, 24)).columns


def shortened(text: str, width: int) -> str:
    """Return a value's text, cut with `…` if it is longer than `width`. Names are never cut."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def print_lines(lines: Iterable[str], out: TextIO, *, hanging: int = 2) -> None:
    """Print lines at once, as `fitting_lines`."""
    print("\n".join(fitting_lines(lines, out, hanging=hanging)), file=out, flush=True)


def fitting_lines(lines: Iterable[str], out: TextIO, *, hanging: int = 2) -> Iterator[str]:
    """Yield lines unchanged, or broken between words for a terminal, the rest indented by `hanging` more."""
    width = width_of(out) if out.isatty() else None
    for line in lines:
        for part in line.split("\n"):
            yield from _broken(part, width, hanging)


def _broken(line: str, width: int | None, hanging: int) -> Iterator[str]:
    if width is None or len(line) <= width:
        yield line
        return
    indent = " " * (len(line) - len(line.lstrip()))
    broken = textwrap.wrap(
        WHOLE.sub(lambda found: found[0].replace(" ", NO_BREAK), line.strip()),
        width,
        initial_indent=indent,
        subsequent_indent=indent + " " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from (part.replace(NO_BREAK, " ") for part in broken)
