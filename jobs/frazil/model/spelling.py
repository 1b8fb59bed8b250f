"""Suggestions for misspelt names, and plurals."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that is most similar to a misspelt word, or None if none is similar."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), by_lower, n=1, cutoff=0.6)
    close = close or difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Return the count with the noun: `1 table`, `2,000 tables`; `nouns` is an irregular plural (`batches`)."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def file_size(count: int) -> str:
    """Return bytes as people read them, in decimal units."""
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} KB"
