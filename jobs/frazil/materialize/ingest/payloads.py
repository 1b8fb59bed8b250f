"""The values (or keys) of a chunk, decoded by writer schema, with the rows in the order of the records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.formats.arrow import fit
from frazil.formats.decoder import EVERY_ONE_HAS_A_ROW, Decoded, Incomplete, Indexes, WithoutRow, chosen_payloads
from frazil.formats.framing import Framed
from frazil.formats.null_bytes import MOST_NULL_BYTES, null_bytes_added, null_bytes_of_row, wide_fields
from frazil.formats.placement import ColumnSources
from frazil.formats.rejects import Rejects
from frazil.formats.together import Together, Writer, divided
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

    `accepted` is None where that is all of them. `without_row` and `incomplete` are change events by their
    indexes in the chunk.
    """

    columns: list[pa.Array]
    accepted: Indexes | None
    rejects: Sequence[Reject]
    writers: Writers = NO_WRITERS
    truncated_nanos: int = 0
    undeclared: int = 0
    without_row: WithoutRow = EVERY_ONE_HAS_A_ROW
    incomplete: tuple[Incomplete, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """A range ends before the record at `index`: its schema has to reach the table first, or the look-ups are spent.

    `ahead` are further new schemas, of later records.
    """

    index: int
    by: StoppedBy
    schema_id: SchemaId
    of_key: bool
    ahead: tuple[SchemaId, ...] = ()


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of one writer schema, or of several: `members` has the place of each row's among the `schema_ids`.

    The schema id of tombstones is None, and that of values without a header.
    """

    indexes: Indexes | None
    rows: pa.RecordBatch
    schema_ids: Sequence[SchemaId | None]
    members: npt.NDArray[np.int32] | None = None

    def writers(self, every: int) -> Writers:
        """Return the writer of each row; `every` is the number of payloads of the chunk."""
        count = every if self.indexes is None else len(self.indexes)
        ids = pa.array([each if isinstance(each, int) else None for each in self.schema_ids], pa.int32())
        uuids = pa.array([str(each) if isinstance(each, UUID) else None for each in self.schema_ids], pa.string())
        of_rows = pa.array(np.zeros(count, np.int32) if self.members is None else self.members)
        return Writers(ids.take(of_rows), uuids.take(of_rows))


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
    work = _Work(payloads, target, [framed.unframed])
    writers = []
    for group in framed.groups:
        decoder = decoders.decoder(group.schema_id)
        if isinstance(decoder, Reason):
            work.rejects.append(all_refused(group.schema_id, decoder, group.indexes, len(payloads)))
        else:
            writers.append(Writer(group, decoder, place(group.schema_id, decoder.schema)))
    room, wide = _Room(len(payloads), _most_null_bytes(framed)), wide_fields(target)
    together, others = (None, writers) if wide else divided(writers, target)
    if together is not None:
        work.decode_together(together)
    for writer in others:
        given = chosen_payloads(payloads, writer.group.indexes)
        decoded = decode_group(writer.decoder, given, writer.group)
        room.take(len(given), null_bytes_added(decoded.rows, wide, writer.sources))
        work.add(decoded, writer.group.indexes, writer.sources, [writer.group.schema_id])
    if framed.nulls and nulls_are_rows:
        room.take(len(framed.nulls), len(framed.nulls) * null_bytes_of_row(target))
        work.pieces.append(_Piece(np.asarray(framed.nulls, np.int64), _nulls(target, len(framed.nulls)), [None]))
    elif framed.nulls:
        work.rejects.append(Rejects.alike(framed.nulls, Reason.NULL_VALUE, "the value is null"))
    return work.part()


@dataclass(slots=True)
class _Work:
    """What became of the payloads of a chunk so far."""

    payloads: pa.LargeBinaryArray
    target: pa.Schema
    rejects: list[Sequence[Reject]]
    pieces: list[_Piece] = field(default_factory=list)
    nanos: int = 0
    undeclared: int = 0
    without_row: WithoutRow = EVERY_ONE_HAS_A_ROW
    incomplete: list[Incomplete] = field(default_factory=list)

    def decode_together(self, together: Together) -> None:
        members = together.members(len(self.payloads))
        chosen = None if (members >= 0).all() else np.flatnonzero(members >= 0)
        members = members if chosen is None else members[chosen]
        decoded = together.decode(self.payloads, chosen, members)
        rows = np.delete(members, decoded.rowless) if decoded.rejects else members
        self.add(decoded, chosen, together.sources, [group.schema_id for group in together.groups], rows)

    def add(
        self,
        decoded: Decoded,
        chosen: Indexes | None,
        sources: ColumnSources,
        schema_ids: Sequence[SchemaId | None],
        members: npt.NDArray[np.int32] | None = None,
    ) -> None:
        """Add what the payloads `chosen` became. Raises CrowdedError if not all of them were decoded."""
        count = len(self.payloads) if chosen is None else len(chosen)
        if decoded.taken < count:
            raise CrowdedError(decoded.taken if chosen is None else int(chosen[decoded.taken]))
        self.nanos += decoded.truncated_nanos
        self.undeclared += decoded.undeclared
        self.rejects.append(Rejects.of(decoded.rejects).among(chosen))
        self.without_row += decoded.without_row.among(chosen)
        self.incomplete += [each.among(chosen) for each in decoded.incomplete]
        kept = _without(chosen, count, decoded.rowless)
        self.pieces.append(_Piece(kept, fit(decoded.rows, self.target, sources), schema_ids, members))

    def part(self) -> Part:
        return replace(
            self._assembled(),
            truncated_nanos=self.nanos,
            undeclared=self.undeclared,
            without_row=self.without_row,
            incomplete=tuple(self.incomplete),
        )

    def _assembled(self) -> Part:
        """Assemble the pieces into columns, in the order of the records."""
        pieces, rejects = self.pieces, Rejects.joined(self.rejects)
        if len(pieces) == 1:
            return Part(pieces[0].rows.columns, pieces[0].indexes, rejects, pieces[0].writers(len(self.payloads)))
        if not pieces:
            return Part(_nulls(self.target, 0).columns, np.empty(0, np.int64), rejects, NO_WRITERS)
        every = np.arange(len(self.payloads))
        order = np.concatenate([every if piece.indexes is None else piece.indexes for piece in pieces])
        places = np.argsort(order, kind="stable")
        sorting = pa.array(places)
        together = pa.Table.from_batches([piece.rows for piece in pieces])
        columns = [_one(column.take(sorting)) for column in together.columns]
        writers = [piece.writers(len(self.payloads)) for piece in pieces]
        ids, uuids = ([getattr(each, name) for each in writers] for name in ("ids", "uuids"))
        in_order = (_one(pa.chunked_array(each).take(sorting)) for each in (ids, uuids))
        return Part(columns, None if len(order) == len(every) else order[places], rejects, Writers(*in_order))


def narrow(columns: Sequence[pa.Array], have: Indexes | None, wanted: Indexes | None) -> list[pa.Array]:
    """Columns of the records `have`, cut down to the records `wanted`, which are some of them in the same order."""
    if wanted is None or (have is not None and len(have) == len(wanted)) or not columns:
        return list(columns)
    kept = np.zeros(len(columns[0]), np.bool_)
    kept[wanted if have is None else np.searchsorted(have, wanted)] = True
    bits = pa.py_buffer(np.packbits(kept, bitorder="little"))  # faster than an array of its booleans
    mask = pa.BooleanArray.from_buffers(pa.bool_(), len(kept), [None, bits])
    return [column.filter(mask) for column in columns]


def both(one: Indexes | None, other: Indexes | None) -> Indexes | None:
    """The records that are in both; None is all of them."""
    if one is None or other is None:
        return other if one is None else one
    return np.intersect1d(one, other, assume_unique=True)


def _most_null_bytes(framed: Framed) -> int:
    """Rows of several schemas are held three times while they are put in order: as pieces, together, and sorted."""
    return MOST_NULL_BYTES if len(framed.groups) + bool(framed.nulls) < 2 else MOST_NULL_BYTES // 3


def all_refused(schema_id: SchemaId | None, reason: Reason, chosen: Indexes | None, count: int) -> Rejects:
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
    return Rejects.alike(np.arange(count) if chosen is None else chosen, reason, detail)


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _nulls(schema: pa.Schema, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(count, f.type) for f in schema], schema=schema)


def _without(chosen: Indexes | None, count: int, rowless: Indexes) -> Indexes | None:
    if not len(rowless):
        return chosen
    has_row = np.ones(count, np.bool_)
    has_row[rowless] = False
    return np.flatnonzero(has_row) if chosen is None else chosen[has_row]
