"""The step evolve: the table gets a place for everything that known writers write, before anything is planned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jobs.materialize.create import LatestSchemas, key_column_type, latest_schemas, record_columns
from jobs.materialize.evolve import compare, former_names_of, former_names_property, refusal
from jobs.materialize.layout import metadata_columns, name_clashes
from jobs.materialize.stage import ATTEMPTS, contended
from jobs.model.columns import Column
from jobs.model.plan import WriterSchemas
from jobs.model.progress import TableState
from jobs.model.schemas import RegisteredSchema
from jobs.model.snapshot import TableView
from jobs.model.spec import TableSpec
from jobs.ports import CommitRejectedError, CommitUnknownError, Lake, SchemaRegistry


@dataclass(slots=True)
class Absorbed:
    """The writer schemas that the table has been seen to have columns for, in this process, by id."""

    values: dict[int, RegisteredSchema]
    keys: dict[int, RegisteredSchema]

    def as_writer_schemas(self) -> WriterSchemas:
        return WriterSchemas(dict(self.values), dict(self.keys))


def absorb(
    lake: Lake,
    registry: SchemaRegistry,
    spec: TableSpec,
    view: TableView,
    *,
    state: TableState,
    met: WriterSchemas,
    absorbed: Absorbed,
) -> TableView:
    """Evolve the table for the subjects' latest schemas, those that its state names, and those that were met.

    Idempotent and additive. Raises IncompatibleSchemaError with every finding of the first schema that cannot be
    carried over, RegistryError, ContendedError.
    """
    latest = latest_schemas(registry, spec)
    for schema in _new(_values(registry, latest, state, met), absorbed.values):
        wanted = record_columns(spec, schema)
        view = _evolve(lake, spec, view, schema, wanted)
        absorbed.values[schema.id] = schema
    for schema in _new(_keys(registry, latest, state, met), absorbed.keys):
        wanted = (Column(spec.metadata.prefix + "key", key_column_type(spec, schema)),)
        view = _evolve(lake, spec, view, schema, wanted, of_key=True)
        absorbed.keys[schema.id] = schema
    return view


def _values(
    registry: SchemaRegistry, latest: LatestSchemas, state: TableState, met: WriterSchemas
) -> Iterable[RegisteredSchema | None]:
    yield from latest.values
    yield from met.values.values()
    yield from (registry.by_id(schema_id) for schema_id in state.schema_ids)


def _keys(
    registry: SchemaRegistry, latest: LatestSchemas, state: TableState, met: WriterSchemas
) -> Iterable[RegisteredSchema | None]:
    yield from latest.keys
    yield from met.keys.values()
    yield from (registry.by_id(schema_id) for schema_id in state.key_schema_ids)


def _new(
    schemas: Iterable[RegisteredSchema | None], absorbed: dict[int, RegisteredSchema]
) -> Iterable[RegisteredSchema]:
    """Those not seen yet. One that the registry has lost since is left out: its records will be dead letters."""
    return (schema for schema in schemas if schema is not None and schema.id not in absorbed)


def _evolve(
    lake: Lake,
    spec: TableSpec,
    view: TableView,
    schema: RegisteredSchema,
    wanted: tuple[Column, ...],
    *,
    of_key: bool = False,
) -> TableView:
    """Apply what one schema needs; on a conflict load again, compare again, and keep what is already true."""
    reason: Exception = CommitRejectedError("not tried")
    for _ in range(ATTEMPTS):
        known = former_names_of(view.properties)
        evolution = compare(wanted, view.columns, known)
        clashes = () if of_key else name_clashes(wanted, metadata_columns(spec, None))
        if evolution.findings or clashes:
            raise refusal(spec.identifier, schema.id, evolution.findings + clashes)
        learnt = former_names_property(evolution.former_names) if evolution.former_names != known else {}
        if not evolution.changes and not learnt:
            return view
        try:
            return lake.change_schema(view, evolution.changes, learnt)
        except (CommitRejectedError, CommitUnknownError) as failed:
            reason = failed
        view = lake.load(spec.identifier) or view
    raise contended(spec.identifier, "evolve the schema", reason) from reason
