"""What records hold, as findings show it: nothing if the table masks columns."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

SHOWN = 80
"""Characters of a value in a finding."""


@dataclass(frozen=True, slots=True)
class Quoting:
    """How findings show values. `allowed` is false if a table masks columns."""

    allowed: bool = True

    def value(self, value: pa.Scalar) -> str:
        if not self.allowed:
            return "one value"
        text = _text_of(value)
        return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"

    def refusal(self, reason: str, detail: str) -> str:
        """Return why a record cannot become a row."""
        return f"{reason}: {detail}" if self.allowed else reason


def _text_of(value: pa.Scalar) -> str:
    """Timestamps reach beyond the years that Python has."""
    try:
        return repr(value.as_py())
    except (OverflowError, ValueError):
        return str(value.cast(pa.int64())) if pa.types.is_timestamp(value.type) else str(value)
