"""Print tables of results, in colour on a terminal. Columns are dropped until the rest fits; names are never cut."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from frazil.cli.screen import width_of

GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """A column of text. The column with the greatest `rank` is dropped first; rank 0 is never dropped."""

    name: str
    cells: tuple[str, ...]
    rank: int = 0
    is_number: bool = True

    @property
    def width(self) -> int:
        return max(map(len, (self.name, *self.cells)))

    def padded(self) -> Iterator[str]:
        for cell in (self.name, *self.cells):
            yield cell.rjust(self.width) if self.is_number else cell.ljust(self.width)


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the columns that fit, in their order."""
    left = list(columns)
    while any(each.rank for each in left) and sum(each.width + len(GAP) for each in left) - len(GAP) > width:
        left.remove(max(left, key=lambda each: each.rank))
    return left


STYLES = {
    "caught up": "green",
    "ok": "green",
    "behind": "yellow",
    "lag unknown": "yellow",
    "warning": "yellow",
    "paused": "red",
    "in trouble": "red",
    "no table": "red",
    "failed": "red",
    "overdue": "red",
}
"""The colours of cells by their exact text."""


def show(columns: Sequence[Column]) -> None:
    """Print a table to stdout, in colour on a terminal, else as plain text."""
    chosen = fitting(columns, width_of(sys.stdout))
    if not sys.stdout.isatty():
        for row in zip(*(each.padded() for each in chosen), strict=True):
            print(GAP.join(row).rstrip())
        return
    from rich.console import Console  # noqa: PLC0415 - only terminals need it
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False)
    for number, row in enumerate(zip(*(each.padded() for each in chosen), strict=True)):
        cells = [(cell, STYLES.get(cell.strip(), "") if number else "bold") for cell in row]
        console.print(Text(GAP).join(Text(cell, style) for cell, style in cells), soft_wrap=True)


def print_line(line: str, out: TextIO, *, head: str, style: str | None = None) -> None:
    """Print a line that begins with `head`, which a terminal shows in colour: `style`, or the one in STYLES."""
    if not out.isatty() or not line.startswith(head):
        print(line, file=out, flush=True)
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    painted = Text.assemble((head, style or STYLES.get(head, "")), line.removeprefix(head))
    Console(file=out, highlight=False).print(painted, soft_wrap=True)
