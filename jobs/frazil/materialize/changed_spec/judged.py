"""A spec beside its table: what the rules for its changed keys look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frazil.materialize.changed_spec.applied_spec import TEXTS, AppliedSpec, layout_text
from frazil.materialize.changed_spec.changed_fields import ChangedFields
from frazil.materialize.schema.former_names import former_names_of
from frazil.model.changes import RenameColumn
from frazil.model.columns import Column
from frazil.model.identity_columns import column_at
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.spec_change import Fate, SpecChange

NEXT_BATCH = "from the next batch on"


@dataclass(frozen=True, slots=True)
class Judged:
    """A spec and its table, with the columns that the table has once some are renamed, and replaced fields dropped."""

    spec: TableSpec
    view: TableView
    applied: AppliedSpec
    columns: tuple[Column, ...]
    arriving: tuple[Column, ...]
    fields: ChangedFields | None

    @property
    def renamed(self) -> Mapping[str, str]:
        """The new names of the metadata columns that are renamed."""
        return {each.path: each.new_name for each in prefix_renames(self.spec, self.view, self.applied)}

    def layout_change(self, key: str, there: Sequence[str], wanted: Sequence[str], how: str) -> SpecChange:
        return SpecChange(key, layout_text(there), layout_text(wanted), Fate.APPLIED, how)

    def change(self, key: str, fate: Fate, how: str) -> SpecChange:
        return SpecChange(key, self.applied.keys[key], TEXTS[key](self.spec), fate, how)

    def found(self, paths: Sequence[str]) -> list[str | None]:
        """Return the present paths of columns, also by their former names; None for one that the table lacks."""
        known = former_names_of(self.view.properties)
        return [None if (at := column_at(path, self.columns, known)) is None else at[0] for path in paths]

    def holds(self, name: str) -> Column | None:
        """The column of this name, letter case aside."""
        return next((column for column in self.columns if column.name.lower() == name.lower()), None)


def prefix_renames(spec: TableSpec, view: TableView, before: AppliedSpec) -> tuple[RenameColumn, ...]:
    """The metadata columns that get another prefix, whether they are still kept or not."""
    present = {column.name for column in view.columns}
    names = dict.fromkeys((*before.keep, *before.sometimes_kept))
    prefix = spec.metadata.prefix
    if prefix == before.prefix:
        return ()
    return tuple(RenameColumn(before.prefix + n, prefix + n) for n in names if before.prefix + n in present)
