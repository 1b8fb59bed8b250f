"""The columns that a writer schema becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from frazil.formats.mapped import VALUE, Mapped
from frazil.formats.open import map_schema, plain_mapped
from frazil.materialize.schema.compare import refusal
from frazil.model.columns import Column, Struct
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import RegisteredSchema, SchemaFinding
from frazil.model.spec import SCHEMA_TYPES, TableSpec


def record_columns(spec: TableSpec, schema: RegisteredSchema, *, of_key: bool = False) -> tuple[Column, ...]:
    """Return the columns that a writer schema maps to.

    Raises IncompatibleSchemaError with every finding of the schema's own.
    """
    found = map_record(spec, schema, of_key=of_key)
    if found.findings:
        raise refusal(spec.identifier, schema.id, found.findings, of_key=of_key)
    return found.columns


def map_record(spec: TableSpec, schema: RegisteredSchema, *, of_key: bool = False) -> Mapped:
    """Return the columns of a writer schema, with the schema's own findings.

    Raises IncompatibleSchemaError if there is nothing to judge: it is not a schema of the spec's format, or none of it
    could be mapped.
    """
    wanted = spec.key_type if of_key else spec.value_type
    settings = spec.key_settings if of_key else spec.value_settings
    if schema.format != wanted:
        raise refusal(spec.identifier, schema.id, (_of_another_format(spec, schema, of_key),), of_key=of_key)
    try:
        found = map_schema(schema, settings)
    except IncompatibleSchemaError as no_columns:
        raise refusal(spec.identifier, schema.id, (SchemaFinding("", no_columns.what),), of_key=of_key) from no_columns
    if found.findings and not found.columns:
        raise refusal(spec.identifier, schema.id, found.findings, of_key=of_key)
    return found


def _of_another_format(spec: TableSpec, schema: RegisteredSchema, of_key: bool) -> SchemaFinding:
    key, said = ("key", spec.key) if of_key else ("value", spec.value)
    word = next((word for word, kind in SCHEMA_TYPES.items() if kind == schema.format), None)
    advice = f": write `{key}: {word}` in {spec.source_file} if all records of the topic are so" if word else ""
    return SchemaFinding("", f"is {schema.format}, the spec says {said}{advice}")


def are_of_rows(spec: TableSpec, schema: RegisteredSchema) -> bool:
    """Return whether values of a schema are about rows: not heartbeats and other records of a connector."""
    return map_schema(schema, spec.value_settings).is_of_rows


def given_columns(spec: TableSpec) -> tuple[Column, ...]:
    """Return the columns of values without registered schemas; none for a spec whose values have them.

    Raises IncompatibleSchemaError if a policy cannot mask them.
    """
    found = map_given(spec)
    if found.findings:
        raise refusal(spec.identifier, None, found.findings)
    return found.columns


def map_given(spec: TableSpec) -> Mapped:
    """Return the columns of values without registered schemas, with the findings about policies.

    Raises IncompatibleSchemaError if none of them could be mapped.
    """
    found = plain_mapped(spec.value, spec.value_settings) or Mapped((), ())
    if found.findings and not found.columns:
        raise refusal(spec.identifier, None, found.findings)
    return found


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


def map_key(spec: TableSpec, schema: RegisteredSchema) -> Mapped:
    """Return the column of the key, as `map_record` does: a struct for a record, else of the type of the key.

    Keys of no rows have none. Paths of findings begin with the column.
    """
    found, name = map_record(spec, schema, of_key=True), spec.metadata.prefix + "key"
    if not found.is_of_rows:
        return found
    if not found.columns:
        without_data = SchemaFinding("", "a key without data: read it with `key: bytes`")
        raise refusal(spec.identifier, schema.id, (without_data,), of_key=True)
    if found.record is not None:
        inside = (replace(each, path=f"{name}.{each.path}" if each.path else name) for each in found.findings)
        return replace(found, columns=(Column(name, Struct(found.columns)),), findings=tuple(inside))
    at_key = (replace(each, path=name + each.path.removeprefix(VALUE)) for each in found.findings)
    column = replace(found.columns[0], name=name, aliases=(), doc=None)
    return replace(found, columns=(column,), findings=tuple(at_key))
