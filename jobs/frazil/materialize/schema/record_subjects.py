"""The columns that records will bring to a new table, where each record's schema has a subject of its own.

Only `explain` asks: the table is made without them, and gets them from the schemas that a batch meets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from frazil.formats.open import map_schema
from frazil.materialize.create import initial_columns, notes_of
from frazil.materialize.schema.routed import route_without_schema, takes
from frazil.materialize.sources import LatestSchemas
from frazil.model.columns import Column
from frazil.model.errors import FrazilError
from frazil.model.schemas import RegisteredSchema, SchemaFinding
from frazil.model.spec import TableSpec
from frazil.ports import SchemaRegistry

LATER = "gets columns for {} when a batch reads the records; the table is created without them"
UNKNOWN = "its columns are known when a batch reads the first schema: each record names its own"


@dataclass(frozen=True, slots=True)
class PreviewedColumns:
    """All columns that the table is expected to have, and what is to be said about them."""

    columns: tuple[Column, ...]
    notes: tuple[SchemaFinding, ...]


def preview_columns(
    registry: SchemaRegistry, spec: TableSpec, known: LatestSchemas, columns: tuple[Column, ...]
) -> PreviewedColumns:
    """Add what the registry has under `TOPIC-RECORD` to the columns that a new table is made with.

    Nothing is added if the route of a table names its schema. The subjects of another naming do not tell their topic.
    What is registered may never be written, so nothing here is a refusal.
    """
    settings = spec.value_subject
    missing = route_without_schema(spec, known.values)
    if missing is not None:
        return PreviewedColumns(columns, (SchemaFinding("", missing),))
    if spec.value_type is None or settings.override is not None or settings.naming == "topic" or known.values:
        return PreviewedColumns(columns, ())
    try:
        found = dict(_of_records(registry, spec))
        schemas = LatestSchemas(tuple(found.values()), known.keys)
        expected = initial_columns(spec, schemas)[0] if found else columns
    except FrazilError as problem:
        return PreviewedColumns(columns, (SchemaFinding("", problem.what),))
    note = LATER.format(", ".join(found)) if found else UNKNOWN
    return PreviewedColumns(expected, (SchemaFinding("", note), *notes_of(spec, schemas)))


def _of_records(registry: SchemaRegistry, spec: TableSpec) -> Iterator[tuple[str, RegisteredSchema]]:
    """The newest schema of each subject that is named after a topic of the spec and the schema's own record."""
    if spec.value_subject.naming != "topic-record":
        return
    for topic in spec.topics:
        for subject in sorted(registry.subjects_under(f"{topic}-")):
            schema = registry.latest(subject)
            if schema is None or schema.format != spec.value_type:
                continue
            if takes(spec, schema) and subject == f"{topic}-{map_schema(schema, spec.value_settings).record}":
                yield subject, schema
