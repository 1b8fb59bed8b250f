"""What Spark says of a query that it refuses, in words for a spec's author."""

from __future__ import annotations

import re

_NOISE = re.compile(r" SQLSTATE: \w+.*|;\s*$", re.DOTALL)
_CONDITION = re.compile(r"^\[[A-Z_.0-9]+\] ")
_PLACE = re.compile(r"line (\d+)(?:,? pos (\d+)|, position (\d+))")
"""The position is counted from 0 by the parser, and from 1 in what names the place of an expression."""
_NOT_ANSI = re.compile(r' If necessary set "spark\.sql\.ansi\.enabled" to "false"[^.]*\.')
_NOT_FOUND = re.compile(r"(The table or view \S+ cannot be found\.).*")
"""Both have advice behind a sentence that no transformation can follow."""


def said(problem: Exception) -> str:
    """Return Spark's message without its code, its plan and its state."""
    message = _CONDITION.sub("", _NOISE.sub("", str(problem)).strip()).replace("\n", " ")
    return _NOT_FOUND.sub(r"\1", _NOT_ANSI.sub("", message))


def place_in_sql(problem: Exception) -> str:
    """Return the line and the character that the message names, in brackets after a space, or nothing."""
    place = _PLACE.search(str(problem))
    if place is None:
        return ""
    line, from_zero, from_one = place.groups()
    return f" (line {line} of the SQL, character {from_one or int(from_zero) + 1})"
