"""Bring a table to what its spec says: the commits for differences that `spec_changes` found to be applicable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from frazil.materialize.branches import ATTEMPTS, given_up
from frazil.materialize.changed_spec.layout_rules import LAYOUT
from frazil.materialize.changed_spec.spec_changes import needed_properties, once_followed, refused_changes, spec_changes
from frazil.materialize.layout import partition_columns, sort_columns
from frazil.model.changes import DropColumn, RenameColumn
from frazil.model.errors import CommitError, CommitRejectedError
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.spec_change import SpecChange
from frazil.ports import Lake


@dataclass(frozen=True, slots=True)
class Followed:
    """The table as it is after its spec was applied, and the columns that this renamed or dropped."""

    view: TableView
    columns: tuple[RenameColumn | DropColumn, ...] = ()


def follow_spec(lake: Lake, spec: TableSpec, view: TableView) -> Followed:
    """Apply every difference but those of the layout, and record the spec. Nothing is applied where one is refused.

    Raises SpecChangeError with the first difference that is refused, ContendedError.
    """
    return _follow(lake, spec, view, lambda change: change.key not in LAYOUT)


def follow_layout(lake: Lake, spec: TableSpec, view: TableView) -> TableView:
    """Give the table the spec's partitioning and sort order, once it has all columns. Existing files keep theirs.

    Raises SpecChangeError where the table cannot be partitioned or sorted so, ContendedError.
    """
    return _follow(lake, spec, view, lambda change: change.key in LAYOUT).view


def _follow(lake: Lake, spec: TableSpec, view: TableView, is_meant: Callable[[SpecChange], bool]) -> Followed:
    """Commit what is needed; on a conflict load again and compare again."""
    reason: Exception = CommitRejectedError("not tried")
    for _ in range(ATTEMPTS):
        found = spec_changes(spec, view)
        changes = [change for change in found if is_meant(change)]
        for refused in refused_changes(spec, changes if _awaits_columns(spec, view, found) else found):
            raise refused
        columns = tuple(column for change in changes for column in change.columns)
        partition_by = next((change.partition_by for change in changes if change.partition_by is not None), None)
        sort_by = next((change.sort_by for change in changes if change.sort_by is not None), None)
        properties = needed_properties(spec, view, changes)
        if not columns and not properties and partition_by is None and sort_by is None:
            return Followed(view)
        try:
            after = lake.change_schema(view, columns, properties, partition_by=partition_by, sort_by=sort_by)
            return Followed(after, columns)
        except CommitError as failed:
            reason = failed
        view = lake.load(spec.identifier) or view
    raise given_up(spec.identifier, "apply the changed spec", reason) from reason


def _awaits_columns(spec: TableSpec, view: TableView, changes: Sequence[SpecChange]) -> bool:
    """Return whether the spec partitions or sorts by a column that the table lacks: the next schema may add it."""
    present = {column.name for column in once_followed(spec, view, changes).columns}
    return not partition_columns(spec) | sort_columns(spec) <= present
