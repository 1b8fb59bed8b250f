"""Encoding and partitions in the native module, or in Python where it is not built."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from frazil.formats.native import native_available

MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C


@cache
def native_encodes() -> bool:
    """Return whether the native module has what outputs need."""
    if not native_available():
        return False
    import frazil_native  # noqa: PLC0415 - it may not be built

    return hasattr(frazil_native, "avro_payloads")


def native_payloads(rows: pa.RecordBatch, prefix: bytes) -> pa.Array:
    import frazil_native  # noqa: PLC0415 - it may not be built

    return frazil_native.avro_payloads(rows, prefix)


def partition_hashes(keys: pa.Array) -> pa.Array:
    """Return the hash of each key by which Kafka's Java clients choose a partition. Null is null."""
    if native_encodes():
        import frazil_native  # noqa: PLC0415 - it may not be built

        return frazil_native.partition_hashes(keys)
    return pa.array([None if key is None else murmur2(key) & 0x7FFFFFFF for key in keys.to_pylist()], pa.int32())


def murmur2(data: bytes) -> int:
    """Return the variant of MurmurHash2 of Kafka's `Utils.murmur2`, without a sign."""
    whole = len(data) - len(data) % 4
    value = _SEED ^ len(data)
    for word in np.frombuffer(data[:whole], "<u4").tolist():
        mixed = word * _MULTIPLIER & MASK
        mixed ^= mixed >> 24
        value = (value * _MULTIPLIER & MASK) ^ (mixed * _MULTIPLIER & MASK)
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & MASK
    value ^= value >> 13
    value = value * _MULTIPLIER & MASK
    return value ^ value >> 15
