"""Rows of the dead-letter table: each record byte for byte, with the reason for its refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.framing import schema_ids
from frazil.formats.open import grouping_of
from frazil.formats.rejects import Rejects
from frazil.materialize.letter_encryption import encrypted_columns
from frazil.model.dead_letter import Reason, Reject
from frazil.model.ingested import TaskContext
from frazil.model.spec import CONFLUENT, SCHEMA_TYPES, TableSpec
from frazil.records import Headers, Records

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

HEADERS_LEFT_OUT = "; the headers are left out: "
"""In the detail of a dead letter whose headers could not be read, before the problem."""

REJECT_MEMORY = 512
"""The memory of what is said of a dead letter, about."""

DISTINCT = frozenset({"offset", "timestamp", "key", "value", "headers", "detail", "read_at"})
"""Columns that differ between most dead letters: their files are smaller and written faster without dictionaries."""

_MICROSECONDS = pa.timestamp("us", "UTC")

_LARGEST_MS = (2**63 - 1) // 1000
"""The largest number of milliseconds whose microseconds have 64 bits."""


@dataclass(frozen=True, slots=True)
class LetterTable:
    """The dead-letter table that a task writes to: its columns, and what its rows say of the task."""

    context: TaskContext
    schema: pa.Schema
    now: Callable[[], datetime]

    def letters(self, topic: str, partition: int, records: Records, dead: Rejects) -> Letters | None:
        """Return the refused records of a chunk, read now; None if there is none."""
        if not dead:
            return None
        places = pa.array(dead.indexes)
        read_at = np.full(len(dead), int((self.now() - _EPOCH).total_seconds() * 1e6))
        return Letters(self, topic, partition, records.take(places), dead, read_at)


@dataclass(frozen=True, slots=True)
class Letters:
    """Refused records of one partition, without the others, and why they are refused.

    `read_at` is when each was read, in microseconds since the epoch. Rows are built of the letters of many chunks: each
    call takes about as long for the few of one chunk.
    """

    table: LetterTable
    topic: str
    partition: int
    records: Records
    rejects: Rejects
    read_at: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rejects)

    @property
    def memory(self) -> int:
        """The memory of the letters, about."""
        return self.records.payload_bytes + int(self.records.headers.lists.nbytes) + len(self) * REJECT_MEMORY

    @classmethod
    def joined(cls, parts: Sequence[Letters]) -> Letters:
        """Return the letters of these chunks of one partition, at least one."""
        first = parts[0]
        if len(parts) == 1:
            return first
        return replace(
            first,
            records=Records.joined([each.records for each in parts]),
            rejects=Rejects.joined(each.rejects for each in parts),
            read_at=np.concatenate([each.read_at for each in parts]),
        )

    def rows(self) -> pa.RecordBatch:
        """Return the letters in the dead-letter table's schema, encrypted if the spec has policies.

        Columns that others added to the table are null.
        """
        context, schema, records = self.table.context, self.table.schema, self.records
        topic_id, generation = context.source_ids[self.topic]
        constants = {
            "topic": self.topic,
            "topic_id": topic_id,
            "generation": generation,
            "partition": self.partition,
            "batch_id": context.batch_id,
            "table_uuid": context.rows.uuid,
        }
        headers = records.headers.checked()
        has_problems = headers.has_problems()
        columns = {
            "offset": records.offsets,
            "timestamp": timestamps(records.timestamps_ms, _MICROSECONDS),
            "key": records.keys,
            "value": records.values,
            "headers": headers.lists,
            "reason": pa.array(self.rejects.reasons, pa.string()),
            "detail": pa.array(_details(self.rejects, headers) if has_problems else self.rejects.details, pa.string()),
            "path": pa.array(self.rejects.paths, pa.string()),
            "read_at": pa.array(self.read_at),
            **named_writers(context.spec, records.values, headers),
            **_optional(records),
        }
        letters = None if context.policed is None else context.policed.dead_letter_key
        if letters is not None:
            columns = encrypted_columns(
                _with_known_writers(columns, context), topic=self.topic, partition=self.partition, key=letters
            )
        fields = zip(schema.names, schema.types, strict=True)
        arrays = [_column(columns.get(name), constants.get(name), arrow_type, len(self)) for name, arrow_type in fields]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _with_known_writers(columns: Mapping[str, pa.Array], context: TaskContext) -> dict[str, pa.Array]:
    """Return columns without ids of schemas that the plan does not know: they may be bytes of a value without a frame.

    The encrypted detail has such an id.
    """
    known = {*context.schemas.values, *context.excluded.values}
    numbers = np.array([each for each in known if isinstance(each, int)], np.uint32).view(np.int32)
    uuids = [str(each) for each in known if isinstance(each, UUID)]
    of_plan = {"schema_id": pa.array(numbers), "schema_uuid": pa.array(uuids, pa.string())}
    kept = {
        name: pc.if_else(pc.is_in(columns[name], ids), columns[name], pa.scalar(None, ids.type))
        for name, ids in of_plan.items()
    }
    return {**columns, **kept}


def _optional(records: Records) -> dict[str, pa.Array]:
    """The fields that only some tables keep, which a replay then needs."""
    given = {"timestamp_type": records.timestamp_types, "leader_epoch": records.leader_epochs}
    return {name: column for name, column in given.items() if column is not None}


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
    return pa.repeat(pa.scalar(constant).cast(arrow_type), count)


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
