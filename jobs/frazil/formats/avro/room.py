"""Limit the rows per call for schemas whose rows take much more memory than their payloads.

Arrow stores a null of a fixed(n) in n bytes, and a symbol of an enum as text; in the payload each takes a byte or two.
"""

from __future__ import annotations

import pyarrow as pa

from frazil.formats.avro.rules import MOST_SLOTS
from frazil.formats.avro.shape import Choice, Leaf, Members, Shape
from frazil.formats.avro.sizes import slots_of
from frazil.formats.avro.types import Enum, Fixed
from frazil.formats.decoder import Decoded, Decoder
from frazil.model.dead_letter import Reason, Reject


def rows_at_once(row: Members) -> int | None:
    """Return how many rows one call may decode; None for no limit (as with most schemas), 0 if no row fits."""
    extra = _extra_slots(row)
    return MOST_SLOTS // extra if extra else None


def _extra_slots(shape: Shape) -> int:
    """Return the slots beyond one per value. The items of arrays and maps are counted when they are read."""
    match shape:
        case Leaf(Fixed() | Enum() as named):
            return slots_of(named) - 1
        case Members(fields):
            return sum(_extra_slots(each.shape) for each in fields)
        case Choice():
            return sum(_extra_slots(each.shape) for each in shape.values())
        case _:
            return 0


class DecoderInParts:
    """Decodes at most `rows` payloads per call; with 0, every payload is rejected."""

    def __init__(self, decoder: Decoder, rows: int) -> None:
        self.schema: pa.Schema = decoder.schema
        self._decoder = decoder
        self._rows = rows

    def decode(self, payloads: pa.LargeBinaryArray, *, skip: int = 0) -> Decoded:
        if self._rows:
            return self._decoder.decode(payloads[: self._rows], skip=skip)
        detail = f"the columns of one row fill more than {MOST_SLOTS} values"
        rejects = tuple(Reject(index, Reason.TOO_LARGE, detail) for index in range(len(payloads)))
        return Decoded(self._decoder.decode(payloads[:0]).rows, rejects)
