"""What a payload must be: one JSON value of its shape, as RFC 8259 and RFC 3339 define it.

`walk.py` checks the rules in Python, `native/src/json/` in Rust, with the same texts; tests compare both. The first
rule that the payload breaks, from left to right, is its reject.

| Rule | Reason |
|---|---|
| the payload is JSON; NaN and Infinity are not | bad_json |
| the payload does not end inside its value | truncated |
| nothing but white space is left after the value | trailing_bytes |
| no object has a key twice | duplicate_key |
| strings are UTF-8, without half a surrogate pair | bad_utf8 |
| a declared value has the type of its column, or is null | wrong_type |
| an integer fits in its column, as do the digits of a decimal; a number is not infinite there | out_of_range |
| a text is in the format of its column: a date that exists, a time with a zone, base64 | bad_format |
| objects and arrays are nested at most 128 levels deep | too_large |
| a payload fills at most 2^25 slots in columns, nulls and the paths of undeclared fields included | too_large |
"""

from __future__ import annotations

from dataclasses import dataclass, field

from frazil.formats.faults import Broken
from frazil.formats.limits import check_slots
from frazil.model.dead_letter import Reason

MOST_LEVELS = 128
"""The maximum nesting of objects and arrays in a payload. Deeper recursion could overflow Python's stack."""


@dataclass(slots=True)
class Used:
    """How much of the limits one payload has used so far."""

    depth: int = field(default=0)
    slots: int = field(default=0)

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MOST_LEVELS:
            raise Broken(Reason.TOO_LARGE, f"the payload nests values more than {MOST_LEVELS} levels deep")

    def leave(self) -> None:
        self.depth -= 1

    def reserve(self, slots: int) -> None:
        self.slots += slots
        check_slots(self.slots)
