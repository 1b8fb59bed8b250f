"""Suggestions for misspelt names, plurals, and figures as people read them."""

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


def age(seconds: float) -> str:
    """Return text such as `12 s`, `5 min`, `3 h` or `4 d`, in the largest unit that gives at least 2."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def rate(per_second: float) -> str:
    """Return a number of at least two digits: `12,345`, `12`, `1.2` or `0.012`."""
    return f"{per_second:,.0f}" if per_second >= 10 or per_second == 0 else f"{per_second:,.2g}"
