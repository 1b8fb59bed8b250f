"""Stock trades as in Confluent's datagen quickstart, encoded by hand as Avro, in a few microseconds per record."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

SCHEMA_FILE = Path(__file__).parent / "stock_trade.avsc"
SIDES = ("BUY", "SELL")
SYMBOLS = ("ZBZX", "ZJZZT", "ZTEST", "ZVV", "ZVZZT", "ZWZZT", "ZXZZT")
ACCOUNTS = ("ABC123", "LMN456", "XYZ789")
USERS = tuple(f"User_{number}" for number in range(1, 10))
QUANTITIES = range(1, 5001)
PRICES = range(5, 1001)


def schema_text() -> str:
    return SCHEMA_FILE.read_text(encoding="utf-8")


def encoded_trades(rows: int, *, seed: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key and the Avro body (without a header) of each record. The same seed gives the same records.

    All six fields derive from one draw of 64 random bits; its remainders are independent enough for sample data.
    """
    users = tuple((user.encode(), _avro_string(user)) for user in USERS)
    draw = random.Random(seed).getrandbits  # noqa: S311 - sample data, not secrets
    for _ in range(rows):
        rest, side = divmod(draw(64), len(SIDES))
        rest, quantity = divmod(rest, len(QUANTITIES))
        rest, symbol = divmod(rest, len(SYMBOLS))
        rest, price = divmod(rest, len(PRICES))
        rest, account = divmod(rest, len(ACCOUNTS))
        key, user = users[rest % len(USERS)]
        yield key, _SIDES[side] + _QUANTITIES[quantity] + _SYMBOLS[symbol] + _PRICES[price] + _ACCOUNTS[account] + user


def records(rows: int, *, seed: int, schema_id: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key and the value of each record, in Confluent's wire format."""
    frame = struct.pack(">bI", 0, schema_id)
    return ((key, frame + body) for key, body in encoded_trades(rows, seed=seed))


def _avro_int(number: int) -> bytes:
    """Encode an Avro int or long: zigzag, seven bits per byte, least significant first."""
    left = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*encoded, left])


def _avro_string(text: str) -> bytes:
    return _avro_int(len(text.encode())) + text.encode()


_SIDES = tuple(map(_avro_string, SIDES))
_SYMBOLS = tuple(map(_avro_string, SYMBOLS))
_ACCOUNTS = tuple(map(_avro_string, ACCOUNTS))
_QUANTITIES = tuple(map(_avro_int, QUANTITIES))
_PRICES = tuple(map(_avro_int, PRICES))
