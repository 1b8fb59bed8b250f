"""Read logical type annotations (Avro 1.12 specification, "Logical Types").

"If a logical type is invalid, for example a decimal with scale greater than its precision, then implementations
should ignore the logical type and use the underlying Avro type."
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from frazil.formats.avro.types import Logical, LogicalName

_PLAIN = {
    "int": {"date", "time-millis"},
    "long": {
        "time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos",
        "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos",
    },
    "string": {"uuid"},
}  # fmt: skip
_FIXED = {"uuid": 16, "duration": 12}


def logical_of(raw: Mapping[str, object], *, on: str) -> Logical | None:
    """Return the logical type that `raw` gives to the Avro type `on`; None if there is none or it is invalid."""
    name = raw.get("logicalType")
    if not isinstance(name, str):
        return None
    if name == "decimal":
        return _decimal(raw, on)
    fits = name in _PLAIN.get(on, ()) or (on == "fixed" and name in _FIXED and raw.get("size") == _FIXED[name])
    return Logical(cast(LogicalName, name)) if fits else None


def _decimal(raw: Mapping[str, object], on: str) -> Logical | None:
    precision, scale = raw.get("precision"), raw.get("scale", 0)
    if on not in ("bytes", "fixed") or not (_whole(precision) and _whole(scale)):
        return None
    precision, scale = cast(int, precision), cast(int, scale)
    if not (precision > 0 and 0 <= scale <= precision):
        return None
    if on == "fixed" and precision > digits_in(raw.get("size")):
        return None
    return Logical("decimal", precision, scale)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def digits_in(size: object) -> int:
    """Return how many decimal digits always fit in `size` bytes in two's complement."""
    if not isinstance(size, int) or not 0 < size < 1024:
        return 0 if not isinstance(size, int) or size <= 0 else 1024
    return len(str(2 ** (8 * size - 1) - 1)) - 1
