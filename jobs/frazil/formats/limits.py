"""The limits of schemas and payloads that all formats share."""

from __future__ import annotations

from frazil.formats.faults import Broken
from frazil.model.dead_letter import Reason

RECURSION_LEVELS = 3
"""The number of levels of a recursive type that become columns; the next level is JSON text."""
MAX_NESTING = 64
"""The maximum nesting of column types. Arrow's C interface passes no deeper types."""
MAX_COLUMNS = 10_000
MAX_DIGITS = 38

MOST_SLOTS = 2**25
"""The maximum number of slots in columns per payload: a null takes 1 byte, but a slot in every column below it."""
MOST_SLOTS_AT_ONCE = 2**20
"""The maximum number of slots that the items of one call of a decoder in Python fill: a slot is an object of about 100
bytes."""
SLOT_BYTES = 8
"""The bytes of a slot. Values of most types fill one. A fixed or an enum fills as many as its bytes need, even if it is
null; for an enum, the longest symbol counts."""
NATIVE_LEVELS = 30
"""The maximum nesting that native decoders support. Arrow's C interface passes at most 64 levels."""


def slots_of_bytes(size: int) -> int:
    """Return the slots of a value that takes up to `size` bytes."""
    return max(1, -(-size // SLOT_BYTES))


def check_slots(slots: int) -> None:
    """Raise Broken if the items of one payload fill more slots than allowed."""
    if slots > MOST_SLOTS:
        raise Broken(Reason.TOO_LARGE, f"the payload expands to more than {MOST_SLOTS} values in columns")
