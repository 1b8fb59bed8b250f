"""The rows of one table: records decoded onto its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from frazil.formats.decoder import NO_INDEXES, Indexes, WithoutRow
from frazil.formats.framing import Framed
from frazil.formats.open import open_plain
from frazil.formats.rejects import Rejects
from frazil.materialize.ingest.dead_rows import timestamps
from frazil.materialize.ingest.decoders import TaskDecoders, TaskSchemas
from frazil.materialize.ingest.intervals import newest_rows, valid_from, valid_from_column
from frazil.materialize.ingest.isolate import Refused
from frazil.materialize.ingest.keys import (
    bad_keys,
    decoded_keys,
    former_key_names,
    key_schema,
    plain_keys,
    with_identities,
    with_identity,
)
from frazil.materialize.ingest.partition_bounds import partition_bounds
from frazil.materialize.ingest.payloads import Part, Stop, both, decode_framed, first_stop, narrow
from frazil.materialize.ingest.placing import ByName, Place, nowhere
from frazil.materialize.layout import reads_keys_by_schema
from frazil.model.dead_letter import Reason, Reject
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.ingested import FollowedRecords, IncompleteRecords
from frazil.model.partition_numbers import PartitionNumbers
from frazil.model.spec import TableSpec
from frazil.modes.followed import ONE_TOPIC, added_columns, followed_records
from frazil.modes.identified import IdentityPaths, value_at
from frazil.modes.identity import COLUMNS, FIRST, SECOND
from frazil.modes.validity import VALID_FROM, begins
from frazil.modes.wanted import as_array, as_numbers
from frazil.records import Records


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records of one partition, their values and Avro keys sorted by writer schema.

    `route` are the indexes of those that the table's route takes; None if the table takes all. `values` has no others.
    """

    topic: str
    partition: int
    records: Records
    values: Framed
    keys: Framed
    route: Indexes | None = None


@dataclass(frozen=True, slots=True)
class TableRows:
    """What became of a chunk's records in one table. `accepted` are the indexes of the rows; None if these are all."""

    rows: pa.RecordBatch
    accepted: Indexes | None
    rejects: Rejects
    truncated_nanos: int
    undeclared: int
    deletes: FollowedRecords | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    incomplete: tuple[IncompleteRecords, ...] = ()
    truncates: Indexes = field(default_factory=lambda: NO_INDEXES)
    """The offsets of records that take out all rows."""

    def without(self, indexes: Indexes, offsets: pa.Int64Array) -> TableRows:
        """Return this without records of a chunk, by their indexes; it has these offsets."""
        if not len(indexes):
            return self
        accepted = np.arange(len(offsets)) if self.accepted is None else self.accepted
        stays = ~np.isin(accepted, indexes)
        out = offsets.take(pa.array(np.sort(indexes))).to_numpy()
        deletes = None if self.deletes is None else _without_offsets(self.deletes, out)
        return replace(
            self,
            rows=self.rows.filter(pa.array(stays)),
            accepted=accepted[stays],
            deletes=deletes,
            incomplete=tuple(_other_than(each, out) for each in self.incomplete),
        )


