"""Format values as text for results on stdout. Nothing is cut off, even on a narrow terminal."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from typing import TextIO

from frazil.model.moments import rfc3339

Row = Sequence[object]


def aligned(columns: Sequence[str], rows: Iterable[Row], *, numeric: Sequence[bool] = ()) -> list[str]:
    """Return a header line, a rule and one line per row. Numbers are right-aligned."""
    texts = [[shown(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[n]) for row in texts)]) for n, name in enumerate(columns)]
    right = [*numeric, *([False] * (len(columns) - len(numeric)))]

    def line(cells: Sequence[str]) -> str:
        padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True))
        return "  ".join(padded).rstrip()

    return [line(columns), line(["-" * width for width in widths]), *(line(row) for row in texts)]


def shown(value: object) -> str:
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case str():
            return value if value.isprintable() else json.dumps(value, ensure_ascii=False)
        case bytes():
            return f"0x{value.hex()}"
        case datetime():
            return moment(value)
        case dict() | list():
            return json.dumps(plain(value), ensure_ascii=False)
        case _:
            return str(value)


def moment(at: datetime) -> str:
    """Return RFC 3339 text in UTC, `2026-01-31T12:00:00Z`; a local timestamp, without a time zone, has no `Z`."""
    return at.isoformat() if at.tzinfo is None else rfc3339(at)


def plain(value: object) -> object:
    """Convert a value for JSON: bytes to hexadecimal digits, decimals and times to text, NaN and infinities to null."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return value.hex()
        case dict():
            return {str(name): plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case None | bool() | int() | str():
            return value
        case _:
            return _day_or_time(value) if isinstance(value, date | time) else str(value)


def _day_or_time(value: date | time) -> str:
    return moment(value) if isinstance(value, datetime) else value.isoformat()


def write_json(columns: Sequence[str], rows: Iterable[Row], out: TextIO) -> None:
    """Write a JSON array with one row per line, while the rows are read."""
    separator = "["
    for row in rows:
        pairs = {name: plain(value) for name, value in zip(columns, row, strict=True)}
        out.write(f"{separator}\n  {json.dumps(pairs, ensure_ascii=False)}")
        separator = ","
    out.write("[]\n" if separator == "[" else "\n]\n")


def write_csv(columns: Sequence[str], rows: Iterable[Row], out: TextIO) -> None:
    """Write CSV as in RFC 4180, except for the line ends. Null is an empty field."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(["" if value is None else _field(value) for value in row] for row in rows)


def _field(value: object) -> str:
    return value if isinstance(value, str) else shown(value)
