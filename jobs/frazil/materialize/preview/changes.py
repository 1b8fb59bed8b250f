"""The changes that a spec and writer schemas make to an existing table, before they are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from frazil.materialize.changed_spec.spec_changes import once_followed, refused_changes, spec_changes
from frazil.materialize.evolve import evolution_for
from frazil.materialize.pause.pausing import without_excluded
from frazil.materialize.schema.compare import Evolution, applied, refusal
from frazil.materialize.sources import LatestSchemas
from frazil.model.columns import Column
from frazil.model.errors import FrazilError, IncompatibleSchemaError
from frazil.model.plan import WriterSchemas
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.spec_change import SpecChange


@dataclass(frozen=True, slots=True)
class PreviewedChanges:
    """`columns` are those that the table would have. `refusals` come in the order in which materialize meets them."""

    spec_changes: tuple[SpecChange, ...]
    evolution: Evolution
    columns: tuple[Column, ...]
    refusals: tuple[FrazilError, ...]


def preview_changes(spec: TableSpec, view: TableView, schemas: WriterSchemas) -> PreviewedChanges:
    """Return the changes that the spec and these writer schemas make to an existing table."""
    followed = once_followed(spec, view, spec_changes(spec, view))
    schemas = without_excluded(schemas, view.properties)
    known = LatestSchemas.of(schemas)
    try:
        evolution = evolution_for(spec, followed, known)
    except IncompatibleSchemaError as no_table:
        changes = spec_changes(spec, view)
        return PreviewedChanges(changes, Evolution(), followed.columns, (*refused_changes(spec, changes), no_table))
    columns = applied(followed.columns, evolution.changes)
    changes = spec_changes(spec, view, arriving=columns[len(followed.columns) :])
    refused = refused_changes(spec, changes)
    if evolution.findings and not refused:
        return PreviewedChanges(changes, evolution, columns, (_refusal(spec, followed, known, evolution),))
    return PreviewedChanges(changes, evolution, columns, refused)


def _refusal(spec: TableSpec, view: TableView, known: LatestSchemas, all_of: Evolution) -> IncompatibleSchemaError:
    """The refusal of the first schema that does not fit, by its id."""
    for schema_id, alone in _alone(known):
        findings = evolution_for(spec, view, alone).findings
        if findings:
            return refusal(spec.identifier, schema_id, findings, of_key=bool(alone.keys))
    return refusal(spec.identifier, None, all_of.findings)


def _alone(known: LatestSchemas) -> Iterator[tuple[int | None, LatestSchemas]]:
    yield None, LatestSchemas((), ())
    for value in known.values:
        yield value.id, LatestSchemas((value,), ())
    for key in known.keys:
        yield key.id, LatestSchemas((), (key,))
