"""Decode dead letters again, as a task decodes records, and write the rows to files that no snapshot has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from frazil.maintain.expiring import elapsed_seconds
from frazil.materialize.dead_letter_marks import Offsets, Source
from frazil.materialize.erasure_key import read_erasure_key
from frazil.materialize.evolve import fits
from frazil.materialize.hash_key import with_keys_read
from frazil.materialize.ingest.decode import DecodedRecords, NewRows, RecordDecoder, open_records
from frazil.materialize.ingest.decoders import LookupsSpentError, TaskSchemas, UnknownIds
from frazil.materialize.ingest.distribute import BatchTable, route_targets, write_target
from frazil.materialize.ingest.payloads import Stop
from frazil.materialize.ingest.stored_schema import arrow_schema
from frazil.materialize.ingest.write import DataFileWriter
from frazil.materialize.pause.pausing import excluded_schemas
from frazil.materialize.replay.letters import Letters
from frazil.materialize.replay.replayed_state import ReplayedRows
from frazil.materialize.replay.request import ReplayResult
from frazil.materialize.schema.former_names import former_names_of
from frazil.materialize.schema.routed import takes
from frazil.model.dead_letter import HIDDEN_DETAIL
from frazil.model.erasures import erased_hashes
from frazil.model.ingested import FollowedRecords, FollowedRows, IncompleteRecords, TaskContext, WrittenFile
from frazil.model.plan import WriterSchemas
from frazil.model.progress import TableState
from frazil.model.schemas import ExcludedSchemas, RegisteredSchema, SchemaId
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.modes.followed import FollowedColumns
from frazil.modes.wanted import as_numbers
from frazil.ports import Lake, SchemaRegistry
from frazil.records import Records

TRUNCATE = "truncate"
WHY_TRUNCATE = "it would take out all rows from before it, also values that later events took from them"

OPTIONAL = ("timestamp_type", "leader_epoch")
"""Metadata that dead letters have only if the table of rows kept it when they were read."""


SchemaUse = tuple[bool, SchemaId]
"""Whether a schema is that of keys, and its id."""


class NewSchemaError(Exception):
    """Dead letters have schemas that the table is first to be evolved for. Nothing was changed yet."""

    def __init__(self, schemas: Sequence[RegisteredSchema], *, of_key: bool) -> None:
        super().__init__([each.id for each in schemas])
        self.schemas = schemas
        self.of_key = of_key


@dataclass(slots=True)
class _NewRows:
    """The files of one table, and the offsets of their rows. `deletes` are those of a table that follows keys.

    `incomplete` are the change events among the rows that take values from the row before them.
    """

    files: list[WrittenFile] = field(default_factory=list)
    offsets: dict[Source, list[Offsets]] = field(default_factory=dict)
    followed: list[FollowedRows] = field(default_factory=list)
    deletes: dict[Source, list[FollowedRecords]] = field(default_factory=dict)
    incomplete: list[IncompleteRecords] = field(default_factory=list)

    def add(self, source: Source, new: NewRows) -> None:
        self.offsets.setdefault(source, []).append(np.asarray(new.offsets, np.int64))
        if new.deletes is not None:
            self.deletes.setdefault(source, []).append(new.deletes)

    def replayed(self) -> ReplayedRows:
        deleting = {s: np.concatenate([as_numbers(e.offset) for e in parts]) for s, parts in self.deletes.items()}
        return ReplayedRows(
            tuple(self.files),
            {source: np.concatenate(parts) for source, parts in self.offsets.items() if sum(map(len, parts))},
            followed=tuple(self.followed),
            deletes=tuple(each for parts in self.deletes.values() for each in parts),
            deleting=deleting,
            incomplete=tuple(self.incomplete),
        )


@dataclass(frozen=True, slots=True)
class _Opened:
    """The files and the decoder of all tables."""

    writers: tuple[DataFileWriter, ...]
    decoder: RecordDecoder


@dataclass(slots=True)
class Redecoder:
    """Makes rows of dead letters, in the columns that the table has, or the tables of a group. It changes no table.

    `state` is that of the table, or of the ledger. Letters with a schema that is in `refused` stay.
    """

    lake: Lake
    registry: SchemaRegistry
    tables: Sequence[BatchTable]
    state: TableState
    dead_letters: TableView
    schemas: WriterSchemas
    refused: Collection[SchemaUse]
    prefix: str
    began: float = field(default_factory=elapsed_seconds)
    stayed: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    truncated_nanos: int = 0
    undeclared_fields: int = 0
    _rows: tuple[_NewRows, ...] = field(init=False)
    _open: _Opened | None = None
    _unknown: UnknownIds = field(init=False)

    def __post_init__(self) -> None:
        self._rows = tuple(_NewRows() for _ in self.tables)
        self._unknown = _Bounded(self.registry)

    @property
    def spec(self) -> TableSpec:
        return self.tables[0].spec

    def replayed(self) -> tuple[ReplayedRows, ...]:
        """Return the rows of each table. What was noticed on the way is the first one's."""
        first, *others = (each.replayed() for each in self._rows)
        noticed = replace(first, truncated_nanos=self.truncated_nanos, undeclared_fields=self.undeclared_fields)
        return (noticed, *others)

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
        if self._open is not None:
            for rows, writer in zip(self._rows, self._open.writers, strict=True):
                rows.files += writer.close()
                rows.followed += writer.followed
        self._open = None

    def _decode(self, source: Source, records: Records) -> None:
        topic, _, partition = source
        while len(records):
            opened = self._opened()
            for part, decoded in opened.decoder.decode(topic, partition, records):
                self._count(source, decoded)
                with opened.decoder.defects_named(topic, partition, part):
                    for writer, new in zip(opened.writers, decoded.tables, strict=True):
                        writer.add(new.rows)
                records = records.after(decoded.read if decoded.stop is not None else len(part))
                if decoded.stop is not None:
                    self._learn(decoded.stop)
                    break

    def _count(self, source: Source, decoded: DecodedRecords) -> None:
        for rows, new in zip(self._rows, decoded.tables, strict=True):
            rows.add(source, new)
        self._rows[0].incomplete += decoded.incomplete
        self.stay({source: decoded.truncates}, TRUNCATE, WHY_TRUNCATE)
        self.truncated_nanos += decoded.truncated_nanos
        self.undeclared_fields += decoded.undeclared_fields
        for reason, count in decoded.skipped_by_reason.items():
            self.stayed[reason] += count
        if (letters := decoded.dead_letters) is not None:
            names = ["offset", "reason", "path", "detail"]
            for letter in letters.select(names).to_pylist():
                where = [f"at {letter['path']}"] if letter["path"] else []
                hidden, shown = ": ".join([*where, HIDDEN_DETAIL]), " ".join([letter["detail"], *where])
                self._stays(source, letter["offset"], letter["reason"], hidden if self.spec.masked else shown)

    def stay(self, letters: Mapping[Source, Offsets], reason: str, detail: str) -> None:
        """Count letters that were not given, and stay dead letters."""
        for source, offsets in letters.items():
            for offset in offsets.tolist():
                self._stays(source, offset, reason, detail)

    def _stays(self, source: Source, offset: int, reason: str, detail: str) -> None:
        self.stayed[reason] += 1
        self.examples.setdefault(reason, f"{source[0]}-{source[2]}@{offset}: {detail}")

    def _learn(self, stop: Stop) -> None:
        """Raise NewSchemaError for the schemas that the tables can hold. Refuse the others, for these letters."""
        self.close()
        fitting = []
        for schema_id in (stop.schema_id, *stop.ahead):
            schema = self.registry.by_id(schema_id)
            if schema is not None and self._fits(schema, of_key=stop.of_key):
                fitting.append(schema)
            else:
                self.refused = {*self.refused, (stop.of_key, schema_id)}
        if fitting:
            raise NewSchemaError(fitting, of_key=stop.of_key)

    def _fits(self, schema: RegisteredSchema, *, of_key: bool) -> bool:
        takers = (table for table in self.tables if of_key or takes(table.spec, schema))
        return all(fits(table.spec, table.rows, schema, of_key=of_key) for table in takers)

    def _opened(self) -> _Opened:
        if self._open is None:
            writers = tuple(self._new_writer(table) for table in self.tables)
            self._open = _Opened(writers, self._new_decoder(writers))
        return self._open

    def _new_writer(self, table: BatchTable) -> DataFileWriter:
        return DataFileWriter(
            write_target(table.rows),
            storage=self.lake.storage,
            prefix=self.prefix,
            target_bytes=self.spec.maintain.target_file_bytes,
            following=FollowedColumns.of(table.spec, self.state.partition_numbers) if table.spec.follows_keys else None,
        )

    def _new_decoder(self, writers: Sequence[DataFileWriter]) -> RecordDecoder:
        ledger = self.tables[0].rows
        spec = with_keys_read(replace(self.spec, on_bad_record="dead_letter"), ledger.properties)
        excluded = excluded_schemas(ledger.properties)
        values = excluded.values | {schema_id for of_key, schema_id in self.refused if not of_key}
        keys = excluded.keys | {schema_id for of_key, schema_id in self.refused if of_key}
        context = TaskContext(
            spec=spec,
            batch_id="",
            file_prefix=self.prefix,
            rows=write_target(ledger),
            dead_letters=write_target(self.dead_letters),
            former_names=former_names_of(ledger.properties),
            schemas=self.schemas,
            kafka={},
            registry=None,
            storage={},
            source_ids={source.topic: (source.topic_id, source.generation) for source in self.state.sources},
            routes=route_targets(self.tables),
            erasure_key=read_erasure_key(
                self.spec,
                [each for table in self.tables for each in erased_hashes(table.rows.properties)],
                former_names_of(ledger.properties),
            ),
        )
        return open_records(
            context,
            TaskSchemas.of(spec, self.schemas, self._unknown, ExcludedSchemas(values, keys)),
            rows=[writer.arrow_schema for writer in writers],
            dead_letters=arrow_schema(self.dead_letters.schema_json),
        )


class _Bounded(UnknownIds):
    """Ids that do not exist: after many look-ups, all others count as such."""

    def look_up(self, schema_id: SchemaId) -> RegisteredSchema | None:
        try:
            return super().look_up(schema_id)
        except LookupsSpentError:
            return None
