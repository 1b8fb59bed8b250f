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
_MOST_SEARCHES = 2
"""Schemas whose records are searched among all that are left; with more schemas, each record is looked up by itself."""


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
    """Yield the records by schema, in the order in which the schemas occur. Null records are left out.

    The time is linear in the records, however many schemas they have.
    """
    is_open, others = records.is_valid().to_numpy(zero_copy_only=False).copy(), list[int]()
    searches = 0
    for index in range(len(records)):
        if searches == _MOST_SEARCHES:
            break
        if not is_open[index]:
            continue
        schema = _schema_of(records[index].as_py())
        if schema is None:
            is_open[index] = False
            others.append(index)
            continue
        same = _with_schema(records, np.flatnonzero(is_open), schema)
        is_open[same] = False
        searches += 1
        yield _same(schema, same)
    for text, indexes in _looked_up(records, np.flatnonzero(is_open)).items():
        if text is None:
            others += indexes
        else:
            yield _same(text, np.array(indexes))
    if others:
        yield SameSchema(None, np.array(others))


def _same(schema: str, indexes: npt.NDArray[np.int64]) -> SameSchema:
    return SameSchema(schema, indexes, len(_head(schema)), len(_END))


def _head(schema: str) -> bytes:
    return _BEGIN + schema.encode() + _BETWEEN


def _with_schema(records: pa.LargeBinaryArray, left: npt.NDArray[np.int64], schema: str) -> npt.NDArray[np.int64]:
    """Return which of the records that are left have a schema."""
    here = records if len(left) == len(records) else records.take(pa.array(left))
    is_same = pc.and_(pc.starts_with(here, pattern=_head(schema)), pc.ends_with(here, pattern=_END))
    same: npt.NDArray[np.int64] = left[is_same.to_numpy(zero_copy_only=False)]
    return same


def _looked_up(records: pa.LargeBinaryArray, left: npt.NDArray[np.int64]) -> dict[str | None, list[int]]:
    """Return the records that are left by schema; by None those of another form."""
    found: dict[str | None, list[int]] = {}
    known: dict[bytes, str] = {}
    for index in left.tolist():
        record = records[index].as_py()
        schema = known.get(record[: record.find(_BETWEEN) + len(_BETWEEN)]) if record.endswith(_END) else None
        if schema is None:
            schema = _schema_of(record)
            if schema is not None:
                known[_head(schema)] = schema
        found.setdefault(schema, []).append(index)
    return found


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
