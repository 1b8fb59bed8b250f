"""The values (or keys) of a chunk: sorted by writer schema, decoded, and put back in the records' order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np
import pyarrow as pa

from frazil.formats.arrow import fit
from frazil.formats.decoder import EVERY_ONE_HAS_A_ROW, Incomplete, Indexes, WithoutRow, chosen_payloads
from frazil.formats.framing import Framed
from frazil.formats.null_bytes import MOST_NULL_BYTES, null_bytes_added, null_bytes_of_row, wide_fields
from frazil.formats.unpacking import decode_group
from frazil.materialize.ingest.decoders import LookupsSpentError, NewSchemaError, SchemasById, TaskDecoders
from frazil.materialize.ingest.placing import Place
from frazil.model.dead_letter import Reason, Reject
from frazil.model.ingested import StoppedBy
from frazil.model.schemas import SchemaId


@dataclass(frozen=True, slots=True)
class Writers:
    """The writer schema of each row, as columns: `ids` are the registry's numbers, `uuids` the texts of UUIDs.

    A row has at most one of them.
    """

    ids: pa.Int32Array
    uuids: pa.StringArray


NO_WRITERS = Writers(pa.array([], pa.int32()), pa.array([], pa.string()))


@dataclass(frozen=True, slots=True)
class Part:
    """The values or the keys of a chunk, decoded: the columns of the accepted, in order, and who they are.

    `accepted` is None where that is all of them. `without_row` and
    `incomplete` are change events by their indexes in the chunk.
    """

    columns: list[pa.Array]
    accepted: Indexes | None
    rejects: tuple[Reject, ...]
    writers: Writers = NO_WRITERS
    truncated_nanos: int = 0
    undeclared: int = 0
    without_row: WithoutRow = EVERY_ONE_HAS_A_ROW
    incomplete: tuple[Incomplete, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """A range ends before the record at `index`: its schema has to reach the table first, or the look-ups are spent.

    `ahead` are further new schemas, of records behind it.
    """

    index: int
    by: StoppedBy
    schema_id: SchemaId
    of_key: bool
    ahead: tuple[SchemaId, ...] = ()


@dataclass(frozen=True, slots=True)
class _Piece:
    """The rows of one writer schema; the `schema_id` of tombstones is None, and that of values without a header."""

    indexes: Indexes | None
    rows: pa.RecordBatch
    schema_id: SchemaId | None


class CrowdedError(Exception):
    """The items of a chunk's records take too much memory together; those of its first `fitting` records may not."""

    def __init__(self, fitting: int) -> None:
        super().__init__(f"only the first {fitting} records can be decoded together")
        self.fitting = fitting


