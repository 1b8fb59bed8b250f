"""The writer schemas of the records that a table of a group can take."""

from __future__ import annotations

from collections.abc import Iterable

from frazil.formats.open import record_names
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import TableSpec


def schema_of_route(spec: TableSpec) -> str | None:
    """Return the full name of the only writer schema that the table's route takes; None if it can be any."""
    return None if spec.group is None else spec.group.route_of(spec.table).schema


def takes(spec: TableSpec, schema: RegisteredSchema) -> bool:
    """Return whether the table can get records whose values have this writer schema."""
    return spec.group is None or spec.group.route_of(spec.table).takes(record_names(schema))


def route_without_schema(spec: TableSpec, schemas: Iterable[RegisteredSchema]) -> str | None:
    """Return a note if the table's route names a schema that is not among these: it may be misspelt.

    A subject of the topic can have an older version with the name, so nothing is said about such a subject.
    """
    wanted, of_topic = schema_of_route(spec), all(spec.value_subject.of(topic, "value") for topic in spec.topics)
    if wanted is None or of_topic or any(takes(spec, schema) for schema in schemas):
        return None
    return (
        f"the registry has no subject of the route's schema {wanted}: correct `schema` in {spec.source_file} if it is"
        " misspelt; otherwise the table gets its columns from the first such record"
    )
