"""Frazil's fast path from Avro payloads to Arrow."""

from typing import final

import pyarrow as pa

@final
class AvroDecoder:
    """Decodes payloads of one writer schema, given as the JSON text of its shape.

    Raises ValueError where the shape is not covered.
    """

    def __new__(cls, shape: str) -> AvroDecoder: ...
    def decode(self, payloads: list[bytes], skip: int) -> tuple[pa.RecordBatch, list[tuple[int, str, str, str]], int]:
        """The rows; index, reason, detail and path of each reject; how many timestamps lost nanoseconds."""

def schema_ids(values: list[bytes | None]) -> pa.Int64Array:
    """The schema id of each value; -1 for None, -2 for a value that is not framed."""