class TableDecoder:
    """Decodes records onto the columns of one table, `table` by name."""

    def __init__(
        self,
        spec: TableSpec,
        *,
        table: str,
        row_schema: pa.Schema,
        schemas: TaskSchemas,
        former_names: Mapping[str, tuple[str, ...]],
        place_values: Place | None = None,
        place_keys: type[ByName] = ByName,
        numbers: PartitionNumbers = ONE_TOPIC,
    ) -> None:
        self._spec = spec
        self._numbers = numbers
        self._row_schema = row_schema
        self._values = TaskDecoders(schemas.values, spec.value_settings, spec.wire_format)
        self._keys = TaskDecoders(schemas.keys, spec.key_settings, spec.wire_format)
        kept, prefix = spec.metadata.keep, spec.metadata.prefix
        self._metadata = {prefix + name: name for name in kept if prefix + name in row_schema.names}
        identity = _identity_of(spec, table, row_schema, former_names) if spec.follows_keys else None
        self._key_identity = identity if spec.is_identified_by_key else None
        self._identity = None if spec.is_identified_by_key else identity
        self._keeps_history = spec.keeps_history and VALID_FROM in row_schema.names
        apart = {*self._metadata, *(column.name for column in added_columns(spec))}
        self._record_schema = pa.schema([f for f in row_schema if f.name not in apart])
        self._key_column = prefix + "key"
        judged = [f for f in row_schema if f.name == self._key_column or f.name in self._record_schema.names]
        self._partition_bounds = partition_bounds(spec.partition_by, pa.schema(judged))
        self._reads_keys_by_schema = reads_keys_by_schema(spec)
        self._plain_keys = open_plain(spec.key, spec.key_settings)
        self._place_values = place_values or ByName(table, self._record_schema, former_names)
        self._place_keys = self._keys_by_name(place_keys, table, former_names)

    @property
    def keeps_headers(self) -> bool:
        return "headers" in self._metadata.values()

    def stop(self, chunk: Chunk) -> Stop | None:
        """The first record that must wait, whether for its value's schema or for its key's."""
        found = (
            first_stop(self._values.schemas, chunk.values, of_key=False),
            first_stop(self._keys.schemas, chunk.keys, of_key=True),
        )
        return min((stop for stop in found if stop is not None), key=lambda stop: stop.index, default=None)

    def decode(self, chunk: Chunk, refused: Refused) -> TableRows:
        """Decode all records but those that are refused. Raises CrowdedError and IncompatibleSchemaError."""
        values, keys = self._decode_values(chunk), self._decode_keys(chunk)
        deletes, skipped = None, values.without_row.skipped
        unfit = {**self._unordered(chunk, values, keys), **self._unplaced(values, keys)}
        unfit = {each.index: each for each in _of_route([*unfit.values()], chunk.route)}
        refused = {**unfit, **refused}
        if self._key_identity is not None:
            keys = with_identities(keys, self._key_column, self._key_identity, len(chunk.records))
            values, deletes = self._without_deletes(chunk, values, keys, refused)
        accepted = _except(refused, both(values.accepted, keys.accepted), len(chunk.records))
        rows, nulls = self._rows(chunk, values, keys, accepted), tuple[Reject, ...]()
        keys_refused = _but_keyless(_of_route(keys.rejects, chunk.route), values.without_row)
        if self._identity is not None and rows.column(FIRST).null_count:
            first = rows.column(FIRST)
            accepted, nulls = with_identity(first, accepted, len(chunk.records), self._identity.text)
            rows = rows.filter(first.is_valid())
        return TableRows(
            rows=rows,
            accepted=accepted,
            rejects=Rejects.joined([unfit.values(), keys_refused, values.rejects, nulls]).in_order(),
            truncated_nanos=values.truncated_nanos + keys.truncated_nanos,
            undeclared=values.undeclared + keys.undeclared,
            deletes=deletes,
            skipped={reason: len(indexes) for reason, indexes in skipped.items()},
            incomplete=tuple(self._incomplete(chunk, values, accepted)),
            truncates=chunk.records.offsets.take(pa.array(values.without_row.truncates)).to_numpy(),
        )

    def _incomplete(self, chunk: Chunk, values: Part, accepted: Indexes | None) -> Iterator[IncompleteRecords]:
        for each in values.incomplete:
            offsets = chunk.records.offsets.take(pa.array(both(each.indexes, accepted))).to_numpy()
            columns = each.columns_of(self._record_schema.names)
            yield IncompleteRecords(chunk.partition, columns, each.needs_row, as_array(offsets))

    def _without_deletes(
        self, chunk: Chunk, values: Part, keys: Part, refused: Refused
    ) -> tuple[Part, FollowedRecords | None]:
        """Return the values without the tombstones that delete an identity, and these with other deletes."""
        takes = self._spec.on_tombstone == "delete"
        tombstones = [r.index for r in values.rejects if r.reason is Reason.NULL_VALUE] if takes else []
        deleting = np.sort(np.concatenate([np.array(tombstones, np.int64), values.without_row.deletes]))
        if not len(deleting):
            return values, None
        rejects = tuple(r for r in values.rejects if not takes or r.reason is not Reason.NULL_VALUE)
        found = _except(refused, both(deleting, keys.accepted), len(chunk.records))
        assert found is not None  # noqa: S101 - None is all of the records
        identities = narrow(keys.columns[1:], keys.accepted, found)
        offsets = chunk.records.offsets.take(pa.array(found))
        order = self._order_of_deletes(chunk.records, values.without_row, keys, found)
        number = self._numbers.number(chunk.topic, chunk.partition)
        return replace(values, rejects=rejects), followed_records(identities, number, offsets, order)

    def _order_of_deletes(self, records: Records, events: WithoutRow, keys: Part, found: Indexes) -> Sequence[pa.Array]:
        """Return the columns that order the records that delete an identity, which are at these indexes."""
        if events.delete_order:
            places = np.searchsorted(events.deletes, found)
            return [pa.array(column[places]) for column in events.delete_order]
        if self._keeps_history:
            return [valid_from(records, self._row_schema).take(pa.array(found))]
        if self._spec.orders_by_key:
            return narrow([self._order_in_keys(keys)], keys.accepted, found)
        return [] if self._spec.order_by is None else [self._timestamps(records).take(pa.array(found))]

    def _unordered(self, chunk: Chunk, values: Part, keys: Part) -> Refused:
        """Return the records that the column that orders them does not order, without those that are skipped."""
        name = self._spec.order_by
        if name is None:
            return {}
        if self._spec.orders_by_value:
            by_name = dict(zip(self._record_schema.names, values.columns, strict=True))
            column, records = value_at(by_name, name), values.accepted
        elif self._spec.orders_by_key:
            column, records = self._order_in_keys(keys), keys.accepted
        else:
            column, records = self._timestamps(chunk.records), None
        order = begins(column) if self._keeps_history else column
        if not order.null_count:
            return {}
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        rejects = [
            Reject(int(at if records is None else records[at]), *(_NULL_ORDER if is_null[at] else _NO_TIME), name)
            for at in np.flatnonzero(order.is_null().to_numpy(zero_copy_only=False)).tolist()
        ]
        return {reject.index: reject for reject in _but_keyless(rejects, values.without_row)}

    def _unplaced(self, values: Part, keys: Part) -> Refused:
        """Return the records whose row would have no partition."""
        found: dict[int, Reject] = {}
        for name, bounds in self._partition_bounds.items():
            part, place = (keys, 0) if name == self._key_column else (values, self._record_schema.get_field_index(name))
            for at in bounds.outside(part.columns[place]).tolist():
                index = int(at if part.accepted is None else part.accepted[at])
                found[index] = Reject(index, Reason.OUT_OF_RANGE, f"it has no partition: {bounds}", name)
        return found

    def _begins(self, chunk: Chunk, columns: Mapping[str, pa.Array], accepted: Indexes | None) -> pa.Array:
        """Return when the accepted records begin to be valid; `columns` has those of their values."""
        if self._spec.orders_by_value and self._spec.order_by is not None:
            return valid_from_column(value_at(columns, self._spec.order_by), self._row_schema)
        return narrow([valid_from(chunk.records, self._row_schema)], None, accepted)[0]

    def _order_in_keys(self, keys: Part) -> pa.Array:
        """Return what orders each decoded key."""
        assert self._spec.order_by is not None  # noqa: S101 - it is a field of the key
        return value_at({self._key_column: keys.columns[0]}, self._spec.order_by)

    def _timestamps(self, records: Records) -> pa.Array:
        return timestamps(records.timestamps_ms, self._row_schema.field(f"{self._spec.metadata.prefix}timestamp").type)

    def _keys_by_name(self, by_name: type[ByName], table: str, known_as: Mapping[str, tuple[str, ...]]) -> Place:
        if not self._reads_keys_by_schema or self._key_column not in self._metadata:
            return nowhere
        field = self._row_schema.field(self._key_column)
        former_names = former_key_names(known_as, field)
        return by_name(table, key_schema(field), former_names, of_key=True)

    def _decode_values(self, chunk: Chunk) -> Part:
        return decode_framed(
            chunk.records.values,
            chunk.values,
            self._values,
            target=self._record_schema,
            place=self._place_values,
            nulls_are_rows=self._spec.on_tombstone == "row",
        )

    def _decode_keys(self, chunk: Chunk) -> Part:
        if self._key_column not in self._metadata:
            return self._judge_keys(chunk)
        field, keys = self._row_schema.field(self._key_column), chunk.records.keys
        if self._spec.key == "none":
            return Part([keys.cast(field.type)], None, ())
        if self._plain_keys is not None:
            return plain_keys(keys, field, self._plain_keys)
        decoded = decode_framed(
            keys, chunk.keys, self._keys, target=key_schema(field), place=self._place_keys, nulls_are_rows=True
        )
        return decoded_keys(decoded, field, keys)

    def _judge_keys(self, chunk: Chunk) -> Part:
        """Judge the keys of a table that has no key column yet: keys without a schema are refused already."""
        if not self._reads_keys_by_schema:
            return Part([], None, ())
        judged = decode_framed(
            chunk.records.keys, chunk.keys, self._keys, target=pa.schema([]), place=nowhere, nulls_are_rows=True
        )
        return Part([], judged.accepted, bad_keys(judged.rejects, self._key_column))

    def _rows(self, chunk: Chunk, values: Part, keys: Part, accepted: Indexes | None) -> pa.RecordBatch:
        decoded = narrow(values.columns, values.accepted, accepted)
        by_name = dict(zip(self._record_schema.names, decoded, strict=True))
        if self._key_identity is not None:
            identities = narrow(keys.columns[1:], keys.accepted, accepted)
            by_name |= {column.name: half for column, half in zip(COLUMNS, identities, strict=True)}
        if self._keeps_history:
            by_name |= newest_rows(self._begins(chunk, by_name, accepted))
        of_all = {}
        for column, name in self._metadata.items():
            arrow_type = self._row_schema.field(column).type
            match name:
                case "key" if keys.accepted is None:
                    of_all[column] = keys.columns[0]
                case "key":
                    by_name[column] = narrow(keys.columns, keys.accepted, accepted)[0]
                case "schema_id" | "schema_uuid":
                    writers = values.writers.ids if name == "schema_id" else values.writers.uuids
                    by_name[column] = narrow([writers], values.accepted, accepted)[0].cast(arrow_type)
                case "topic" | "partition":
                    value = chunk.topic if name == "topic" else chunk.partition
                    count = len(chunk.records) if accepted is None else len(accepted)
                    by_name[column] = pa.repeat(pa.scalar(value, arrow_type), count)
                case _:
                    of_all[column] = _about(chunk.records, name, arrow_type)
        by_name |= zip(of_all, narrow(list(of_all.values()), None, accepted), strict=True)
        if self._identity is not None:
            by_name |= zip((FIRST, SECOND), self._identity.of(by_name).columns, strict=True)
        return pa.RecordBatch.from_arrays([by_name[f.name] for f in self._row_schema], schema=self._row_schema)


