"""The step evolve: the table gets a place for everything that known writers write, before anything is planned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from frazil.materialize.branches import ATTEMPTS, given_up
from frazil.materialize.changed_spec.applied_spec import ever_kept
from frazil.materialize.layout import name_clashes, reads_keys_by_schema
from frazil.materialize.pause.pausing import excluded_schemas
from frazil.materialize.schema.columns_of import record_columns
from frazil.materialize.schema.compare import Evolution, applied
from frazil.materialize.schema.fitted import still_fitting
from frazil.materialize.schema.former_names import FormerNames, former_names_of, former_names_property
from frazil.materialize.schema.notices import differences, left_out_property
from frazil.materialize.schema.requirements import RequiredColumns, needed, of_keys, of_spec, of_values, required_by
from frazil.materialize.schema.routed import takes
from frazil.materialize.schema.succession import Accepted
from frazil.materialize.sources import LatestSchemas, latest_schemas
from frazil.model.changes import Change
from frazil.model.columns import Column, walk
from frazil.model.errors import CommitError, CommitRejectedError, IncompatibleSchemaError
from frazil.model.masked import masked_property
from frazil.model.plan import WriterSchemas
from frazil.model.progress import TableState
from frazil.model.schemas import ExcludedSchemas, RegisteredSchema, SchemaFinding, SchemaId, in_order
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.unions import unions_property
from frazil.ports import Lake, SchemaRegistry

NO_SCHEMAS = WriterSchemas({}, {})


@dataclass(slots=True)
class Absorbed:
    """The writer schemas that the table has been seen to have columns for, in this process, by id.

    `table_schema` is the table's schema that they were compared with, as Iceberg's JSON: if another
    process changes it, the comparisons no longer hold.
    """

    values: dict[SchemaId, RegisteredSchema]
    keys: dict[SchemaId, RegisteredSchema]
    table_schema: str | None = None
    changes: list[Change] = field(default_factory=list)
    """What this process changed in the table's schema since `take_changes` was last called."""
    excluded_by_group: ExcludedSchemas | None = None
    """The schemas that the ledger of the table's group excludes; a table without a group excludes its own."""

    def excluded(self, view: TableView) -> ExcludedSchemas:
        return excluded_schemas(view.properties) if self.excluded_by_group is None else self.excluded_by_group

    def take_changes(self) -> tuple[str, ...]:
        """Return the changes since the last call, in words."""
        taken = tuple(str(change) for change in self.changes)
        self.changes.clear()
        return taken

    def forget_unless(self, table_schema: str) -> WriterSchemas:
        """Forget all if the table has another schema now. Returns what is to be compared again."""
        if table_schema == self.table_schema:
            return NO_SCHEMAS
        before = self.as_writer_schemas()
        self.values.clear()
        self.keys.clear()
        return before

    def follow(self, before: TableView, after: TableView, expected: tuple[Column, ...]) -> None:
        """Keep what is known through a change of our own, if the table has exactly the expected columns after it."""
        if self.table_schema == before.schema_json and _shape(after.columns) == _shape(expected):
            self.table_schema = after.schema_json

    def as_writer_schemas(self) -> WriterSchemas:
        return WriterSchemas(dict(self.values), dict(self.keys))


def _shape(columns: tuple[Column, ...]) -> list[tuple[str, str]]:
    return [(path, str(column.type)) for path, column in walk(columns)]


