"""Frazil's fast path from Avro payloads to Arrow."""

from typing import final

import pyarrow as pa

@final
class AvroDecoder:
    """Decodes payloads of one writer schema, given as the JSON text of its shape.

    Raises ValueError where the shape is not covered.
    """

    def __new__(cls, shape: str) -> AvroDecoder: ...
    def decode(
        self, payloads: pa.LargeBinaryArray, skip: int
    ) -> tuple[pa.RecordBatch, list[tuple[int, str, str, str]], int]:
        """The rows; index, reason, detail and path of each reject; how many timestamps lost nanoseconds."""
