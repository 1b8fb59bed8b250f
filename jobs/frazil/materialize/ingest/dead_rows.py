"""Rows of the dead-letter table: each record byte for byte, with the reason for its refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from frazil.formats.framing import HEADER_BYTES
from frazil.model.dead_letter import Reason, Reject
from frazil.model.ingested import TaskContext
from frazil.records import Headers, Records, UnreadableHeaders

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def dead_rows(
    context: TaskContext,
    *,
    schema: pa.Schema,
    topic: str,
    partition: int,
    records: Records,
    dead: Sequence[Reject],
    now: Callable[[], datetime],
) -> pa.RecordBatch | None:
    """The refused records in the dead-letter table's schema; None where there is none.

    Columns that others added to the table are null.
    """
    if not dead:
        return None
    topic_id, generation = context.source_ids[topic]
    places = [reject.index for reject in dead]
    headers = [records.headers[i] for i in places]
    keys, values = (column.take(pa.array(places, pa.int64())).to_pylist() for column in (records.keys, records.values))
    columns: dict[str, list[Any]] = {
        "topic": [topic] * len(dead),
        "topic_id": [topic_id] * len(dead),
        "generation": [generation] * len(dead),
        "partition": [partition] * len(dead),
        "offset": [records.offsets[i] for i in places],
        "timestamp": [micros(records.timestamps_ms[i]) for i in places],
        "key": keys,
        "value": values,
        "headers": [header_structs(each) for each in headers],
        "reason": [reject.reason.value for reject in dead],
        "detail": [_detail(reject, each) for reject, each in zip(dead, headers, strict=True)],
        "path": [reject.path for reject in dead],
        "schema_id": list(map(_schema_id, values)),
        "batch_id": [context.batch_id] * len(dead),
        "read_at": [(now() - _EPOCH).total_seconds() * 1e6 // 1] * len(dead),
        "table_uuid": [context.rows.uuid] * len(dead),
    }
    unknown = [None] * len(dead)
    return pa.RecordBatch.from_arrays([_column(columns.get(f.name, unknown), f.type) for f in schema], schema=schema)


def header_structs(headers: Headers | UnreadableHeaders | None) -> list[dict[str, Any]] | None:
    """Return the headers as Arrow structs, or None if the record has no headers or they cannot be read."""
    if headers is None or isinstance(headers, UnreadableHeaders):
        return None
    return [{"key": key, "value": value} for key, value in headers]


def _detail(reject: Reject, headers: Headers | UnreadableHeaders | None) -> str:
    """Return what was wrong, including headers that could not be read."""
    if not isinstance(headers, UnreadableHeaders) or reject.reason is Reason.UNREADABLE_HEADERS:
        return reject.detail
    return f"{reject.detail}; the headers are left out: {headers.problem}"


def _column(values: list[Any], arrow_type: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(arrow_type):
        return pa.array(values, pa.int64()).cast(arrow_type)
    return pa.array(values, arrow_type)


def micros(milliseconds: int | None) -> int | None:
    """Return a record's timestamp as tables store it, or None if it is missing or exceeds 64 bits."""
    if milliseconds is None or not -(2**63) <= milliseconds * 1000 < 2**63:
        return None
    return milliseconds * 1000


def _schema_id(value: bytes | None) -> int | None:
    """The id that a framed value names, as the signed number that registries count with."""
    if value is None or len(value) < HEADER_BYTES or value[0] != 0:
        return None
    return int.from_bytes(value[1:HEADER_BYTES], "big", signed=True)