def evolve(
    lake: Lake,
    registry: SchemaRegistry,
    spec: TableSpec,
    view: TableView,
    *,
    state: TableState,
    met: WriterSchemas,
    absorbed: Absorbed,
    ahead: WriterSchemas = NO_SCHEMAS,
) -> TableView:
    """Evolve the table for the subjects' latest schemas, those that its state names, and those that were met.

    Those `ahead` are of records that the next batch may not reach: one that does not fit is left for a later batch.
    Idempotent and additive. Raises IncompatibleSchemaError with every finding of the first schema that cannot be
    carried over, RegistryError, ContendedError.
    """
    latest = latest_schemas(registry, spec)
    if absorbed.table_schema is None:
        _recall(registry, spec, view, state, absorbed)
    for _ in range(ATTEMPTS):
        again = absorbed.forget_unless(view.schema_json)
        met = WriterSchemas({**met.values, **again.values}, {**met.keys, **again.keys})
        absorbed.table_schema = view.schema_json
        view = _evolve_for_all(lake, registry, spec, view, latest=latest, state=state, met=met, absorbed=absorbed)
        view = _evolve_ahead(lake, registry, spec, view, state=state, ahead=ahead, absorbed=absorbed)
        if view.schema_json == absorbed.table_schema:
            return view
    raise given_up(spec.identifier, "evolve the schema", CommitRejectedError("its schema kept changing"))


def _evolve_for_all(
    lake: Lake,
    registry: SchemaRegistry,
    spec: TableSpec,
    view: TableView,
    *,
    latest: LatestSchemas,
    state: TableState,
    met: WriterSchemas,
    absorbed: Absorbed,
) -> TableView:
    """Pass once over the schemas that are not absorbed.

    All of them fit if no other process changed the schema between two commits of this pass: our own changes take
    nothing from a schema that fits already.
    """
    excluded = absorbed.excluded(view)
    values, keys = _accepted(registry, state, absorbed)
    for wanted in of_spec(spec, has_several_topics=_has_several_topics(state)):
        view = _evolve(lake, spec, view, wanted, absorbed)
    for schema in _new(_values(registry, spec, latest, state, met), absorbed.values, excluded.values):
        view = _evolve(lake, spec, view, of_values(spec, schema, values), absorbed)
        absorbed.values[schema.id] = schema
    for schema in _new(_keys(registry, spec, latest, state, met), absorbed.keys, excluded.keys):
        view = _evolve(lake, spec, view, of_keys(spec, schema, keys), absorbed)
        absorbed.keys[schema.id] = schema
    return view


def _evolve_ahead(
    lake: Lake,
    registry: SchemaRegistry,
    spec: TableSpec,
    view: TableView,
    *,
    state: TableState,
    ahead: WriterSchemas,
    absorbed: Absorbed,
) -> TableView:
    """Pass once over schemas that may wait. The batch that reaches their records reports those that do not fit."""
    excluded = absorbed.excluded(view)
    values, keys = _accepted(registry, state, absorbed)
    taken = (schema for schema in ahead.values.values() if takes(spec, schema))
    for schema in _new(taken, absorbed.values, excluded.values):
        with suppress(IncompatibleSchemaError):
            view = _evolve(lake, spec, view, of_values(spec, schema, values), absorbed)
            absorbed.values[schema.id] = schema
    for schema in _new(ahead.keys.values(), absorbed.keys, excluded.keys):
        with suppress(IncompatibleSchemaError):
            view = _evolve(lake, spec, view, of_keys(spec, schema, keys), absorbed)
            absorbed.keys[schema.id] = schema
    return view


def _accepted(registry: SchemaRegistry, state: TableState, absorbed: Absorbed) -> tuple[Accepted, Accepted]:
    """The schemas of values, and those of keys, that the table has columns for."""
    values = Accepted(state.schema_ids, absorbed.values, registry.by_id)
    return values, Accepted(state.key_schema_ids, absorbed.keys, registry.by_id)


def _recall(registry: SchemaRegistry, spec: TableSpec, view: TableView, state: TableState, absorbed: Absorbed) -> None:
    """Absorb, without comparison, the schemas that the table's own record proves to fit."""
    values = {schema_id: registry.by_id(schema_id) for schema_id in state.schema_ids}
    keys = {schema_id: registry.by_id(schema_id) for schema_id in state.key_schema_ids}
    there = WriterSchemas(
        {schema_id: schema for schema_id, schema in values.items() if schema is not None},
        {schema_id: schema for schema_id, schema in keys.items() if schema is not None},
    )
    proven = still_fitting(state.fitted, spec, view, there)
    absorbed.values.update(proven.values)
    absorbed.keys.update(proven.keys)
    absorbed.table_schema = view.schema_json


