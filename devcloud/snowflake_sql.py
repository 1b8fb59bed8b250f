"""What a statement comes to in the double of Snowflake: a table, or a refusal in its words."""

from __future__ import annotations

import re
from dataclasses import dataclass


class SqlError(Exception):
    """A statement that is refused: Snowflake's number, its SQL state and its words."""

    def __init__(self, code: str, state: str, message: str) -> None:
        super().__init__(message)
        self.code, self.state = code, state


@dataclass(frozen=True, slots=True)
class Table:
    """What a statement answers."""

    columns: tuple[str, ...]
    rows: list[list[str | None]]


DONE = Table(("status",), [["Statement executed successfully."]])
_PART = re.compile(r'"(?P<quoted>(?:[^"]|"")+)"|(?P<plain>[A-Za-z_][\w$]*)')


def full_name(written: str) -> str:
    """`DATABASE.SCHEMA.NAME`, as a statement writes it, in the spelling that it is stored in."""
    parts = (found["quoted"] or found["plain"].upper() for found in _PART.finditer(written))
    return ".".join(part.replace('""', '"') for part in parts)


def unknown(kind: str, name: str) -> SqlError:
    """Return the error for an object that is missing or invisible."""
    return SqlError("002003", "02000", f"SQL compilation error:\n{kind} '{name}' does not exist or not authorized.")
