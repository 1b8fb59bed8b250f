"""Limit the rows per call for schemas whose rows take much more memory than their payloads."""

from __future__ import annotations

import pyarrow as pa

from frazil.formats.decoder import Decoded, Decoder, Payloads
from frazil.formats.limits import MOST_SLOTS
from frazil.model.dead_letter import Reason, Reject


def in_parts(decoder: Decoder, extra_slots: int) -> Decoder:
    """Return the decoder for rows that fill this many slots beyond one per value; most schemas' rows fill none."""
    return DecoderInParts(decoder, MOST_SLOTS // extra_slots) if extra_slots else decoder


class DecoderInParts:
    """Decodes at most `rows` payloads per call; with 0, every payload is rejected."""

    def __init__(self, decoder: Decoder, rows: int) -> None:
        self.schema: pa.Schema = decoder.schema
        self._decoder = decoder
        self._rows = rows

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        if self._rows:
            return self._decoder.decode(payloads[: self._rows], skip=skip)
        detail = f"the columns of one row fill more than {MOST_SLOTS} values"
        rejects = tuple(Reject(index, Reason.TOO_LARGE, detail) for index in range(len(payloads)))
        return Decoded(self._decoder.decode(payloads[:0]).rows, rejects)