def known_schemas(
    registry: SchemaRegistry, spec: TableSpec, state: TableState, *, excluded: ExcludedSchemas
) -> WriterSchemas:
    """Return the schemas that a new process evolves the table for. Raises as `latest_schemas`, and RegistryError."""
    latest, met = latest_schemas(registry, spec), WriterSchemas({}, {})
    return WriterSchemas(
        {schema.id: schema for schema in _new(_values(registry, spec, latest, state, met), {}, excluded.values)},
        {schema.id: schema for schema in _new(_keys(registry, spec, latest, state, met), {}, excluded.keys)},
    )


@dataclass(frozen=True, slots=True)
class Expected:
    """What `evolve` would do: the changes, and the schemas that do not fit, in order.

    `excluded` are the refusals of those whose records become dead letters because the spec says so.
    """

    evolution: Evolution
    refusals: tuple[IncompatibleSchemaError, ...]
    excluded: tuple[IncompatibleSchemaError, ...]


def evolution_for(spec: TableSpec, view: TableView, schemas: LatestSchemas, state: TableState) -> Expected:
    """Return what `evolve` would do for these schemas. A refused one needs no change."""
    columns, total = view.columns, Evolution(former_names=former_names_of(view.properties))
    refusals: list[IncompatibleSchemaError] = []
    excluded: list[IncompatibleSchemaError] = []
    for of_one in _required_columns(spec, schemas, state):
        try:
            wanted = of_one()
        except IncompatibleSchemaError as no_columns:
            (excluded if is_excluded_for(spec, state, no_columns) else refusals).append(no_columns)
            continue
        evolution = needed(ever_kept(spec, view.properties), wanted, columns, total.former_names, view.partition_names)
        if evolution.findings:
            refused = wanted.refused(spec, evolution.findings, evolution.former_names)
            if is_excluded_for(spec, state, refused):
                excluded.append(refused)
                continue
            refusals.append(refused)
            total = replace(total, findings=total.findings + evolution.findings)
            continue
        columns, total = applied(columns, evolution.changes), total + evolution
    return Expected(total, tuple(refusals), tuple(excluded))


def is_excluded_for(spec: TableSpec, state: TableState, refused: IncompatibleSchemaError) -> bool:
    """Return whether records of the refused schema become dead letters because the spec says so.

    If the table had columns for the schema before, it is paused: another writer or a changed spec took them.
    """
    had_columns = state.key_schema_ids if refused.of_key else state.schema_ids
    asked = spec.on_incompatible_schema == "dead_letter" and not refused.always_pauses
    return asked and refused.schema_id is not None and refused.schema_id not in had_columns


def _has_several_topics(state: TableState) -> bool:
    """Return whether rows name their topics: one was read that is not the one of rows without a name."""
    named = (source for source in state.sources if source.topic != state.topic_of_unnamed_rows)
    return any(each.counts.read for source in named for each in source.partitions.values())


def _required_columns(
    spec: TableSpec, schemas: LatestSchemas, state: TableState
) -> Iterator[Callable[[], RequiredColumns]]:
    yield from (partial(_itself, each) for each in of_spec(spec, has_several_topics=_has_several_topics(state)))
    values = Accepted.of(schemas.values, state.schema_ids)
    keys = Accepted.of(schemas.keys, state.key_schema_ids)
    yield from (partial(of_values, spec, each, values) for each in schemas.values)
    yield from (partial(of_keys, spec, each, keys) for each in schemas.keys)


def fits(spec: TableSpec, view: TableView, schema: RegisteredSchema, *, of_key: bool) -> bool:
    """Return whether the table can hold records with this writer schema, as that of their values or of their keys."""
    try:
        wanted = required_by(spec, schema, of_key=of_key)
    except IncompatibleSchemaError:
        return False
    known = former_names_of(view.properties)
    return not needed(ever_kept(spec, view.properties), wanted, view.columns, known, view.partition_names).findings