_NULL_ORDER = (Reason.NULL_ORDER, "it orders the records of a key, and is null")
_NO_TIME = (Reason.OUT_OF_RANGE, "an interval cannot begin at this time: it has more than 64 bits in microseconds")


def _identity_of(
    spec: TableSpec, table: str, rows: pa.Schema, former_names: Mapping[str, tuple[str, ...]]
) -> IdentityPaths:
    if not spec.identity:
        return IdentityPaths(spec.identity_paths)
    found = IdentityPaths.found(spec.identity, rows, former_names)
    if found is None:
        raise IncompatibleSchemaError(
            f"{table}: a column of the identity {', '.join(spec.identity)} is not in the table",
            hint="run `frazil explain` to see which change of the table this is",
        )
    return found


def _without_offsets(records: FollowedRecords, out: Indexes) -> FollowedRecords | None:
    stays = ~np.isin(as_numbers(records.offset), out)
    if not stays.any():
        return None
    columns = (records.first, records.second, records.partition, records.offset, *records.order)
    first, second, partition, offset, *order = (as_array(as_numbers(each)[stays]) for each in columns)
    return FollowedRecords(first, second, partition, offset, tuple(order))


def _other_than(events: IncompleteRecords, out: Indexes) -> IncompleteRecords:
    offsets = as_numbers(events.offset)
    return replace(events, offset=as_array(offsets[~np.isin(offsets, out)]))


