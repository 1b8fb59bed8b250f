"""The columns that a writer schema becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from frazil.formats.mapped import Mapped
from frazil.formats.open import map_schema, plain_mapped
from frazil.materialize.schema.compare import refusal
from frazil.model.columns import Column, Struct
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import RegisteredSchema, SchemaFinding
from frazil.model.spec import TableSpec


def record_columns(spec: TableSpec, schema: RegisteredSchema, *, of_key: bool = False) -> tuple[Column, ...]:
    """Return the columns that a writer schema maps to. Raises IncompatibleSchemaError with every finding."""
    wanted = spec.key_type if of_key else spec.value_type
    settings = spec.key_settings if of_key else spec.value_settings
    if schema.format != wanted:
        other = SchemaFinding("", f"is {schema.format}, the spec says {spec.key if of_key else spec.value}")
        raise refusal(spec.identifier, schema.id, (other,), of_key=of_key)
    try:
        found = map_schema(schema, settings)
    except IncompatibleSchemaError as no_columns:
        raise refusal(spec.identifier, schema.id, (SchemaFinding("", no_columns.what),), of_key=of_key) from no_columns
    if found.findings:
        raise refusal(spec.identifier, schema.id, found.findings, of_key=of_key)
    return found.columns


def are_of_rows(spec: TableSpec, schema: RegisteredSchema) -> bool:
    """Return whether values of a schema are about rows: not heartbeats and other records of a connector."""
    return map_schema(schema, spec.value_settings).is_of_rows


def given_columns(spec: TableSpec) -> tuple[Column, ...]:
    """Return the columns of values without registered schemas; none for a spec whose values have them.

    Raises IncompatibleSchemaError if a policy cannot mask them.
    """
    found = plain_mapped(spec.value, spec.value_settings)
    if found is None:
        return ()
    if found.findings:
        raise refusal(spec.identifier, None, found.findings)
    return found.columns


def unmatched_policies(
    spec: TableSpec, values: Sequence[RegisteredSchema], keys: Sequence[RegisteredSchema]
) -> tuple[str, ...]:
    """Return the paths in `columns` of the spec that none of these schemas has, which may be misspelt."""
    plain_values, plain_keys = plain_mapped(spec.value, spec.value_settings), plain_mapped(spec.key, spec.key_settings)
    of_values = [map_schema(each, spec.value_settings) for each in values] + ([plain_values] if plain_values else [])
    of_keys = [map_schema(each, spec.key_settings) for each in keys] + ([plain_keys] if plain_keys else [])
    inside_key = tuple(f"{spec.metadata.prefix}key.{path}" for path in _unmatched_in_all(of_keys))
    return _unmatched_in_all(of_values) + inside_key


def _unmatched_in_all(found: Sequence[Mapped]) -> tuple[str, ...]:
    """Return what is unmatched in each; nothing if no schema is known."""
    return tuple(path for path in found[0].unmatched if all(path in each.unmatched for each in found)) if found else ()


def key_columns(spec: TableSpec, schema: RegisteredSchema) -> tuple[Column, ...]:
    """Return the column `key`: a struct for a record, else of the type of the key. Keys of no rows have none.

    Raises IncompatibleSchemaError if the schema of the key cannot be a column.
    """
    columns = record_columns(spec, schema, of_key=True)
    mapped = map_schema(schema, spec.key_settings)
    if not mapped.is_of_rows:
        return ()
    if not columns:
        without_data = SchemaFinding("", "a key without data: read it with `key: bytes`")
        raise refusal(spec.identifier, schema.id, (without_data,), of_key=True)
    if mapped.record is not None:
        return (Column("key", Struct(columns)),)
    return (replace(columns[0], name="key", aliases=(), doc=None),)