def differences_of_newest(
    spec: TableSpec, columns: tuple[Column, ...], former_names: FormerNames, latest: LatestSchemas
) -> tuple[SchemaFinding, ...]:
    """Return how the newest schema differs from these columns; nothing if the table has several topics."""
    if len(latest.values) != 1:
        return ()
    about = {finding.path for finding in name_clashes(columns, spec)}
    of_record = tuple(column for column in columns if column.name not in about)
    return tuple(differences(record_columns(spec, latest.values[0]), of_record, former_names))


def _itself(wanted: RequiredColumns) -> RequiredColumns:
    return wanted


def _values(
    registry: SchemaRegistry, spec: TableSpec, latest: LatestSchemas, state: TableState, met: WriterSchemas
) -> Iterable[RegisteredSchema | None]:
    """The schemas of values that the table can get records of; none if the spec says that they have none."""
    if spec.value_type is not None:
        stored = (registry.by_id(schema_id) for schema_id in state.schema_ids)
        known = chain(latest.values, met.values.values(), stored)
        yield from (schema for schema in known if schema is not None and takes(spec, schema))


def _keys(
    registry: SchemaRegistry, spec: TableSpec, latest: LatestSchemas, state: TableState, met: WriterSchemas
) -> Iterable[RegisteredSchema | None]:
    """The schemas of keys; none since the spec says that keys are not read by schema."""
    if reads_keys_by_schema(spec):
        yield from latest.keys
        yield from met.keys.values()
        yield from (registry.by_id(schema_id) for schema_id in state.key_schema_ids)


def _new(
    schemas: Iterable[RegisteredSchema | None],
    absorbed: Collection[SchemaId],
    excluded: Collection[SchemaId],
) -> Iterable[RegisteredSchema]:
    """Return the schemas that were not seen yet, without those that the registry has lost since.

    They come in the order in which they were registered, so that two processes that learn of them at once make the same
    columns. The records of a lost schema become dead letters, and so do those of the schemas that an operator excluded.
    """
    known = {schema.id: schema for schema in schemas if schema is not None}
    return [known[each] for each in in_order(known) if each not in absorbed and each not in excluded]


def _new_marks(view: TableView, columns: tuple[Column, ...]) -> dict[str, str]:
    """The table's own record of its unions and masks, where the changed columns have another one or have moved one."""
    after = {**unions_property(columns), **masked_property(columns)}
    return {name: paths for name, paths in after.items() if view.properties.get(name) != paths}


def _evolve(lake: Lake, spec: TableSpec, view: TableView, wanted: RequiredColumns, absorbed: Absorbed) -> TableView:
    """Apply what one schema needs; on a conflict load again, compare again, and keep what is already true."""
    reason: Exception = CommitRejectedError("not tried")
    for _ in range(ATTEMPTS):
        known = former_names_of(view.properties)
        evolution = needed(ever_kept(spec, view.properties), wanted, view.columns, known, view.partition_names)
        if evolution.findings:
            raise wanted.refused(spec, evolution.findings, evolution.former_names)
        learnt = former_names_property(evolution.former_names) if evolution.former_names != known else {}
        columns = applied(view.columns, evolution.changes)
        learnt |= _new_marks(view, columns) | left_out_property(view.properties, wanted.notes, columns)
        if not evolution.changes and not learnt:
            return view
        try:
            after = lake.change_schema(view, evolution.changes, learnt)
            absorbed.follow(view, after, columns)
            absorbed.changes += evolution.changes
            return after
        except IncompatibleSchemaError as refused:
            found = SchemaFinding("", refused.what.removeprefix(f"{spec.identifier}: "))
            raise wanted.refused(spec, (found,), known) from refused
        except CommitError as failed:
            reason = failed
        view = lake.load(spec.identifier) or view
    raise given_up(spec.identifier, "evolve the schema", reason) from reason
