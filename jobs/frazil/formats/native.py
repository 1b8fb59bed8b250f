"""The optional compiled module `frazil_native`, which decodes faster than Python."""

from __future__ import annotations

from functools import cache
from typing import Protocol

import pyarrow as pa

from frazil.formats.decoder import Decoded
from frazil.model.dead_letter import Reason, Reject


@cache
def native_available() -> bool:
    """Return whether the module is built for this machine."""
    try:
        import frazil_native  # noqa: F401, PLC0415 - it may not be built
    except ImportError:
        return False
    return True


class NativeCore(Protocol):
    """A decoder of `frazil_native`, of any format."""

    def decode(
        self, payloads: pa.LargeBinaryArray, skip: int
    ) -> tuple[pa.RecordBatch, list[tuple[int, str, str, str]], int, int]:
        """Return the rows, the rejects, how many timestamps lost nanoseconds, and how many fields were undeclared."""
        ...


class NativeDecoder:
    """Checks payloads and decodes them in one walk. Releases the interpreter's lock meanwhile."""

    def __init__(self, schema: pa.Schema, core: NativeCore) -> None:
        self.schema = schema
        self._core = core

    def decode(self, payloads: pa.LargeBinaryArray, *, skip: int = 0) -> Decoded:
        rows, faults, truncated_nanos, undeclared = self._core.decode(payloads, skip)
        rejects = tuple(Reject(index, Reason(reason), detail, path) for index, reason, detail, path in faults)
        return Decoded(rows, rejects, truncated_nanos, undeclared)
