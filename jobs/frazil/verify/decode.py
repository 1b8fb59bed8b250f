"""Decode Kafka's records again, exactly as ingest decodes them, onto the table's present schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from frazil.adapters.iceberg.scan import schemas_of
from frazil.materialize.ingest.dead_rows import named_writers
from frazil.materialize.ingest.decode import DecodedRecords, RecordDecoder, now_utc
from frazil.materialize.ingest.decoders import SchemasById, TaskSchemas, UnknownIds
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.payloads import Stop
from frazil.materialize.ingest.placing import nowhere
from frazil.materialize.ingest.table_rows import TableDecoder
from frazil.materialize.pause.pausing import excluded_schemas
from frazil.materialize.schema.columns_of import record_columns
from frazil.materialize.schema.former_names import former_names_of
from frazil.materialize.state import Standing
from frazil.model.dead_letter import Reason
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.ingested import TaskContext
from frazil.model.plan import WriterSchemas
from frazil.model.schemas import NONE_EXCLUDED, ExcludedSchemas, RegisteredSchema, SchemaId
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import SchemaRegistry
from frazil.records import Headers, OptionalFields, Records
from frazil.verify.placement import ByFieldId


@dataclass(slots=True)
class _AnyNumber(UnknownIds):
    """Here nothing is being published: look up as many ids as it takes."""

    def look_up(self, schema_id: SchemaId) -> RegisteredSchema | None:
        return self.registry.by_id(schema_id)


class _PossibleSchemas(SchemasById):
    """Schemas that can become columns; the table was never able to hold any other, so its records are dead letters."""

    def __init__(self, spec: TableSpec, unknown: UnknownIds, excluded: ExcludedSchemas, *, of_key: bool) -> None:
        self.known: dict[SchemaId, RegisteredSchema] = {}
        word, ids = (spec.key, excluded.keys) if of_key else (spec.value, excluded.values)
        super().__init__(word, self.known, unknown, ids)
        self._spec, self._of_key = spec, of_key
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
            record_columns(self._spec, schema, of_key=self._of_key)
        except IncompatibleSchemaError:
            return False
        return True


@dataclass(slots=True)
class Redecoder:
    """Decodes records of a table again. `schemas` grow as ids are met."""

    spec: TableSpec
    registry: SchemaRegistry
    decoder: RecordDecoder
    row_schema: pa.Schema
    placed: ByFieldId
    values: dict[SchemaId, RegisteredSchema]
    keys: dict[SchemaId, RegisteredSchema]

    @property
    def optional_fields(self) -> OptionalFields:
        return self.decoder.optional_fields

    def decode(self, topic: str, partition: int, records: Records) -> Iterator[DecodedRecords]:
        """Yield decoded parts as ingest would, with every schema that the registry has. Raises RegistryError."""
        while len(records):
            for part, decoded in self.decoder.decode(topic, partition, records):
                if decoded.stop is not None:
                    self._learn(decoded.stop)
                    break
                yield decoded
                records = records.after(len(part))

    def named_writers(self, values: pa.LargeBinaryArray, headers: Headers) -> Mapping[str, pa.Array]:
        """Return the schemas that values name, as a dead letter has them."""
        return named_writers(self.spec, values, headers)

    def schema_id_of(self, record: Records) -> SchemaId | None:
        """Return the schema id in the header of one record's value; None if it has none."""
        groups = self.decoder.group_values(record.values, record.headers).groups
        return groups[0].schema_id if groups else None

    def _learn(self, stop: Stop) -> None:
        schema = self.registry.by_id(stop.schema_id)
        assert schema is not None  # noqa: S101 - the decoder stops for ids that the registry has
        (self.keys if stop.of_key else self.values)[schema.id] = schema


Purpose = Literal["rows", "letters", "leftovers"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


def open_redecoder(
    spec: TableSpec, at: Standing, dead_letters: TableView, registry: SchemaRegistry, *, purpose: Purpose
) -> Redecoder:
    """Return a decoder that accepts every possible row for `rows`, and decides as the spec says for `leftovers`.

    For `letters`, it refuses tombstones and makes no rows. A schema may have been excluded after records with it
    became rows.
    """
    schemas = [schema_to_pyarrow(Schema.model_validate_json(v.schema_json)) for v in (at.view, dead_letters)]
    excluded = excluded_schemas(at.view.properties) if purpose == "leftovers" else NONE_EXCLUDED
    values, keys = (_PossibleSchemas(spec, _AnyNumber(registry), excluded, of_key=each) for each in (False, True))
    placed = _placed(spec, at, schemas[0])
    row_schema = _without_record(spec, schemas[0]) if purpose == "letters" else schemas[0]
    context = _context(_judging(spec, purpose), at, dead_letters)
    table = TableDecoder(
        context.spec,
        table=context.rows.identifier,
        row_schema=row_schema,
        schemas=TaskSchemas(values, keys),
        former_names=context.former_names,
        place_values=nowhere if purpose == "letters" else placed,
    )
    decoder = RecordDecoder(context, tables=[table], dead_letter_schema=schemas[1], now=now_utc)
    return Redecoder(spec, registry, decoder, schemas[0], placed, values.known, keys.known)


def _without_record(spec: TableSpec, row_schema: pa.Schema) -> pa.Schema:
    """Return the columns that a record is judged by without a row: the table may not hold the schema of a letter."""
    about = {spec.metadata.prefix + name for name in spec.metadata.keep if name != "key" or spec.key_type is None}
    return pa.schema([each for each in row_schema if each.name in about])


def _placed(spec: TableSpec, at: Standing, row_schema: pa.Schema) -> ByFieldId:
    """Return the placement of the record's own columns. Key columns are placed as ingest does."""
    about = {spec.metadata.prefix + name for name in spec.metadata.keep}

    def of_record(schema: pa.Schema) -> pa.Schema:
        return pa.schema([each for each in schema if each.name not in about])

    history = tuple(map(of_record, schemas_of(at.view)))
    return ByFieldId(history, of_record(row_schema), former_names_of(at.view.properties))


def _judging(spec: TableSpec, purpose: Purpose) -> TableSpec:
    """Return the spec by which records are judged. What they hold is not encrypted: no letter is written."""
    spec = replace(spec, dead_letter_key=None)
    match purpose:
        case "rows":
            return replace(spec, on_bad_record="dead_letter", on_tombstone="row")
        case "letters":
            return replace(spec, on_bad_record="dead_letter", on_tombstone="dead_letter")
        case "leftovers":
            return replace(spec, on_bad_record="skip" if spec.on_bad_record == "skip" else "dead_letter")


def _context(spec: TableSpec, at: Standing, dead_letters: TableView) -> TaskContext:
    return TaskContext(
        spec=spec,
        batch_id="",
        file_prefix="",
        rows=write_target(at.view),
        dead_letters=write_target(dead_letters),
        former_names=former_names_of(at.view.properties),
        schemas=WriterSchemas({}, {}),
        kafka={},
        registry=None,
        storage={},
        source_ids={source.topic: (source.topic_id, source.generation) for source in at.state.sources},
    )
