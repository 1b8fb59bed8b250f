"""The columns that a writer schema becomes."""

from __future__ import annotations

from frazil.formats.open import map_schema, plain_columns
from frazil.materialize.schema.compare import refusal
from frazil.model.columns import Column, ColumnType, Struct
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


def given_columns(spec: TableSpec) -> tuple[Column, ...]:
    """Return the columns of values without registered schemas; none for a spec whose values have them."""
    return plain_columns(spec.value, spec.value_settings)


def key_column_type(spec: TableSpec, schema: RegisteredSchema) -> ColumnType:
    """Return the type of the key column: a struct for a record, else the type of the key.

    Raises IncompatibleSchemaError if the schema of the key cannot be a column.
    """
    columns = record_columns(spec, schema, of_key=True)
    if not columns:
        without_data = SchemaFinding("", "a key without data: read it with `key: bytes`")
        raise refusal(spec.identifier, schema.id, (without_data,), of_key=True)
    return Struct(columns) if map_schema(schema, spec.key_settings).record is not None else columns[0].type
