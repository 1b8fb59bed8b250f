"""Whether the next batch would refuse the registered schemas again, for `resume`."""

from __future__ import annotations

from frazil.materialize.pause.pausing import under_ledger
from frazil.materialize.preview.changes import preview_changes, schemas_of_next_batch
from frazil.materialize.state import standing
from frazil.model.errors import FrazilError
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import Lake, SchemaRegistry


def next_refusal(lake: Lake, registry: SchemaRegistry, *tables: TableSpec) -> FrazilError | None:
    """Return why the next batch would stop before it reads a record, or None if no registered schema is in its way.

    `tables` is one table, or those of a group, the ledger first. Records with an older schema are not known before they
    are read. Raises what `load` and the registry raise.
    """
    views = [(spec, lake.load(spec.identifier)) for spec in tables]
    ledger = views[0][1]
    made = ((spec, under_ledger(view, ledger)) for spec, view in views if view is not None)
    refusals = (refusal_of(registry, spec, view) for spec, view in made)
    return next((refusal for refusal in refusals if refusal is not None), None)


def refusal_of(registry: SchemaRegistry, spec: TableSpec, view: TableView) -> FrazilError | None:
    """Return why the next batch on this view would stop before it reads a record. Raises what the registry raises."""
    state = standing(view, pipeline=spec.pipeline).state
    schemas = schemas_of_next_batch(registry, spec, view)
    return next(iter(preview_changes(spec, view, schemas, state).refusals), None)
