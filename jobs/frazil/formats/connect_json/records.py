"""Records that consist of a schema and a payload, sorted by schema.

Kafka Connect's JSON converter writes the schema first, without white space, and the same text for each record of a
schema. So a record belongs to a schema that is known if it begins with its text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_BEGIN, _BETWEEN, _END = b'{"schema":', b',"payload":', b"}"


@dataclass(frozen=True, slots=True)
class SameSchema:
    """The records of one schema, by their indexes: its text, and how many bytes are before and after each payload.

    `schema` is None for records that are not a schema and a payload.
    """

    schema: str | None
    indexes: npt.NDArray[np.int64]
    before: int = 0
    after: int = 0

    def payloads(self, records: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """Return the payloads, given all records."""
        whole = records.take(pa.array(self.indexes))
        return whole if self.schema is None else pc.binary_slice(whole, self.before, -self.after)


def by_schema(records: pa.LargeBinaryArray) -> Iterator[SameSchema]:
    """Yield the records by schema, in the order in which the schemas occur. Null records are left out."""
    is_open, others = records.is_valid().to_numpy(zero_copy_only=False).copy(), list[int]()
    for index in range(len(records)):
        if not is_open[index]:
            continue
        schema = _schema_of(records[index].as_py())
        if schema is None:
            is_open[index] = False
            others.append(index)
            continue
        head = _BEGIN + schema.encode() + _BETWEEN
        left = np.flatnonzero(is_open)
        here = records if len(left) == len(records) else records.take(pa.array(left))
        is_same = pc.and_(pc.starts_with(here, pattern=head), pc.ends_with(here, pattern=_END))
        same = left[is_same.to_numpy(zero_copy_only=False)]
        is_open[same] = False
        yield SameSchema(schema, same, len(head), len(_END))
    if others:
        yield SameSchema(None, np.array(others))


def _schema_of(record: bytes) -> str | None:
    """Return the text of a record's schema; None if the record is not a schema and a payload."""
    if not record.startswith(_BEGIN) or not record.endswith(_END):
        return None
    try:
        text = record.decode()
        _, end = json.JSONDecoder().raw_decode(text, len(_BEGIN))
    except (ValueError, RecursionError):
        return None
    return text[len(_BEGIN) : end] if text.startswith(_BETWEEN.decode(), end) else None
