"""Rows of a table as records of its output topic: the columns of key and value, their schemas and bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from frazil.model.columns import Column, Scalar
from frazil.model.errors import OutputSchemaError
from frazil.model.outputs import OutputSpec, SentTable
from frazil.outputs.avro_schema import schema_of, undocumented
from frazil.outputs.encode import AvroEncoder, as_bytes
from frazil.outputs.ports import OutputSchemas

AS_THEY_ARE = (Scalar("string"), Scalar("binary"))
"""Types of a key of one column whose bytes are the key, without a schema."""


@dataclass(frozen=True, slots=True)
class RecordShape:
    """The columns of the key and of the value. `raw_key`: the key is the bytes of its only column.

    With `null_keys`, rows with null in a column of the key have a key; else they are another writer's.
    """

    key: tuple[Column, ...]
    value: tuple[Column, ...]
    raw_key: bool
    null_keys: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(dict.fromkeys(column.name for column in (*self.key, *self.value)))


def shape_of(spec: SentTable, output: OutputSpec, columns: Sequence[Column]) -> RecordShape:
    """Return the columns of an output's records. Raises OutputSchemaError for columns that the table lacks."""
    known = {column.name: column for column in columns}
    named = output.columns or tuple(name for name in known if name not in spec.internal_columns)
    missing = [name for name in dict.fromkeys((*output.key, *named)) if name not in known]
    if missing:
        raise OutputSchemaError(
            f"{spec.identifier}: the output {output.name} needs the columns {', '.join(missing)}, which the table does"
            f" not have; it has {', '.join(known)}",
            hint=f"correct `outputs` in {spec.source_file}",
        )
    key = tuple(known[name] for name in output.key)
    raw = len(key) == 1 and key[0].type in AS_THEY_ARE and not spec.has_null_keys
    return RecordShape(key, tuple(known[name] for name in named), raw, spec.has_null_keys)


@dataclass(frozen=True, slots=True)
class RecordEncoder:
    """Encodes rows as records of an output topic."""

    shape: RecordShape
    value: AvroEncoder
    key: AvroEncoder | None

    @property
    def key_schema(self) -> int | None:
        """The id of the schema of keys; None if they have none."""
        return None if self.key is None else self.key.schema_id

    def encoded(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.Array | None, pa.Array]]:
        """Yield the keys and the values of rows."""
        for rows in batches:
            yield self.keys(rows), self.value.payloads(rows)

    def keys(self, rows: pa.RecordBatch) -> pa.Array | None:
        """Return the keys of rows, which have the columns of the key at least; None if records have no keys."""
        if self.key is not None:
            return self.key.payloads(rows)
        return as_bytes(rows.column(self.shape.key[0].name)) if self.shape.key else None


@dataclass(frozen=True, slots=True)
class SubjectSchema:
    """The Avro schema of a key or a value, the subject that it is registered under, and the columns that it is of."""

    subject: str
    text: str
    columns: tuple[Column, ...]


def value_schema(spec: SentTable, output: OutputSpec, shape: RecordShape) -> SubjectSchema:
    """Return the schema of values. Raises OutputSchemaError for names that Avro does not have."""
    return _schema(spec, f"{output.topic}-value", spec.table, shape.value)


def key_schema(spec: SentTable, output: OutputSpec, shape: RecordShape) -> SubjectSchema | None:
    """Return the schema of keys, or None if they have none.

    It has no docs: another one would change the schema's id, and so the bytes of equal keys.
    """
    if not shape.key or shape.raw_key:
        return None
    return _schema(spec, f"{output.topic}-key", f"{spec.table}_key", undocumented(shape.key))


def _schema(spec: SentTable, subject: str, name: str, columns: tuple[Column, ...]) -> SubjectSchema:
    text = schema_of(columns, name=name, namespace=spec.database, table=spec.identifier)
    return SubjectSchema(subject, text, columns)


def registered_encoder(
    schemas: OutputSchemas, spec: SentTable, output: OutputSpec, shape: RecordShape
) -> RecordEncoder:
    """Register the schemas of key and value. Raises OutputSchemaError if a subject's compatibility forbids one."""
    value, key = value_schema(spec, output, shape), key_schema(spec, output, shape)
    return RecordEncoder(shape, _registered(schemas, value), None if key is None else _registered(schemas, key))


def _registered(schemas: OutputSchemas, schema: SubjectSchema) -> AvroEncoder:
    return AvroEncoder(schema.text, schemas.register(schema.subject, schema.text), schema.columns)
