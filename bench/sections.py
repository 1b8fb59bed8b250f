"""Sections of bench/RESULTS.md: each benchmark replaces its own and leaves the others as they are."""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path("bench/RESULTS.md")
_HEADING = re.compile(r"^## ", re.MULTILINE)


def put_first(text: str) -> None:
    """Replace what comes before the first heading of the second level."""
    there = RESULTS.read_text() if RESULTS.exists() else ""
    heading = _HEADING.search(there)
    RESULTS.write_text(text.rstrip("\n") + "\n" + ("" if heading is None else "\n" + there[heading.start() :]))


def put(title: str, text: str) -> None:
    """Replace the section with this title, or add it at the end."""
    there = RESULTS.read_text()
    section = f"## {title}\n\n{text.rstrip()}\n"
    before, heading, after = there.partition(f"## {title}\n")
    following = _HEADING.search(after)
    rest = "" if not heading or following is None else "\n" + after[following.start() :]
    RESULTS.write_text(before.rstrip("\n") + "\n\n" + section + rest)
