"""Decode Kafka's records again, exactly as ingest decodes them, onto the table's present schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from frazil.adapters.iceberg.scan import arrow_schema_of, schemas_of
from frazil.formats.open import record_names
from frazil.materialize.ingest.decode import DecodedRecords, RecordDecoder, now_utc
from frazil.materialize.ingest.decoders import SchemasById, TaskSchemas, UnknownIds
from frazil.materialize.ingest.distribute import write_target
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
from frazil.model.routes import Route
from frazil.model.schemas import NONE_EXCLUDED, ExcludedSchemas, RegisteredSchema, SchemaId
from frazil.model.snapshot import TableView
from frazil.model.spec import OnTombstone, TableSpec
from frazil.modes.followed import added_columns
from frazil.modes.validity import NAMES as VALIDITY
from frazil.ports import SchemaRegistry
from frazil.records import OptionalFields, Records
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
                    for schema_id in (decoded.stop.schema_id, *decoded.stop.ahead):
                        self.learn(schema_id, of_key=decoded.stop.of_key)
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


def open_rows(spec: TableSpec, at: Standing, dead_letters: TableView, registry: SchemaRegistry) -> RowRedecoder:
    """Return a decoder that makes a row of each record that can be one.

    A schema may have been excluded after records with it became rows, and partitions may have been others then. A
    tombstone is a row unless it deletes one.
    """
    on_tombstone: OnTombstone = "row" if spec.write in ("append", "deduplicate") else spec.on_tombstone
    as_rows: dict[str, Any] = {"on_bad_record": "dead_letter", "on_tombstone": on_tombstone, "partition_by": ()}
    spec = replace(spec, **as_rows, dead_letter_key=None)
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
    return RowRedecoder(spec, registry, record_decoder(spec, [table], at, dead_letters), known, row_schema, placed)


def routes_of(state: TableState) -> tuple[Route, ...]:
    """Return the routes that divided the last batch of a group; none for a table without a group."""
    return () if state.group is None else state.group.routes


def record_decoder(
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


def about_record(spec: TableSpec) -> frozenset[str]:
    """Return the columns that are not the record's own."""
    kept = (spec.metadata.prefix + name for name in spec.metadata.keep)
    return frozenset((*kept, *(column.name for column in added_columns(spec))))


def _placed(spec: TableSpec, at: Standing) -> ByFieldId:
    """Return the placement of the record's own columns. Key columns are placed as ingest does."""
    about = about_record(spec)

    def of_record(schema: pa.Schema) -> pa.Schema:
        return pa.schema([each for each in schema if each.name not in about])

    history = tuple(map(of_record, schemas_of(at.view)))
    return ByFieldId(history, of_record(arrow_schema_of(at.view)), former_names_of(at.view.properties))
