"""Say what becomes of records by a spec, and by the earlier specs of its table, without making rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.adapters.iceberg.scan import arrow_schema_of
from frazil.formats.decoder import Indexes
from frazil.materialize.changed_spec.earlier_keys import MOST
from frazil.materialize.ingest.dead_rows import named_writers
from frazil.materialize.ingest.decode import DecodedRecords
from frazil.materialize.ingest.decoders import NewSchemaError
from frazil.materialize.ingest.partition_bounds import partition_bounds
from frazil.materialize.ingest.placing import ByNameIfThere
from frazil.materialize.ingest.routing import Router
from frazil.materialize.ingest.table_rows import TableDecoder
from frazil.materialize.schema.former_names import former_names_of
from frazil.materialize.state import Standing
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.routes import Route, are_shapes
from frazil.model.schemas import NONE_EXCLUDED, ExcludedSchemas
from frazil.model.snapshot import TableView
from frazil.model.spec import OnBadRecord, OnTombstone, TableSpec
from frazil.modes.identified import IdentityPaths
from frazil.modes.wanted import as_numbers
from frazil.ports import SchemaRegistry
from frazil.records import Headers, Records
from frazil.verify.decode import KnownSchemas, Redecoder, about_record, record_decoder, routes_of
from frazil.verify.earlier_specs import Specs
from frazil.verify.key_columns import KeyColumn


@dataclass(slots=True)
class Judge(Redecoder):
    """Says what becomes of records, without making rows. `router` is that of a group.

    With shapes, it is what becomes of them in the table at `place`; all tables refuse records. Each of the `earlier`
    judges, the newest first, has read the records before an offset. What the judge of its time skips was skipped. Of
    another record, the newest judge that accepts it says what it is: a replay may have read it again.
    Where refused records are skipped, `by_letters` has dead letters of them.
    """

    router: Router | None = None
    place: int | None = None
    earlier: Sequence[tuple[int, Judge]] = ()
    by_letters: Judge | None = None

    def decode(self, topic: str, partition: int, records: Records) -> Iterator[DecodedRecords]:
        judges = [self, *(judge for _, judge in self.earlier)]
        starts = [*(until for until, _ in self.earlier[1:]), 0]
        for number, ((until, judge), start) in enumerate(zip(self.earlier, starts, strict=False), start=1):
            is_of_time = pc.and_(pc.greater_equal(records.offsets, start), pc.less(records.offsets, until))
            left = records.filter(is_of_time)
            records = records.filter(pc.invert(is_of_time))
            left = _without(left, judge._skipped(topic, partition, left))
            for each in judges[: number + 1]:
                accepted = left.filter(pc.is_in(left.offsets, each._accepted(topic, partition, left)))
                yield from each._decode(topic, partition, accepted)
                left = _without(left, accepted.offsets)
            yield from judge._decode(topic, partition, left)
        yield from self._decode(topic, partition, records)

    def _decode(self, topic: str, partition: int, records: Records) -> Iterator[DecodedRecords]:
        for decoded in Redecoder.decode(self, topic, partition, records):
            yield decoded if self.place is None else decoded.of_table(self.place)

    def _accepted(self, topic: str, partition: int, records: Records) -> pa.Array:
        """Return the offsets of the records that are rows or deletes; none if fields cannot be placed onto columns."""
        try:
            found = [_accepted_in(each) for each in self._decode(topic, partition, records)]
        except IncompatibleSchemaError:
            found = []
        return pa.array(np.concatenate([np.empty(0, np.int64), *found]), pa.int64())

    def _skipped(self, topic: str, partition: int, records: Records) -> pa.Array:
        """Return the offsets of the records that its spec skips."""
        if "skip" not in (self.spec.on_bad_record, self.spec.on_tombstone):
            return records.offsets[:0]
        accepted = self._accepted(topic, partition, records)
        left = _without(records, accepted)
        return _without(left, self._letters(topic, partition, left)).offsets

    def _letters(self, topic: str, partition: int, records: Records) -> pa.Array:
        """Return the offsets of the records that are dead letters; all if their fields cannot be placed."""
        try:
            letters = [each.dead_letters for each in self._decode(topic, partition, records)]
        except IncompatibleSchemaError:
            return records.offsets
        offsets = [pa.array([], pa.int64()), *(each.column("offset").cast(pa.int64()) for each in letters if each)]
        return pa.concat_arrays(offsets)

    def accepted_by_all(self, topic: str, partition: int, records: Records) -> pa.Array:
        """Return the offsets of the records with a value that neither this nor an earlier judge refuses.

        There are none where specs may have changed more often than a table keeps.
        """
        accepted = records.filter(records.values.is_valid())
        for until, judge in [(records.next_offset, self), *self.earlier]:
            read_by = accepted.filter(pc.less(accepted.offsets, until))
            accepted = _without(accepted, (judge.by_letters or judge)._letters(topic, partition, read_by))
        return accepted.offsets if len(self.earlier) < MOST else accepted.offsets[:0]

    def named_writers(self, values: pa.LargeBinaryArray, headers: Headers) -> Mapping[str, pa.Array]:
        """Return the schemas that values name, as a dead letter has them."""
        return named_writers(self.spec, values, headers)

    def routes_of(self, records: Records) -> Indexes:
        """Return which route of the group takes each record, by its place; -1 for none."""
        assert self.router is not None  # noqa: S101 - asked of the judges of groups only
        headers = records.headers.checked()
        framed = self.decoder.group_values(records.values, headers)
        while True:
            try:
                return self.router.divide(records.values, framed, headers).route_of
            except NewSchemaError as new:
                self.learn(new.schema_id, of_key=False)


def _without(records: Records, offsets: pa.Array) -> Records:
    return records.filter(pc.invert(pc.is_in(records.offsets, offsets)))


def _accepted_in(decoded: DecodedRecords) -> npt.NDArray[np.int64]:
    """Return the offsets of rows, deletes and truncates."""
    deletes = (as_numbers(table.deletes.offset) for table in decoded.tables if table.deletes is not None)
    return np.concatenate([decoded.truncates, *(table.offsets for table in decoded.tables), *deletes])


def of_letters(spec: TableSpec) -> Mapping[str, Any]:
    """Return how a spec judges records that are dead letters."""
    tombstones: OnTombstone = spec.on_tombstone if spec.follows_keys else "dead_letter"
    return {"on_bad_record": "dead_letter", "on_tombstone": tombstones}


def of_leftovers(spec: TableSpec) -> Mapping[str, Any]:
    """Return how a spec judges records that are neither rows nor dead letters."""
    bad: OnBadRecord = "skip" if spec.on_bad_record == "skip" else "dead_letter"
    return {"on_bad_record": bad, "on_tombstone": spec.on_tombstone}


def open_judge(
    tables: Specs,
    dead_letters: TableView,
    registry: SchemaRegistry,
    *,
    on_bad_record: OnBadRecord,
    on_tombstone: OnTombstone,
    excluded: ExcludedSchemas = NONE_EXCLUDED,
    place: int | None = None,
) -> Judge:
    """Return what judges the records of a table, or those of a group, whose ledger is the first one.

    `place` is that of one table among shapes. A record that deletes in one of these deletes there.
    What records hold is not encrypted: no letter is written.
    """
    by_letters = None
    if on_bad_record == "skip":
        how: dict[str, Any] = {"on_tombstone": on_tombstone, "excluded": excluded, "place": place}
        by_letters = open_judge(tables, dead_letters, registry, on_bad_record="dead_letter", **how)
    spec, at = tables[0]
    spec = replace(spec, on_bad_record=on_bad_record, on_tombstone=on_tombstone, dead_letter_key=None)
    routes, by_name = routes_of(at.state), {own.table: (own, standing) for own, standing in tables}
    own_of_each = [by_name.get(route.table) or _removed(route, tables[0]) for route in routes] or [tables[0]]
    specs = [(route, own) for route, (own, _) in zip(routes, own_of_each, strict=False)]
    known = KnownSchemas.none_yet(spec, registry, _judging_keys(own_of_each), excluded, specs)
    decoders = [
        TableDecoder(
            replace(own, on_bad_record=on_bad_record, on_tombstone=_tombstones(own, on_tombstone)),
            table=own.identifier,
            row_schema=_without_record(own, standing.view),
            schemas=known.of_task(),
            former_names=former_names_of(standing.view.properties),
            place_values=_placed_deciding(own, standing),
            place_keys=ByNameIfThere,
            numbers=at.state.partition_numbers,
        )
        for own, standing in own_of_each
    ]
    is_divided = bool(routes) and not are_shapes(routes)
    settings = [own.value_settings for own, _ in own_of_each]
    router = Router(routes, known.values, settings, spec.wire_format) if is_divided else None
    decoder = record_decoder(spec, decoders, at, dead_letters, router)
    return Judge(spec, registry, decoder, known, router, place, by_letters=by_letters)


def _judging_keys(tables: Specs) -> Iterator[KeyColumn | None]:
    """Yield the key columns that records are judged by: a field of a key need not have a place there."""
    for spec, at in tables:
        names = former_names_of(at.view.properties)
        yield KeyColumn.of(spec, _without_record(spec, at.view), names, stored=False)


def _removed(route: Route, ledger: tuple[TableSpec, Standing]) -> tuple[TableSpec, Standing]:
    """Return a spec for the records of a route that is in the state only: they have the columns of its message."""
    own, at = ledger
    if own.value != "protobuf" or route.schema is None:
        return ledger
    return replace(own, value_settings=replace(own.value_settings, message=route.schema)), at


def _tombstones(spec: TableSpec, otherwise: OnTombstone) -> OnTombstone:
    return "delete" if spec.on_tombstone == "delete" else otherwise


def _without_record(spec: TableSpec, view: TableView) -> pa.Schema:
    """Return the columns that a record is judged by without a row: the table may not hold the schema of a letter.

    In a table that follows keys, the identity and the order say which row it is about, and whether it is newer. Some
    values have no partition.
    """
    row_schema = arrow_schema_of(view)
    found = IdentityPaths.found(spec.identity_paths, row_schema, former_names_of(view.properties))
    order = spec.order if spec.orders_by_field else ()
    deciding = {*(() if found is None else found.tops), *(path.partition(".")[0] for path in order)}
    deciding |= partition_bounds(spec.partition_by, row_schema).keys()
    without_key = {spec.metadata.prefix + "key"} if spec.key_type is not None else set()
    about = (about_record(spec) - without_key) | deciding
    return pa.schema([each for each in row_schema if each.name in about])


def _placed_deciding(spec: TableSpec, at: Standing) -> ByNameIfThere:
    """Return the placement of the record's own columns by which it is judged."""
    about, known = about_record(spec), former_names_of(at.view.properties)
    of_record = pa.schema([each for each in _without_record(spec, at.view) if each.name not in about])
    return ByNameIfThere(at.view.identifier, of_record, known)
