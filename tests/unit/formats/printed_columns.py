"""Compares what a page of docs/reference prints as the column of a type with the columns that a test has found."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

_BY_SOURCE = (
    "the same",
    "no effect",
    "have no effect",
    "that type",
    "that of its type",
    "one column",
    "the column is renamed",
    "the column of the type under it",
    "the type of its values",
    "the scalar's",
    "what it refers to",
    "all of them together",
    "struct of one column per branch",
)
"""Texts that say where the type comes from, without its name: any type may be found."""
_NAMED = re.compile(
    r"\b(?:boolean|int|long|float|double|string|binary|uuid|date|time|timestamp|timestamptz"
    r"|(?:decimal|fixed)\([^)]*\)|(?:list|map|struct)s?(?:<.*>)?)(?![\w<(])"
)
_PLACEHOLDERS = {"p": r"\d+", "s": r"\d+", "n": r"\d+", "V": ".+", "K": ".+"}


def assert_printed(text: str, found: Iterable[str], *, beside: Iterable[str] = ()) -> None:
    """Each type that is found is in the text, and each type in the text is found; `beside` is found as well.

    The text may name the types of items and values.
    """
    shown = html.unescape(text).replace("JSON text", "string")
    named = [_pattern(each) for each in _NAMED.findall(re.sub("string with `.*", "", shown))]
    types = set(found)
    assert all(any(map(pattern.search, types)) for pattern in named), f"{shown} names more than {types}"
    unnamed = {each for each in types if not any(_is(pattern, each) for pattern in named)} - set(beside)
    if not shown.startswith(_BY_SOURCE):
        assert not unnamed, f"{shown} does not name {unnamed}"


def _pattern(named: str) -> re.Pattern[str]:
    """Return what matches the columns of a printed type. Letters such as p and V match what a schema gives."""
    if named.rstrip("s") in ("list", "map", "struct"):
        return re.compile(named.rstrip("s") + "<.+>")
    parts = (_PLACEHOLDERS.get(part, re.escape(part)) for part in re.split(r"(\w+)", named))
    return re.compile(r"\b" + "".join(parts) + r"(?!\w)")


def _is(pattern: re.Pattern[str], column: str) -> bool:
    if pattern.fullmatch(column):
        return True
    items = re.fullmatch(r"list<(.*)>|map<[^,]+(?:\([^)]*\))?, (.*)>", column)
    return items is not None and _is(pattern, items.group(1) or items.group(2))
