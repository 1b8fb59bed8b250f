"""Sections of bench/RESULTS.md: each benchmark replaces its own and leaves the others as they are.

What follows the line `NOTES` in a section was written by hand, and stays.
"""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path("bench/RESULTS.md")
NOTES = "<!-- Written by hand; stays when the benchmark writes this section again. -->\n"
_HEADING = re.compile(r"^## ", re.MULTILINE)


def put_first(text: str) -> None:
    """Replace what comes before the first heading of the second level."""
    there = RESULTS.read_text() if RESULTS.exists() else ""
    heading = _HEADING.search(there)
    RESULTS.write_text(text.rstrip("\n") + "\n" + ("" if heading is None else "\n" + there[heading.start() :]))


def put(title: str, text: str) -> None:
    """Replace the section with this title except for its notes, or add it at the end."""
    before, _, after = RESULTS.read_text().partition(f"## {title}\n")
    following = _HEADING.search(after)
    replaced, rest = (after, "") if following is None else (after[: following.start()], after[following.start() :])
    _, mark, notes = replaced.partition(NOTES)
    written = [before, f"## {title}\n\n{text}", mark + notes, rest]
    RESULTS.write_text("\n\n".join(part.strip("\n") for part in written if part) + "\n")
