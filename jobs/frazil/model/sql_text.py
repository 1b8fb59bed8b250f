"""Names and texts as parts of SQL statements (ISO/IEC 9075-2, delimited identifiers and character string literals)."""

from __future__ import annotations


def quoted(name: str, mark: str = '"') -> str:
    """Return a name as an identifier that may have any characters. Spark's mark is a backtick."""
    return mark + name.replace(mark, mark * 2) + mark


def literal(text: str) -> str:
    return quoted(text, "'")
