"""Keyed hashes: the first half of HMAC-SHA-256 (RFC 2104), as 32 hexadecimal digits.

A value is hashed as bytes that do not depend on the width of its type, so that a long has the hash of the same int.

| Type | Bytes |
|---|---|
| string, binary, fixed, uuid | the text in UTF-8, or the bytes |
| boolean, int, long, decimal | the text: `true`, `-12`, `1.50` |
| date | the days since 1970 as text |
| time, timestamp, timestamptz | the microseconds since midnight or 1970 as text |
"""

from __future__ import annotations

import base64
import binascii
import hmac

import pyarrow as pa

from frazil.formats.native import native_available
from frazil.model.errors import SettingError
from frazil.model.secret import NamedKey, Secret
from frazil.model.spelling import plural

DIGITS = 32
KEY_BYTES = 32
_KEY_HINT = "generate one with `openssl rand -base64 32`"


def key_bytes(key: NamedKey) -> bytes:
    """Return the key's bytes. Raises SettingError if it is not the base64 of 32 bytes, and as `NamedKey.read`."""
    secret = key.read().secret
    assert isinstance(secret, Secret)  # noqa: S101 - it was read
    try:
        found = base64.b64decode(secret.reveal().strip(), validate=True)
    except (binascii.Error, ValueError) as problem:
        raise _unfit(key, "it is not base64") from problem
    if len(found) != KEY_BYTES:
        raise _unfit(key, f"it has {plural(len(found), 'byte')}")
    return found


def _unfit(key: NamedKey, found: str) -> SettingError:
    return SettingError(f"{key.place}: the key {key.id} is not {KEY_BYTES} bytes in base64: {found}", hint=_KEY_HINT)


def fingerprint(key: NamedKey) -> str:
    """Return a text that differs between keys, and from which no key can be found. Raises as `key_bytes`."""
    return hmac.digest(key_bytes(key), b"frazil hash_key", "sha256").hex()[:DIGITS]


def hashed(values: pa.Array, key: bytes) -> pa.Array:
    """Return the hash of each value as text; null stays null."""
    given = canonical(values)
    if native_available():
        import frazil_native  # noqa: PLC0415 - it may not be built

        return frazil_native.keyed_hashes(given, key)
    return hashed_in_python(given, key)


def hashed_in_python(given: pa.LargeBinaryArray, key: bytes) -> pa.Array:
    """Return the hashes of canonical bytes, as the native module computes them."""
    texts = (None if each is None else hmac.digest(key, each, "sha256").hex()[:DIGITS] for each in given.to_pylist())
    return pa.array(texts, pa.large_string())


def canonical(values: pa.Array) -> pa.LargeBinaryArray:
    """Return the bytes that are hashed."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    kind = values.type
    if pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    if pa.types.is_integer(values.type) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        values = values.cast(pa.large_string())
    return values.cast(pa.large_binary())
