"""Whether the next batch would refuse the registered schemas again, for `resume`."""

from __future__ import annotations

from frazil.materialize.evolve import known_schemas
from frazil.materialize.pause.pausing import dead_letter_schemas_of
from frazil.materialize.preview.changes import preview_changes
from frazil.materialize.state import standing
from frazil.model.errors import FrazilError
from frazil.model.spec import TableSpec
from frazil.ports import Lake, SchemaRegistry


def next_refusal(lake: Lake, registry: SchemaRegistry, spec: TableSpec) -> FrazilError | None:
    """Return why the next batch would stop before it reads a record, or None if no registered schema is in its way.

    Records with an older schema are not known before they are read. Raises what `load` and the registry raise.
    """
    view = lake.load(spec.identifier)
    if view is None:
        return None
    state = standing(view, pipeline=spec.pipeline).state
    schemas = known_schemas(registry, spec, state, refused=dead_letter_schemas_of(view.properties))
    return next(iter(preview_changes(spec, view, schemas).refusals), None)
