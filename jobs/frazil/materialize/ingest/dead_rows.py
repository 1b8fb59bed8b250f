"""Rows of the dead-letter table: each record byte for byte, with the reason for its refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.framing import schema_ids
from frazil.formats.open import grouping_of
from frazil.materialize.letter_encryption import encrypted_columns
from frazil.model.dead_letter import Reason, Reject
from frazil.model.ingested import TaskContext
from frazil.model.spec import CONFLUENT, SCHEMA_TYPES, TableSpec
from frazil.records import Headers, Records

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

HEADERS_LEFT_OUT = "; the headers are left out: "
"""In the detail of a dead letter whose headers could not be read, before the problem."""

FEW = 1024
"""Columns that repeat a value are kept for so many dead letters of a chunk."""

_MICROSECONDS = pa.timestamp("us", "UTC")

_LARGEST_MS = (2**63 - 1) // 1000
"""The largest number of milliseconds whose microseconds have 64 bits."""


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
    """The refused records in the dead-letter table's schema, encrypted if the spec has policies; None if there is none.

    Columns that others added to the table are null.
    """
    if not dead:
        return None
    topic_id, generation = context.source_ids[topic]
    constants = {
        "topic": topic,
        "topic_id": topic_id,
        "generation": generation,
        "partition": partition,
        "batch_id": context.batch_id,
        "table_uuid": context.rows.uuid,
    }
    indexes, reasons, details, paths = zip(*dead, strict=True)
    places = pa.array(indexes, pa.int64())
    headers = records.headers.take(places).checked()
    values = records.values.take(places)
    columns = {
        "offset": records.offsets.take(places),
        "timestamp": timestamps(records.timestamps_ms.take(places), _MICROSECONDS),
        "key": records.keys.take(places),
        "value": values,
        "headers": headers.lists,
        "reason": pa.array(reasons, pa.string()),
        "detail": pa.array(_details(dead, headers) if headers.has_problems() else details, pa.string()),
        "path": pa.array(paths, pa.string()),
        "read_at": pa.array(np.full(len(dead), int((now() - _EPOCH).total_seconds() * 1e6))),
        **named_writers(context.spec, values, headers),
        **_optional(records, places),
    }
    letters = None if context.policed is None else context.policed.dead_letter_key
    if letters is not None:
        columns = encrypted_columns(columns, topic=topic, partition=partition, key=letters)
    fields = zip(schema.names, schema.types, strict=True)
    arrays = [_column(columns.get(name), constants.get(name), arrow_type, len(dead)) for name, arrow_type in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _optional(records: Records, places: pa.Int64Array) -> dict[str, pa.Array]:
    """The fields that only some tables keep, which a replay then needs."""
    given = {"timestamp_type": records.timestamp_types, "leader_epoch": records.leader_epochs}
    return {name: column.take(places) for name, column in given.items() if column is not None}


def timestamps(milliseconds: pa.Int64Array, arrow_type: pa.DataType) -> pa.Array:
    """Return records' timestamps as tables store them, in microseconds; null where they are missing or exceed 64 bits.

    A producer may stamp a record with any number.
    """
    if not milliseconds.null_count and len(milliseconds):
        numbers = milliseconds.to_numpy()
        if numbers.min() >= -_LARGEST_MS and numbers.max() <= _LARGEST_MS:
            return pa.array(numbers * 1000).cast(arrow_type)
    stored = pc.and_(pc.greater_equal(milliseconds, -_LARGEST_MS), pc.less_equal(milliseconds, _LARGEST_MS))
    return pc.multiply(pc.if_else(stored, milliseconds, pa.scalar(None, pa.int64())), 1000).cast(arrow_type)


def _column(given: pa.Array | None, constant: str | int | None, arrow_type: pa.DataType, count: int) -> pa.Array:
    """Return the column of this type; one that is not given repeats the constant, or is null."""
    if given is not None and given.null_count < count:
        return given if given.type == arrow_type else given.cast(arrow_type)
    if given is not None or constant is None:
        return pa.nulls(count, arrow_type)
    if count > FEW:
        return pa.repeat(pa.scalar(constant).cast(arrow_type), count)
    return _repeated_few(constant, arrow_type).slice(0, count)


@lru_cache(maxsize=64)
def _repeated_few(value: str | int, arrow_type: pa.DataType) -> pa.Array:
    """Return a column that the chunks of a task share: making it anew takes longer than their few dead letters."""
    return pa.repeat(pa.scalar(value).cast(arrow_type), FEW)


def _details(dead: Sequence[Reject], headers: Headers) -> list[str]:
    """Return what was wrong, including headers that could not be read."""
    return list(map(_detail, dead, headers.problems.to_pylist()))


def _detail(reject: Reject, headers_problem: str | None) -> str:
    if headers_problem is None or reject.reason is Reason.UNREADABLE_HEADERS:
        return reject.detail
    return f"{reject.detail}{HEADERS_LEFT_OUT}{headers_problem}"


def named_writers(spec: TableSpec, values: pa.LargeBinaryArray, headers: Headers) -> Mapping[str, pa.Array]:
    """The schemas that values name: `schema_id` as the signed numbers of registries, `schema_uuid` as text.

    Both are null without a registry.
    """
    nothing = {"schema_id": pa.nulls(len(values), pa.int32()), "schema_uuid": pa.nulls(len(values), pa.string())}
    if spec.value not in SCHEMA_TYPES:
        return nothing
    if spec.wire_format == CONFLUENT:
        ids = schema_ids(values)
        return {**nothing, "schema_id": pa.array(ids.astype(np.uint32).view(np.int32), mask=ids < 0)}
    uuids: list[str | None] = [None] * len(values)
    framed = grouping_of(spec.value, spec.wire_format)(values, headers)
    for group in framed.groups:
        for index in range(len(values)) if group.indexes is None else group.indexes.tolist():
            uuids[index] = str(group.schema_id)
    return {**nothing, "schema_uuid": pa.array(uuids, pa.string())}
