"""The optional compiled module `frazil_native`, which decodes faster than Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from frazil.formats.decoder import Decoded, Decoder, Payloads
from frazil.formats.rejects import Rejects
from frazil.model.errors import MissingToolError

Engine = Literal["native", "fallback"]

NativeFaults = tuple[bytes, list[str], list[str], list[str]]
"""The indexes of bad payloads as numbers of 64 bits, and their reasons, details and paths."""


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

    def decode(self, payloads: Payloads, skip: int) -> tuple[pa.RecordBatch, NativeFaults, int, int]:
        """Return the rows, the rejects, how many timestamps lost nanoseconds, and how many fields were undeclared."""
        ...

    @staticmethod
    def decode_together(
        decoders: list[Any], payloads: Payloads, together: NativeColumns, skip: int
    ) -> tuple[pa.RecordBatch, NativeFaults, int, int]:
        """Return the same for payloads of several decoders of this type, as rows in the order of the payloads."""
        ...


@dataclass(frozen=True, slots=True)
class NativeColumns:
    """The columns of rows that several decoders decode together.

    For each decoder, `columns` has which of its own columns each one is; None where it has none. `numbers` has the
    number of the decoder of each payload.
    """

    names: list[str]
    columns: list[list[int | None]]
    numbers: pa.UInt16Array


@lru_cache(maxsize=256)
def native_core(kind: str, shape: str) -> NativeCore:
    """Return the decoder of this class for a shape as JSON, the same one for all schemas with the same shape.

    Raises ValueError if the shape is not covered.
    """
    import frazil_native  # noqa: PLC0415 - it may not be built

    made: NativeCore = getattr(frazil_native, kind)(shape)
    return made


class NativeDecoder:
    """Checks payloads and decodes them in one walk. Releases the interpreter's lock meanwhile."""

    def __init__(self, schema: pa.Schema, core: NativeCore) -> None:
        self.schema = schema
        self.core = core

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        return decoded(*self.core.decode(payloads, skip))


def decoded(rows: pa.RecordBatch, faults: NativeFaults, truncated_nanos: int, undeclared: int) -> Decoded:
    """Return what the native module returned."""
    indexes, reasons, details, paths = faults
    rejects = Rejects(np.frombuffer(indexes, np.int64), reasons, details, paths) if reasons else ()
    return Decoded(rows, rejects, truncated_nanos, undeclared)


def choose_decoder(
    engine: Engine | None, native: Callable[[], Decoder | None], fallback: Callable[[], Decoder], *, uncovered: str
) -> Decoder:
    """Return the native decoder if it is built and supports what it should decode, else the fallback.

    `engine` requests one, and `uncovered` says that the native one does not support this. Raises MissingToolError if
    the native decoder is requested and not available.
    """
    found = None if engine == "fallback" else native()
    if found is None and engine == "native":
        raise MissingToolError(
            uncovered if native_available() else "it is not built",
            hint="run `make setup`, or do not choose a decoder.",
        )
    return found or fallback()
