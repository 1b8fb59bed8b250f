"""Convert what was read from the wire to column values, and column values to JSON."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from decimal import Decimal
from typing import cast

from frazil.formats.protobuf.scalars import ScalarName
from frazil.formats.protobuf.wire import Raw


def cut(scalar: ScalarName, raw: Raw | None) -> object:
    """Return the value of a scalar, of which a varint is cut to the bits of the type; for None, the default."""
    if scalar in ("string", "bytes"):
        data = cast(bytes, raw or b"")
        return data.decode() if scalar == "string" else data
    if scalar in ("float", "double"):
        return 0.0 if raw is None else raw
    return _CUTS[scalar](cast(int, raw or 0)) if scalar in _CUTS else raw or 0


def _signed(number: int, bits: int) -> int:
    number %= 1 << bits
    return number - (1 << bits) if number >> (bits - 1) else number


def _zigzag(number: int, bits: int) -> int:
    number %= 1 << bits
    return (number >> 1) ^ -(number & 1)


_CUTS: dict[str, Callable[[int], object]] = {
    "bool": lambda number: number != 0,
    "int32": lambda number: _signed(number, 32),
    "int64": lambda number: _signed(number, 64),
    "uint32": lambda number: number % 2**32,
    "sint32": lambda number: _zigzag(number, 32),
    "sint64": lambda number: _zigzag(number, 64),
}


def json_map(value: object) -> dict[str, object]:
    """Return a map as a JSON object, whose names are text."""
    pairs = cast("list[tuple[object, object]]", value)
    return {str(key).lower() if isinstance(key, bool) else str(key): json_value(each) for key, each in pairs}


def json_value(value: object) -> object:
    """Return a column value as JSON has it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case Decimal():
            return f"{value:f}"
        case list():
            return [json_value(each) for each in value]
        case _:
            return value