def _of_route(rejects: Sequence[Reject], route: Indexes | None) -> Sequence[Reject]:
    """Return the rejects of the route's records: keys are decoded for all records of a chunk."""
    if route is None or not rejects:
        return rejects
    mine = set(route.tolist())
    return [reject for reject in rejects if reject.index in mine]


def _but_keyless(rejects: Sequence[Reject], events: WithoutRow) -> Sequence[Reject]:
    """Return the rejects but those of events that are about no key: nothing is asked of their keys."""
    keyless = np.concatenate([events.truncates, *events.skipped.values()]) if rejects else NO_INDEXES
    if not len(keyless):
        return rejects
    indexes = set(keyless.tolist())
    return [reject for reject in rejects if reject.index not in indexes]


def _except(refused: Refused, accepted: Indexes | None, count: int) -> Indexes | None:
    """The accepted records but for those that are refused."""
    if not refused:
        return accepted
    everything = np.arange(count) if accepted is None else accepted
    return np.setdiff1d(everything, np.fromiter(refused, np.int64), assume_unique=True)


def _about(records: Records, name: str, arrow_type: pa.DataType) -> pa.Array:
    """A metadata column of records."""
    if name == "timestamp":
        return timestamps(records.timestamps_ms, arrow_type)
    return _COLUMNS[name](records).cast(arrow_type)


_COLUMNS: Mapping[str, Callable[[Records], pa.Array]] = {
    "offset": lambda records: records.offsets,
    "timestamp_type": lambda records: records.timestamp_types,
    "headers": lambda records: records.headers.lists,
    "value": lambda records: records.values,
    "leader_epoch": lambda records: records.leader_epochs,
}
