"""The writer schemas of the records that a table of a group can take."""

from __future__ import annotations

from frazil.formats.open import record_name
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import TableSpec


def schema_of_route(spec: TableSpec) -> str | None:
    """Return the full name of the only writer schema that the table's route takes; None if it can be any."""
    return None if spec.group is None else spec.group.route_of(spec.table).schema


def takes(spec: TableSpec, schema: RegisteredSchema) -> bool:
    """Return whether the table can get records whose values have this writer schema."""
    wanted = schema_of_route(spec)
    return wanted is None or record_name(schema) == wanted