@dataclass(slots=True)
class _Room:
    """What the nulls of columns that decoders lack may take in the rows of `records` records, `most` bytes in all."""

    records: int
    most: int
    seen: int = 0
    taken: int = 0

    def take(self, rows: int, size: int) -> None:
        """Raise CrowdedError if the part is too large; a single record is always decoded."""
        self.seen += rows
        self.taken += size
        if self.taken > self.most and self.records > 1:
            raise CrowdedError(max(1, min(self.records - 1, self.seen * self.most // self.taken)))


def first_stop(schemas: SchemasById, framed: Framed, *, of_key: bool) -> Stop | None:
    """The first record of a schema that the plan does not know, if there is one."""
    for number, group in enumerate(framed.groups, start=1):
        index = 0 if group.indexes is None else int(group.indexes[0])
        if group.schema_id is None:
            continue
        try:
            schemas.schema(group.schema_id)
        except NewSchemaError:
            ahead = schemas.new_among(behind.schema_id for behind in framed.groups[number:])
            return Stop(index, "schema", group.schema_id, of_key, ahead)
        except LookupsSpentError:
            return Stop(index, "lookups", group.schema_id, of_key)
    return None


def decode_framed(
    payloads: pa.LargeBinaryArray,
    framed: Framed,
    decoders: TaskDecoders,
    *,
    target: pa.Schema,
    place: Place,
    nulls_are_rows: bool,
) -> Part:
    """Decode each schema's payloads with its own writer schema, onto the table's columns `target`.

    Raises CrowdedError where they have to be decoded in several parts.
    """
    rejects = list(framed.unframed)
    pieces: list[_Piece] = []
    nanos, undeclared, without_row, incomplete = 0, 0, EVERY_ONE_HAS_A_ROW, list[Incomplete]()
    room, wide = _Room(len(payloads), _most_null_bytes(framed)), wide_fields(target)
    for group in framed.groups:
        chosen, given = group.indexes, chosen_payloads(payloads, group.indexes)
        decoder = decoders.decoder(group.schema_id)
        if isinstance(decoder, Reason):
            rejects += all_refused(group.schema_id, decoder, chosen, len(payloads))
            continue
        decoded = decode_group(decoder, given, group)
        if decoded.taken < len(given):
            raise CrowdedError(decoded.taken if chosen is None else int(chosen[decoded.taken]))
        nanos += decoded.truncated_nanos
        undeclared += decoded.undeclared
        rejects += [_at(reject, chosen) for reject in decoded.rejects]
        without_row += decoded.without_row.among(chosen)
        incomplete += [each.among(chosen) for each in decoded.incomplete]
        sources = place(group.schema_id, decoded.rows.schema)
        room.take(len(given), null_bytes_added(decoded.rows, wide, sources))
        kept = _without(chosen, len(given), decoded.rowless)
        pieces.append(_Piece(kept, fit(decoded.rows, target, sources), group.schema_id))
    if framed.nulls and nulls_are_rows:
        room.take(len(framed.nulls), len(framed.nulls) * null_bytes_of_row(target))
        pieces.append(_Piece(np.asarray(framed.nulls, np.int64), _nulls(target, len(framed.nulls)), None))
    elif framed.nulls:
        rejects += [Reject(i, Reason.NULL_VALUE, "the value is null") for i in framed.nulls]
    part = _assemble(pieces, target, tuple(rejects), len(payloads))
    return replace(
        part, truncated_nanos=nanos, undeclared=undeclared, without_row=without_row, incomplete=tuple(incomplete)
    )


def narrow(columns: Sequence[pa.Array], have: Indexes | None, wanted: Indexes | None) -> list[pa.Array]:
    """Columns of the records `have`, cut down to the records `wanted`, which are some of them."""
    if wanted is None or (have is not None and len(have) == len(wanted)):
        return list(columns)
    places = wanted if have is None else np.searchsorted(have, wanted)
    return [column.take(pa.array(places)) for column in columns]


def both(one: Indexes | None, other: Indexes | None) -> Indexes | None:
    """The records that are in both; None is all of them."""
    if one is None or other is None:
        return other if one is None else one
    return np.intersect1d(one, other, assume_unique=True)


def _most_null_bytes(framed: Framed) -> int:
    """Rows of several schemas are held three times while they are put in order: as pieces, together, and sorted."""
    return MOST_NULL_BYTES if len(framed.groups) + bool(framed.nulls) < 2 else MOST_NULL_BYTES // 3


def all_refused(schema_id: SchemaId | None, reason: Reason, chosen: Indexes | None, count: int) -> list[Reject]:
    """Refuse all records of a schema, for what its id is."""
    if reason is Reason.UNKNOWN_SCHEMA_ID:
        detail = f"the registry has no schema with the id {schema_id}"
    elif reason is Reason.REFUSED_SCHEMA:
        detail = (
            f"the schema {schema_id} is excluded: its records become dead letters (`frazil resume"
            " --dead-letter-schema`)"
        )
    else:
        detail = f"the schema {schema_id} has another type than the spec says"
    return [Reject(i, reason, detail) for i in (range(count) if chosen is None else chosen.tolist())]


def _assemble(pieces: list[_Piece], target: pa.Schema, rejects: tuple[Reject, ...], count: int) -> Part:
    """Assemble the pieces of several writer schemas into columns, in the order of the records."""
    counts = [count if piece.indexes is None else len(piece.indexes) for piece in pieces]
    writers = [_writers(piece.schema_id, n) for piece, n in zip(pieces, counts, strict=True)]
    if len(pieces) == 1:
        return Part(pieces[0].rows.columns, pieces[0].indexes, rejects, writers[0])
    if not pieces:
        return Part(_nulls(target, 0).columns, np.empty(0, np.int64), rejects, NO_WRITERS)
    order = np.concatenate([np.arange(count) if piece.indexes is None else piece.indexes for piece in pieces])
    places = np.argsort(order, kind="stable")
    sorting = pa.array(places)
    together = pa.Table.from_batches([piece.rows for piece in pieces])
    columns = [_one(column.take(sorting)) for column in together.columns]
    accepted = None if len(order) == count else order[places]
    ids, uuids = ([getattr(each, name) for each in writers] for name in ("ids", "uuids"))
    in_order = (_one(pa.chunked_array(each).take(sorting)) for each in (ids, uuids))
    return Part(columns, accepted, rejects, Writers(*in_order))


def _writers(schema_id: SchemaId | None, count: int) -> Writers:
    uuid = str(schema_id) if isinstance(schema_id, UUID) else None
    number = schema_id if isinstance(schema_id, int) else None
    return Writers(pa.repeat(pa.scalar(number, pa.int32()), count), pa.repeat(pa.scalar(uuid, pa.string()), count))


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _nulls(schema: pa.Schema, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(count, f.type) for f in schema], schema=schema)


def _without(chosen: Indexes | None, count: int, rowless: Indexes) -> Indexes | None:
    if not len(rowless):
        return chosen
    kept = np.delete(np.arange(count), rowless)
    return kept if chosen is None else chosen[kept]


def _at(reject: Reject, chosen: Indexes | None) -> Reject:
    """A decoder counts within what it was given: the reject with its index in the chunk."""
    if chosen is None:
        return reject
    return Reject(int(chosen[reject.index]), reject.reason, reject.detail, reject.path)
