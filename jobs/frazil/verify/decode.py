"""Decode Kafka's records again, exactly as ingest decodes them, onto the table's present schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.adapters.iceberg.scan import arrow_schema_of, schemas_of
from frazil.formats.decoder import Indexes
from frazil.formats.open import record_names
from frazil.materialize.changed_spec.earlier_keys import MOST
from frazil.materialize.ingest.dead_rows import named_writers
from frazil.materialize.ingest.decode import DecodedRecords, RecordDecoder, now_utc
from frazil.materialize.ingest.decoders import NewSchemaError, SchemasById, TaskSchemas, UnknownIds
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.least_placed import least_placed
from frazil.materialize.ingest.placing import ByNameIfThere
from frazil.materialize.ingest.routing import Router
from frazil.materialize.ingest.table_rows import TableDecoder
from frazil.materialize.schema.columns_of import record_columns
from frazil.materialize.schema.former_names import former_names_of
from frazil.materialize.state import Standing
from frazil.model.dead_letter import Reason
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.ingested import TaskContext
from frazil.model.plan import WriterSchemas
from frazil.model.progress import TableState
from frazil.model.routes import Route, are_shapes
from frazil.model.schemas import NONE_EXCLUDED, ExcludedSchemas, RegisteredSchema, SchemaId
from frazil.model.snapshot import TableView
from frazil.model.spec import OnBadRecord, OnTombstone, TableSpec
from frazil.modes.followed import added_columns
from frazil.modes.identified import IdentityPaths
from frazil.modes.validity import NAMES as VALIDITY
from frazil.ports import SchemaRegistry
from frazil.records import Headers, OptionalFields, Records
from frazil.verify.earlier_specs import Specs
from frazil.verify.key_columns import KeyColumn
from frazil.verify.placement import ByFieldId

Routes = Sequence[tuple[Route, TableSpec]]


@dataclass(slots=True)
class _AnyNumber(UnknownIds):
    """Here nothing is being published: look up as many ids as it takes."""

    def look_up(self, schema_id: SchemaId) -> RegisteredSchema | None:
        return self.registry.by_id(schema_id)


class _PossibleSchemas(SchemasById):
    """Schemas that can become columns; no table was ever able to hold any other, so its records are dead letters.

    `routes` are those of a group, with the specs of their tables. All that can get a record must be able to hold it.
    A schema of keys must have a place in `key_columns`, too.
    """

    def __init__(
        self,
        spec: TableSpec,
        unknown: UnknownIds,
        excluded: ExcludedSchemas,
        routes: Routes,
        key_columns: Iterable[KeyColumn | None] = (),
        *,
        of_key: bool,
    ) -> None:
        self.known: dict[SchemaId, RegisteredSchema] = {}
        word, ids = (spec.key, excluded.keys) if of_key else (spec.value, excluded.values)
        super().__init__(word, self.known, unknown, ids)
        self._spec, self._routes, self._of_key = spec, routes, of_key
        self._key_columns = [column for column in key_columns if column is not None]
        self._possible: dict[SchemaId, bool] = {}

    def schema(self, schema_id: SchemaId) -> RegisteredSchema | Reason:
        found = super().schema(schema_id)
        if isinstance(found, Reason):
            return found
        if schema_id not in self._possible:
            self._possible[schema_id] = self._can_become_columns(found)
        return found if self._possible[schema_id] else Reason.REFUSED_SCHEMA

    def _can_become_columns(self, schema: RegisteredSchema) -> bool:
        try:
            for spec in self._takers(schema):
                record_columns(spec, schema, of_key=self._of_key)
        except IncompatibleSchemaError:
            return False
        return all(column.holds(schema) for column in self._key_columns)

    def _takers(self, schema: RegisteredSchema) -> Iterable[TableSpec]:
        if not self._routes:
            return (self._spec,)
        return (own for route, own in self._routes if self._of_key or route.takes(record_names(schema)))


@dataclass(frozen=True, slots=True)
class KnownSchemas:
    """The schemas of values and of keys that were met, and which of them can become columns."""

    values: _PossibleSchemas
    keys: _PossibleSchemas

    @staticmethod
    def none_yet(
        spec: TableSpec,
        registry: SchemaRegistry,
        key_columns: Iterable[KeyColumn | None],
        excluded: ExcludedSchemas = NONE_EXCLUDED,
        routes: Routes = (),
    ) -> KnownSchemas:
        unknown = _AnyNumber(registry)
        values = _PossibleSchemas(spec, unknown, excluded, routes, of_key=False)
        return KnownSchemas(values, _PossibleSchemas(spec, unknown, excluded, routes, key_columns, of_key=True))

    def of_task(self) -> TaskSchemas:
        return TaskSchemas(self.values, self.keys)


@dataclass(slots=True)
class Redecoder:
    """Decodes records again, with every schema that the registry has: `schemas` grow as ids are met."""

    spec: TableSpec
    registry: SchemaRegistry
    decoder: RecordDecoder
    schemas: KnownSchemas

    @property
    def optional_fields(self) -> OptionalFields:
        return self.decoder.optional_fields

    def decode(self, topic: str, partition: int, records: Records) -> Iterator[DecodedRecords]:
        """Yield decoded parts as ingest would. Raises RegistryError."""
        while len(records):
            for part, decoded in self.decoder.decode(topic, partition, records):
                if decoded.stop is not None:
                    self.learn(decoded.stop.schema_id, of_key=decoded.stop.of_key)
                    break
                yield decoded
                records = records.after(len(part))

    def schema_id_of(self, record: Records) -> SchemaId | None:
        """Return the schema id in the header of one record's value; None if it has none."""
        groups = self.decoder.group_values(record.values, record.headers).groups
        return groups[0].schema_id if groups else None

    def learn(self, schema_id: SchemaId, *, of_key: bool) -> None:
        schema = self.registry.by_id(schema_id)
        assert schema is not None  # noqa: S101 - the decoder stops for ids that the registry has
        (self.schemas.keys if of_key else self.schemas.values).known[schema.id] = schema


