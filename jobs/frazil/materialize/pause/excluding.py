"""Excluding writer schemas from a table: their records become dead letters, until the schemas are included again."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from frazil.materialize.evolve import fits
from frazil.materialize.layout import reads_keys_by_schema
from frazil.materialize.pause.by_operator import loaded
from frazil.materialize.pause.pausing import (
    DEAD_LETTER_SCHEMAS_PROPERTY,
    excluded_schemas,
    excluded_schemas_property,
    pause_of,
    under_ledger,
)
from frazil.materialize.preview.next_refusal import refusal_of
from frazil.materialize.schema.routed import takes
from frazil.materialize.state import standing
from frazil.model.errors import IncompatibleSchemaError, Misuse
from frazil.model.schemas import NONE_EXCLUDED, ExcludedSchemas, RegisteredSchema, SchemaId, in_order
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import Lake, SchemaRegistry

_SEE = "name the schema that caused the pause: `frazil status` shows it"


def change_excluded(
    lake: Lake,
    registry: SchemaRegistry,
    spec: TableSpec,
    *,
    others: Sequence[TableSpec] = (),
    exclude: Collection[SchemaId] = (),
    include: Collection[SchemaId] = (),
) -> None:
    """Store in the table whose records become dead letters from now on; those that are dead letters stay so.

    For a group, `spec` is that of its ledger, which stores it, and `others` are those of the other tables.

    The table need not be paused: a schema that caused its pause, or that the next batch would refuse, can always be
    excluded. Raises Misuse, and changes nothing, if a schema to include is not excluded, if one is to be both, or if
    one to exclude is otherwise not known to the registry, has columns in each table that takes its records, or fits it:
    they are rows. Raises RegistryError if the registry fails.
    """
    _check_has_schemas(spec, exclude)
    view = loaded(lake, spec)
    known = excluded_schemas(view.properties)
    _check_included(spec, known, exclude, include)
    after = known.without(include)
    tables = [(spec, view), *((other, under_ledger(loaded(lake, other), view)) for other in others)]
    for schema_id in in_order(exclude):
        after |= _to_exclude(registry, tables, schema_id)
    if after == known:
        return
    put, remove = (excluded_schemas_property(after), ()) if after.ids else ({}, (DEAD_LETTER_SCHEMAS_PROPERTY,))
    lake.set_properties(spec.identifier, put=put, remove=remove)


def _check_has_schemas(spec: TableSpec, exclude: Collection[SchemaId]) -> None:
    if exclude and not spec.needs_registry:
        raise Misuse(
            f"{spec.identifier} reads no registered schema: value is {spec.value}, key is {spec.key}",
            hint="run `frazil resume` without --dead-letter-schema",
        )


def _check_included(
    spec: TableSpec, known: ExcludedSchemas, exclude: Collection[SchemaId], include: Collection[SchemaId]
) -> None:
    both = in_order({*exclude} & {*include})
    if both:
        raise Misuse(
            f"the schema {both[0]} is to be excluded from {spec.identifier} and included again; nothing was changed",
            hint="give each id to one of --dead-letter-schema and --no-dead-letter-schema",
        )
    unknown = in_order({*include} - known.ids)
    if unknown:
        excluded = ", ".join(map(str, in_order(known.ids))) or "none"
        raise Misuse(
            f"the schema {unknown[0]} is not excluded from {spec.identifier}; excluded schemas: {excluded}",
            hint=f"run `frazil status {spec.identifier}` to see which schemas are excluded",
        )


def _to_exclude(
    registry: SchemaRegistry, tables: Sequence[tuple[TableSpec, TableView]], schema_id: SchemaId
) -> ExcludedSchemas:
    """Return the role or roles in which this schema is to be excluded.

    What stops a table as the schema of keys may be in use as that of values, or the other way round.
    """
    for spec, view in tables:
        of_key = _role_that_stops(registry, spec, view, schema_id)
        if of_key is not None:
            return ExcludedSchemas.one(schema_id, of_key=of_key)
    if schema_id in excluded_schemas(tables[0][1].properties).ids:
        return NONE_EXCLUDED
    schema = registry.by_id(schema_id)
    if schema is None:
        raise Misuse(f"the schema registry has no schema {schema_id}", hint=_SEE)
    takers = [(spec, view) for spec, view in tables if takes(spec, schema)]
    if not takers:
        raise Misuse(f"no route of {tables[0][0].pipeline.name} takes records with the schema {schema_id}", hint=_SEE)
    rows = [_why_rows(spec, view, schema) for spec, view in takers]
    if rows[0] is not None and None not in rows:
        raise Misuse(f"{rows[0]}, so its records can become rows", hint=_SEE)
    return ExcludedSchemas(frozenset({schema_id}), frozenset({schema_id}))


def _why_rows(spec: TableSpec, view: TableView, schema: RegisteredSchema) -> str | None:
    """Return why records with this schema are rows of the table, or None if they cannot be."""
    state = standing(view, pipeline=spec.pipeline).state
    if schema.id in {*state.schema_ids, *state.key_schema_ids}:
        return f"the schema {schema.id} has columns in {spec.identifier}"
    return f"{spec.identifier} can hold the schema {schema.id}" if _fits(spec, view, schema) else None


def _role_that_stops(registry: SchemaRegistry, spec: TableSpec, view: TableView, schema_id: SchemaId) -> bool | None:
    """Return whether this schema stops the table as that of keys, or of values; None if it does not.

    It does if it caused the pause, or if the next batch would refuse it, as `check` and `explain` say.
    """
    paused = pause_of(view.properties)
    if paused is not None and paused.schema_id == schema_id and paused.of_key is not None:
        return paused.of_key
    refusal = refusal_of(registry, spec, view)
    if isinstance(refusal, IncompatibleSchemaError) and refusal.schema_id == schema_id:
        return refusal.of_key
    return None


def _fits(spec: TableSpec, view: TableView, schema: RegisteredSchema) -> bool:
    """Return whether the table can hold the schema as that of values or, if it reads keys by schema, as that of keys.

    An id does not tell which of the two it is.
    """
    roles = (False, True) if reads_keys_by_schema(spec) else (False,)
    return any(fits(spec, view, schema, of_key=of_key) for of_key in roles)
