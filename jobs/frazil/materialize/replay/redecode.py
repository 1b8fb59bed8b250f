"""Decode dead letters again, as a task decodes records, and write the rows to files that no snapshot has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from frazil.materialize.dead_letter_marks import Offsets, Source
from frazil.materialize.evolve import fits
from frazil.materialize.hash_key import with_keys_read
from frazil.materialize.ingest.decode import DecodedRecords, RecordDecoder, now_utc
from frazil.materialize.ingest.decoders import LookupsSpentError, TaskSchemas, UnknownIds
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.payloads import Stop
from frazil.materialize.ingest.table_rows import TableDecoder
from frazil.materialize.ingest.write import DataFileWriter
from frazil.materialize.pause.pausing import excluded_schemas
from frazil.materialize.replay.letters import Letters
from frazil.materialize.replay.request import ReplayResult
from frazil.materialize.schema.former_names import former_names_of
from frazil.materialize.state import Standing
from frazil.model.ingested import TaskContext, WrittenFile
from frazil.model.plan import WriterSchemas
from frazil.model.schemas import ExcludedSchemas, RegisteredSchema, SchemaId
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import Lake, SchemaRegistry
from frazil.records import Records

OPTIONAL = ("timestamp_type", "leader_epoch")
"""Metadata that dead letters have only if the table of rows kept it when they were read."""


SchemaUse = tuple[bool, SchemaId]
"""Whether a schema is that of keys, and its id."""


class NewSchemaError(Exception):
    """A dead letter has a schema that the table is first to be evolved for. Nothing was changed yet."""

    def __init__(self, schema: RegisteredSchema, *, of_key: bool) -> None:
        super().__init__(schema.id)
        self.schema = schema
        self.of_key = of_key


@dataclass(slots=True)
class Redecoder:
    """Makes rows of dead letters, in the columns that the table of rows has. It changes no table.

    Letters with a schema that is in `refused` stay.
    """

    lake: Lake
    registry: SchemaRegistry
    spec: TableSpec
    here: Standing
    dead_letters: TableView
    schemas: WriterSchemas
    refused: Collection[SchemaUse]
    prefix: str
    files: list[WrittenFile] = field(default_factory=list)
    rows: dict[Source, list[Offsets]] = field(default_factory=dict)
    stayed: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    truncated_nanos: int = 0
    undeclared_fields: int = 0
    _decoder: RecordDecoder | None = None
    _writer: DataFileWriter | None = None
    _unknown: UnknownIds = field(init=False)

    def __post_init__(self) -> None:
        self._unknown = _Bounded(self.registry)

    @property
    def offsets(self) -> dict[Source, Offsets]:
        """The offsets of the rows."""
        return {source: np.concatenate(parts) for source, parts in self.rows.items() if sum(map(len, parts))}

    def result(self) -> ReplayResult:
        """Return what stayed a dead letter, and why."""
        return ReplayResult(stayed=dict(self.stayed), examples=dict(self.examples))

    def add(self, letters: Letters) -> None:
        """Decode the dead letters of one partition. Raises RegistryError, NewSchemaError."""
        for records, stays in letters.read(needs=tuple(n for n in OPTIONAL if n in self.spec.metadata.keep)):
            for offset, (reason, detail) in stays.items():
                self._stays(letters.source, offset, reason, detail)
            self._decode(letters.source, records)

    def close(self) -> None:
        """End the files."""
        if self._writer is not None:
            self.files += self._writer.close()
        self._writer = self._decoder = None

    def _decode(self, source: Source, records: Records) -> None:
        topic, _, partition = source
        while len(records):
            writer, decoder = self._opened()
            for part, decoded in decoder.decode(topic, partition, records):
                self._count(source, decoded)
                with decoder.defects_named(topic, partition, part):
                    writer.add(decoded.rows)
                records = records.after(decoded.read if decoded.stop is not None else len(part))
                if decoded.stop is not None:
                    self._learn(decoded.stop)
                    break

    def _count(self, source: Source, decoded: DecodedRecords) -> None:
        self.rows.setdefault(source, []).append(np.asarray(decoded.row_offsets, np.int64))
        self.truncated_nanos += decoded.truncated_nanos
        self.undeclared_fields += decoded.undeclared_fields
        for reason, count in decoded.skipped_by_reason.items():
            self.stayed[reason] += count
        if decoded.dead_letters is not None:
            names = ["offset", "reason", "path", "detail"]
            for letter in decoded.dead_letters.select(names).to_pylist():
                at = f" at {letter['path']}" if letter["path"] else ""
                detail = "" if self.spec.masked else letter["detail"]  # it is encrypted
                self._stays(source, letter["offset"], letter["reason"], f"{detail}{at}")

    def _stays(self, source: Source, offset: int, reason: str, detail: str) -> None:
        self.stayed[reason] += 1
        self.examples.setdefault(reason, f"{source[0]}-{source[2]}@{offset}: {detail}")

    def _learn(self, stop: Stop) -> None:
        """Raise NewSchemaError if the table can hold the schema. Refuse it otherwise, for these letters."""
        self.close()
        schema = self.registry.by_id(stop.schema_id)
        if schema is not None and fits(self.spec, self.here.view, schema, of_key=stop.of_key):
            raise NewSchemaError(schema, of_key=stop.of_key)
        self.refused = {*self.refused, (stop.of_key, stop.schema_id)}

    def _opened(self) -> tuple[DataFileWriter, RecordDecoder]:
        if self._writer is None or self._decoder is None:
            self._writer = DataFileWriter(
                write_target(self.here.view),
                storage=self.lake.storage,
                prefix=self.prefix,
                target_bytes=self.spec.maintain.target_file_bytes,
            )
            self._decoder = self._new_decoder(self._writer)
        return self._writer, self._decoder

    def _new_decoder(self, writer: DataFileWriter) -> RecordDecoder:
        spec = with_keys_read(replace(self.spec, on_bad_record="dead_letter"), self.here.view.properties)
        at, excluded = self.here, excluded_schemas(self.here.view.properties)
        values = excluded.values | {schema_id for of_key, schema_id in self.refused if not of_key}
        keys = excluded.keys | {schema_id for of_key, schema_id in self.refused if of_key}
        context = TaskContext(
            spec=spec,
            batch_id="",
            file_prefix=self.prefix,
            rows=write_target(at.view),
            dead_letters=write_target(self.dead_letters),
            former_names=former_names_of(at.view.properties),
            schemas=self.schemas,
            kafka={},
            registry=None,
            storage={},
            source_ids={source.topic: (source.topic_id, source.generation) for source in at.state.sources},
        )
        table = TableDecoder(
            spec,
            table=context.rows.identifier,
            row_schema=writer.arrow_schema,
            schemas=TaskSchemas.of(spec, self.schemas, self._unknown, ExcludedSchemas(values, keys)),
            former_names=context.former_names,
        )
        dead_letter_schema = schema_to_pyarrow(Schema.model_validate_json(self.dead_letters.schema_json))
        return RecordDecoder(context, tables=[table], dead_letter_schema=dead_letter_schema, now=now_utc)


class _Bounded(UnknownIds):
    """Ids that do not exist: after many look-ups, all others count as such."""

    def look_up(self, schema_id: SchemaId) -> RegisteredSchema | None:
        try:
            return super().look_up(schema_id)
        except LookupsSpentError:
            return None
