"""The changes that a spec and writer schemas make to an existing table, before they are made."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.materialize.changed_spec.applied_spec import naming_topics, ordered_as
from frazil.materialize.changed_spec.spec_changes import once_followed, refused_changes, spec_changes
from frazil.materialize.evolve import evolution_for, known_schemas
from frazil.materialize.pause.pausing import excluded_schemas
from frazil.materialize.schema.compare import Evolution, applied
from frazil.materialize.sources import LatestSchemas, latest_schemas
from frazil.materialize.state import standing
from frazil.model.columns import Column
from frazil.model.errors import FrazilError, IncompatibleSchemaError
from frazil.model.plan import WriterSchemas
from frazil.model.progress import TableState
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.spec_change import SpecChange
from frazil.ports import SchemaRegistry


@dataclass(frozen=True, slots=True)
class PreviewedChanges:
    """`columns` are those that the table would have. `refusals` come in the order in which materialize meets them.

    `excluded` are the refusals of schemas whose records become dead letters because the spec says so.
    """

    spec_changes: tuple[SpecChange, ...]
    evolution: Evolution
    columns: tuple[Column, ...]
    refusals: tuple[FrazilError, ...]
    excluded: tuple[IncompatibleSchemaError, ...] = ()


def schemas_of_next_batch(registry: SchemaRegistry, spec: TableSpec, view: TableView | None) -> WriterSchemas:
    """Return the writer schemas that the next batch makes or evolves the table for, without the excluded ones.

    They are the newest ones alone if there is no table, or none whose state can be read. Raises SubjectMissingError and
    RegistryError.
    """
    state = readable_state(spec, view)
    if state is None or view is None:
        return latest_schemas(registry, spec).by_id()
    return known_schemas(registry, spec, state, excluded=excluded_schemas(view.properties))


def readable_state(spec: TableSpec, view: TableView | None) -> TableState | None:
    """Return the state of the spec's table, or None if there is no table, or none whose state can be read."""
    try:
        return None if view is None else standing(view, pipeline=spec.pipeline).state
    except FrazilError:
        return None


def preview_changes(spec: TableSpec, view: TableView, schemas: WriterSchemas, state: TableState) -> PreviewedChanges:
    """Return the changes that the spec and these writer schemas make to an existing table."""
    spec = ordered_as(naming_topics(spec, state), view.properties)
    followed = once_followed(spec, view, spec_changes(spec, view))
    expected = evolution_for(spec, followed, LatestSchemas.of(schemas), state)
    columns = applied(followed.columns, expected.evolution.changes)
    changes = spec_changes(spec, view, arriving=columns[len(followed.columns) :])
    refused: tuple[FrazilError, ...] = refused_changes(spec, changes)
    return PreviewedChanges(
        changes, expected.evolution, columns, refused or expected.refusals[:1], excluded=expected.excluded
    )
