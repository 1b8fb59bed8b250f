"""The types of fields that a table spec declares as columns of JSON values.

A declaration is stored as JSON text: a text is one of `WORDS` or a decimal, an object has the fields of an object, a
list of one is an array, and an object with the only name `*` is a map from text.
"""

from __future__ import annotations

import re

WORDS = (
    "boolean", "int", "long", "float", "double", "string", "binary",
    "date", "time", "timestamptz", "timestamp_millis", "json",
)  # fmt: skip
"""The types without parts. A binary is base64, a timestamptz RFC 3339 with a zone, a timestamp_millis a number of
milliseconds since 1970, and a json any value as text."""

NAMED = (
    *(f"io.debezium.time.{name}" for name in (
        "Date", "Time", "MicroTime", "NanoTime", "Timestamp", "MicroTimestamp", "NanoTimestamp", "ZonedTimestamp",
        "IsoDate", "IsoTime", "IsoTimestamp",
    )),
    "io.debezium.data.Uuid",
)  # fmt: skip
"""Types of Debezium whose values mean more than their JSON says. Only fields of change events have them."""

ANY_NAME = "*"
"""The name that declares a map."""

EXTRA = "_extra"
"""The column of fields that are not declared."""

_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")


def decimal_of(text: str) -> tuple[int, int] | None:
    """Return precision and scale of `decimal(p, s)`; None for any other text, and if no column has so many digits."""
    found = _DECIMAL.fullmatch(text)
    if found is None:
        return None
    precision, scale = int(found[1]), int(found[2])
    return (precision, scale) if 1 <= precision <= 38 and scale <= precision else None
