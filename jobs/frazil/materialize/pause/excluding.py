"""Excluding writer schemas from a table: their records become dead letters, until the schemas are included again."""

from __future__ import annotations

from collections.abc import Collection

from frazil.materialize.layout import reads_keys_by_schema
from frazil.materialize.pause.by_operator import loaded
from frazil.materialize.pause.pausing import (
    DEAD_LETTER_SCHEMAS_PROPERTY,
    dead_letter_schemas_of,
    dead_letter_schemas_property,
)
from frazil.materialize.preview.changes import preview_changes
from frazil.materialize.state import standing
from frazil.model.errors import IncompatibleSchemaError, Misuse
from frazil.model.plan import WriterSchemas
from frazil.model.schemas import RegisteredSchema
from frazil.model.snapshot import TableView
from frazil.model.spec import SCHEMA_TYPES, TableSpec
from frazil.ports import Lake, SchemaRegistry

_SEE = "name the schema that caused the pause: `frazil status` shows it"


def exclude(lake: Lake, registry: SchemaRegistry, spec: TableSpec, schema_ids: Collection[int]) -> None:
    """Store in the table that records with these writer schemas become dead letters from now on, also if not paused.

    Raises Misuse for a schema that the registry does not have, that has columns in the table, or that the table can
    hold: its records are rows, and dead letters cannot be replayed. Raises RegistryError if the registry fails.
    """
    view = loaded(lake, spec)
    known = dead_letter_schemas_of(view.properties)
    for schema_id in sorted({*schema_ids} - known):
        _check(registry, spec, view, schema_id)
    if not known.issuperset(schema_ids):
        lake.set_properties(spec.identifier, put=dead_letter_schemas_property({*known, *schema_ids}))


def include(lake: Lake, spec: TableSpec, schema_ids: Collection[int]) -> None:
    """Undo `exclude` for later records; those that are dead letters stay so. Raises Misuse for others."""
    known = dead_letter_schemas_of(loaded(lake, spec).properties)
    unknown = sorted({*schema_ids} - known)
    if unknown:
        excluded = ", ".join(map(str, sorted(known))) or "none"
        raise Misuse(
            f"the schema {unknown[0]} is not excluded from {spec.identifier}; excluded schemas: {excluded}",
            hint=f"run `frazil status {spec.identifier}` to see which schemas are excluded",
        )
    rest = known.difference(schema_ids)
    removed = () if rest else (DEAD_LETTER_SCHEMAS_PROPERTY,)
    lake.set_properties(spec.identifier, put=dead_letter_schemas_property(rest) if rest else {}, remove=removed)


def _check(registry: SchemaRegistry, spec: TableSpec, view: TableView, schema_id: int) -> None:
    state = standing(view, pipeline=spec.pipeline).state
    if schema_id in {*state.schema_ids, *state.key_schema_ids}:
        raise Misuse(
            f"the schema {schema_id} has columns in {spec.identifier}, so its records can become rows", hint=_SEE
        )
    schema = registry.by_id(schema_id)
    if schema is None:
        raise Misuse(f"the schema registry has no schema {schema_id}", hint=_SEE)
    if not _is_refused(spec, view, schema):
        raise Misuse(f"{spec.identifier} can hold the schema {schema_id}, so its records can become rows", hint=_SEE)


def _is_refused(spec: TableSpec, view: TableView, schema: RegisteredSchema) -> bool:
    """Return whether the table cannot hold the schema, as that of values or, if it reads keys so, as that of keys."""
    by_id = {schema.id: schema}
    roles: list[tuple[str, WriterSchemas]] = [(spec.value, WriterSchemas(by_id, {}))]
    if reads_keys_by_schema(spec):
        roles.append((spec.key, WriterSchemas({}, by_id)))
    return any(
        schema.format != SCHEMA_TYPES[word]
        or any(isinstance(each, IncompatibleSchemaError) for each in preview_changes(spec, view, schemas).refusals)
        for word, schemas in roles
    )
