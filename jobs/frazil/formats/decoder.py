"""What every format's decoder is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from frazil.model.dead_letter import Reject


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of some payloads.

    `rows` holds the accepted ones in the order given, one per payload that no reject names; its columns are the
    writer schema's, in the Arrow types of `arrow.arrow_type`. `truncated_nanos` counts the values that lost
    digits below the microsecond. Where the items of arrays and maps would fill too much memory, decoding ends early,
    after at least one payload: only the first `taken` were decoded.
    """

    rows: pa.RecordBatch
    rejects: tuple[Reject, ...]
    truncated_nanos: int = 0

    @property
    def taken(self) -> int:
        return int(self.rows.num_rows) + len(self.rejects)


class Decoder(Protocol):
    """Decodes payloads of one writer schema. Not shared between threads."""

    schema: pa.Schema

    def decode(self, payloads: pa.LargeBinaryArray, *, skip: int = 0) -> Decoded:
        """Decode payloads, none of them null, each from its byte `skip` on. Never raises for what a payload holds."""
        ...
