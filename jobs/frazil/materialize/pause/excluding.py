"""Excluding writer schemas from a table: their records become dead letters, until the schemas are included again."""

from __future__ import annotations

from collections.abc import Collection

from frazil.materialize.evolve import fits
from frazil.materialize.layout import reads_keys_by_schema
from frazil.materialize.pause.by_operator import loaded
from frazil.materialize.pause.pausing import (
    DEAD_LETTER_SCHEMAS_PROPERTY,
    dead_letter_schemas_of,
    dead_letter_schemas_property,
    pause_of,
)
from frazil.materialize.state import standing
from frazil.model.errors import Misuse
from frazil.model.schemas import RegisteredSchema
from frazil.model.snapshot import TableView
from frazil.model.spec import SCHEMA_TYPES, TableSpec
from frazil.ports import Lake, SchemaRegistry

_SEE = "name the schema that caused the pause: `frazil status` shows it"


def change_excluded(
    lake: Lake,
    registry: SchemaRegistry,
    spec: TableSpec,
    *,
    exclude: Collection[int] = (),
    include: Collection[int] = (),
) -> None:
    """Store in the table whose records become dead letters from now on; those that are dead letters stay so.

    The table need not be paused. Raises Misuse, and changes nothing, if a schema to include is not excluded, or if one
    to exclude is not known to the registry, has columns in the table, or fits the table and did not cause its pause:
    its records are rows, and dead letters cannot be replayed. Raises RegistryError if the registry fails.
    """
    view = loaded(lake, spec)
    known = dead_letter_schemas_of(view.properties)
    _check_excluded(spec, known, include)
    for schema_id in sorted({*exclude} - known):
        _check(registry, spec, view, schema_id)
    after = known.difference(include).union(exclude)
    if after != known:
        put, remove = (dead_letter_schemas_property(after), ()) if after else ({}, (DEAD_LETTER_SCHEMAS_PROPERTY,))
        lake.set_properties(spec.identifier, put=put, remove=remove)


def _check_excluded(spec: TableSpec, known: frozenset[int], schema_ids: Collection[int]) -> None:
    unknown = sorted({*schema_ids} - known)
    if unknown:
        excluded = ", ".join(map(str, sorted(known))) or "none"
        raise Misuse(
            f"the schema {unknown[0]} is not excluded from {spec.identifier}; excluded schemas: {excluded}",
            hint=f"run `frazil status {spec.identifier}` to see which schemas are excluded",
        )


def _check(registry: SchemaRegistry, spec: TableSpec, view: TableView, schema_id: int) -> None:
    state = standing(view, pipeline=spec.pipeline).state
    if schema_id in {*state.schema_ids, *state.key_schema_ids}:
        raise Misuse(
            f"the schema {schema_id} has columns in {spec.identifier}, so its records can become rows", hint=_SEE
        )
    paused = pause_of(view.properties)
    if paused is not None and paused.schema_id == schema_id:
        return
    schema = registry.by_id(schema_id)
    if schema is None:
        raise Misuse(f"the schema registry has no schema {schema_id}", hint=_SEE)
    if _fits(spec, view, schema):
        raise Misuse(f"{spec.identifier} can hold the schema {schema_id}, so its records can become rows", hint=_SEE)


def _fits(spec: TableSpec, view: TableView, schema: RegisteredSchema) -> bool:
    """Return whether the table can hold the schema as that of values or, if it reads keys by schema, as that of keys.

    An id does not tell which of the two it is.
    """
    roles = [(spec.value, False), *([(spec.key, True)] if reads_keys_by_schema(spec) else [])]
    return any(
        schema.format == SCHEMA_TYPES[word] and fits(spec, view, schema, of_key=of_key) for word, of_key in roles
    )