@dataclass(slots=True)
class RowRedecoder(Redecoder):
    """Decodes records onto the columns of a table as they are now, each as a row if that is possible."""

    row_schema: pa.Schema
    placed: ByFieldId

    @property
    def compared(self) -> Sequence[str]:
        """The columns whose values are those of the record: not the interval in a history."""
        return [name for name in self.row_schema.names if not (self.spec.keeps_history and name in VALIDITY)]


@dataclass(slots=True)
class Judge(Redecoder):
    """Says what becomes of records, without making rows. `router` is that of a group.

    With shapes, it is what becomes of them in the table at `place`; all tables refuse records. Of a record that it
    refuses, the newest of the `earlier` judges that accepts it says it: each has read the records before an offset.
    Where refused records are skipped, `by_letters` has dead letters of them, and only the judge of their time says it:
    the table may have skipped what a later one accepts.
    """

    router: Router | None = None
    place: int | None = None
    earlier: Sequence[tuple[int, Judge]] = ()
    by_letters: Judge | None = None

    def decode(self, topic: str, partition: int, records: Records) -> Iterator[DecodedRecords]:
        for start, until, judge in self._read_by():
            before = records.filter(pc.and_(pc.greater_equal(records.offsets, start), pc.less(records.offsets, until)))
            refused = before.filter(pc.is_in(before.offsets, self._refused(topic, partition, before)))
            accepted = refused.filter(
                pc.invert(pc.is_in(refused.offsets, judge._unexplained(topic, partition, refused)))
            )
            yield from judge.decode(topic, partition, accepted)
            records = records.filter(pc.invert(pc.is_in(records.offsets, accepted.offsets)))
        yield from self._decode(topic, partition, records)

    def _read_by(self) -> Iterator[tuple[int, int, Judge]]:
        """Yield the first offset, the end and the judge of the records that an earlier judge may explain."""
        older = [until for until, _ in self.earlier[1:]]
        for (until, judge), start in zip(self.earlier, [*older, 0], strict=False):
            yield 0 if self.by_letters is None else start, until, judge

    def _decode(self, topic: str, partition: int, records: Records) -> Iterator[DecodedRecords]:
        for decoded in Redecoder.decode(self, topic, partition, records):
            yield decoded if self.place is None else decoded.of_table(self.place)

    def _refused(self, topic: str, partition: int, records: Records) -> pa.Array:
        """Return the offsets of the records that are dead letters, or would be if they were not skipped."""
        judge = self.by_letters or self
        letters = (decoded.dead_letters for decoded in judge._decode(topic, partition, records))
        offsets = [pa.array([], pa.int64()), *(each.column("offset").cast(pa.int64()) for each in letters if each)]
        return pa.concat_arrays(offsets)

    def _unexplained(self, topic: str, partition: int, records: Records) -> pa.Array:
        """Return the offsets of the records that it refuses: all if their fields cannot be placed onto the columns."""
        try:
            return self._refused(topic, partition, records)
        except IncompatibleSchemaError:
            return records.offsets

    def accepted_by_all(self, topic: str, partition: int, records: Records) -> pa.Array:
        """Return the offsets of the records with a value that neither this nor an earlier judge refuses.

        There are none where specs may have changed more often than a table keeps.
        """
        accepted = records.filter(records.values.is_valid())
        for until, judge in [(records.next_offset, self), *self.earlier]:
            read_by = accepted.filter(pc.less(accepted.offsets, until))
            refused = judge._unexplained(topic, partition, read_by)
            accepted = accepted.filter(pc.invert(pc.is_in(accepted.offsets, refused)))
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


