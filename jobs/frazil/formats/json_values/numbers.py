"""Numbers of JSON as values of columns, from their text: never through a float where the column is exact."""

from __future__ import annotations

import math
import struct
from decimal import Decimal

from frazil.formats.faults import Broken
from frazil.formats.json_values.texts import EXACT, MICROS_A_DAY, too_precise
from frazil.model.dead_letter import Reason

_MOST_EXPONENT = 10**18
_MOST_DIGITS = 100
"""More than any column has. Longer numbers are replaced by one of this length, which is refused all the same."""
_MOST_MILLIS = (2**63 - 1) // 1000


def scaled(text: str, scale: int) -> int | None:
    """Return the number times 10 to the power of `scale`, or None if that has a fraction."""
    digits, power = _parts(text)
    if not digits:
        return 0
    if power + scale < 0:
        return None
    zeros = power + scale
    value: int = 10**_MOST_DIGITS if len(digits) + zeros > _MOST_DIGITS else int(digits) * 10**zeros
    return -value if text[0] == "-" else value


def _parts(text: str) -> tuple[str, int]:
    """Return the digits without zeros around them, and the power of ten that the number they form is multiplied by."""
    mantissa, _, exponent = text.lower().lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    significant = (whole + fraction).lstrip("0")
    digits = significant.rstrip("0")
    return digits, _power(exponent) - len(fraction) + len(significant) - len(digits)


def _power(exponent: str) -> int:
    digits = exponent.lstrip("+-").lstrip("0")
    power = _MOST_EXPONENT if len(digits) > 18 else int(digits or "0")
    return -power if exponent[:1] == "-" else power


def integer(text: str, bits: int, *, whole: bool) -> int:
    """Return an integer of so many bits. `whole`: it may be written with a fraction or an exponent, such as 1.0."""
    plain = text.lstrip("-").isdigit()
    if not plain and not whole:
        raise Broken(Reason.WRONG_TYPE, "expected an integer, found a number with a fraction or an exponent")
    value = scaled(text, 0)
    if value is None:
        raise Broken(Reason.WRONG_TYPE, "expected an integer, found a number with a fraction")
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise Broken(Reason.OUT_OF_RANGE, f"the integer has more than {bits} bits")
    return value


def double(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Broken(Reason.OUT_OF_RANGE, "the number is larger than any double")
    return value


def single(text: str) -> float:
    """Return the nearest float of the nearest double."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", double(text)))[0])
    except (OverflowError, Broken):
        raise Broken(Reason.OUT_OF_RANGE, "the number is larger than any float") from None


def decimal(text: str, precision: int, scale: int) -> Decimal:
    unscaled = scaled(text, scale)
    if unscaled is None or abs(unscaled) >= 10**precision:
        raise too_precise(precision, scale)
    return Decimal(unscaled).scaleb(-scale, EXACT)


def days(text: str) -> int:
    return integer(text, 32, whole=True)


def millis_of_day(text: str) -> int:
    value = integer(text, 64, whole=True)
    if not 0 <= value < MICROS_A_DAY // 1000:
        raise Broken(Reason.OUT_OF_RANGE, "expected the milliseconds of a time of day")
    return value * 1000


def millis(text: str) -> int:
    value = integer(text, 64, whole=True)
    if not -_MOST_MILLIS <= value <= _MOST_MILLIS:
        raise Broken(Reason.OUT_OF_RANGE, "the timestamp has more than 64 bits in microseconds")
    return value * 1000
