"""The hashes of erased values: those of columns (`hashes.py`), by a key that is derived from theirs.

So a hash that a table keeps is not the one that a masked column has of the same value.
"""

from __future__ import annotations

import hmac

import pyarrow as pa

from frazil.formats.masks.hashes import hashed, key_bytes
from frazil.model.secret import NamedKey


def erased_key(key: NamedKey) -> bytes:
    """Return the derived key. Raises as `key_bytes`."""
    return hmac.digest(key_bytes(key), b"frazil erasure", "sha256")


def erased_hash(value: str | int, key: NamedKey) -> str:
    """Return the hash of one value. Raises as `key_bytes`."""
    (found,) = hashed(pa.array([value]), erased_key(key)).to_pylist()
    return str(found)