def open_rows(spec: TableSpec, at: Standing, dead_letters: TableView, registry: SchemaRegistry) -> RowRedecoder:
    """Return a decoder that makes a row of each record that can be one.

    A schema may have been excluded after records with it became rows. A tombstone is a row unless it deletes one.
    """
    on_tombstone: OnTombstone = "row" if spec.write in ("append", "deduplicate") else spec.on_tombstone
    spec = replace(spec, on_bad_record="dead_letter", on_tombstone=on_tombstone, dead_letter_key=None)
    row_schema, placed, former_names = arrow_schema_of(at.view), _placed(spec, at), former_names_of(at.view.properties)
    known = KnownSchemas.none_yet(spec, registry, [KeyColumn.of(spec, row_schema, former_names, stored=True)])
    table = TableDecoder(
        spec,
        table=at.view.identifier,
        row_schema=row_schema,
        schemas=known.of_task(),
        former_names=former_names,
        place_values=placed,
    )
    return RowRedecoder(spec, registry, _decoder(spec, [table], at, dead_letters), known, row_schema, placed)


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
    decoder = _decoder(spec, decoders, at, dead_letters, router)
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


def routes_of(state: TableState) -> tuple[Route, ...]:
    """Return the routes that divided the last batch of a group; none for a table without a group."""
    return () if state.group is None else state.group.routes


def _decoder(
    spec: TableSpec, tables: Sequence[TableDecoder], at: Standing, dead_letters: TableView, router: Router | None = None
) -> RecordDecoder:
    context = TaskContext(
        spec=spec,
        batch_id="",
        file_prefix="",
        rows=write_target(at.view),
        dead_letters=write_target(dead_letters),
        former_names={},
        schemas=WriterSchemas({}, {}),
        kafka={},
        registry=None,
        storage={},
        source_ids={source.topic: (source.topic_id, source.generation) for source in at.state.sources},
    )
    schema = arrow_schema_of(dead_letters)
    return RecordDecoder(context, tables=tables, dead_letter_schema=schema, now=now_utc, router=router)


def _without_record(spec: TableSpec, view: TableView) -> pa.Schema:
    """Return the columns that a record is judged by without a row: the table may not hold the schema of a letter.

    In a table that follows keys, the identity and the order say which row it is about, and whether it is newer. Some
    decimals have no partition.
    """
    row_schema = arrow_schema_of(view)
    found = IdentityPaths.found(spec.identity_paths, row_schema, former_names_of(view.properties))
    deciding = {*(() if found is None else found.tops), *(spec.order if spec.orders_by_value else ())}
    deciding |= least_placed(spec.partition_by, row_schema).keys()
    without_key = {spec.metadata.prefix + "key"} if spec.key_type is not None else set()
    about = (_about_record(spec) - without_key) | deciding
    return pa.schema([each for each in row_schema if each.name in about])


def _placed_deciding(spec: TableSpec, at: Standing) -> ByNameIfThere:
    """Return the placement of the record's own columns by which it is judged."""
    about, known = _about_record(spec), former_names_of(at.view.properties)
    of_record = pa.schema([each for each in _without_record(spec, at.view) if each.name not in about])
    return ByNameIfThere(at.view.identifier, of_record, known)


def _about_record(spec: TableSpec) -> frozenset[str]:
    """Return the columns that are not the record's own."""
    kept = (spec.metadata.prefix + name for name in spec.metadata.keep)
    return frozenset((*kept, *(column.name for column in added_columns(spec))))


def _placed(spec: TableSpec, at: Standing) -> ByFieldId:
    """Return the placement of the record's own columns. Key columns are placed as ingest does."""
    about = _about_record(spec)

    def of_record(schema: pa.Schema) -> pa.Schema:
        return pa.schema([each for each in schema if each.name not in about])

    history = tuple(map(of_record, schemas_of(at.view)))
    return ByFieldId(history, of_record(arrow_schema_of(at.view)), former_names_of(at.view.properties))
