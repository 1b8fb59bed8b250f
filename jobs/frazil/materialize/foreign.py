"""What other writers changed about a table's rows, counted from their snapshots and, where those cannot say, from
the files in storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from frazil.materialize.changed_spec.applied_spec import applied_spec_of
from frazil.materialize.state import Standing
from frazil.model.progress import ForeignChanges, TableState
from frazil.model.snapshot import Snapshot, SourceChange, TableView
from frazil.model.spec import MetadataColumns
from frazil.model.summary import is_rewrite


def count_foreign(at: Standing) -> ForeignChanges:
    """Return what others have changed since the table was made: up to the last batch, by its state, and since.

    Compaction (`replace`) counts as no change, and Frazil's own rewrite of files as no commit of others. May read
    manifests. Raises CatalogError where storage does not answer.
    """
    names = _source_names(at.view, at.state)
    total, before = at.state.foreign, at.carrier
    for (is_replace, _), group in groupby(at.foreign, key=lambda each: (each.operation == "replace", each.schema_id)):
        run = tuple(group)
        total = total + (_replaced(run) if is_replace else _changed(before, run, names))
        before = run[-1]
    return total


def changed_rows(now: ForeignChanges, before: ForeignChanges) -> bool:
    """Return whether others have changed rows, not only files, since `before`."""
    return _figures(now) != _figures(before)


def _figures(changes: ForeignChanges) -> tuple[int, ...]:
    return changes.rows_added, changes.rows_removed, changes.unsourced_added, changes.sourced_removed


def _source_names(view: TableView, state: TableState) -> tuple[str, ...]:
    """Return the names of the columns that say which record a row came from, in each row that has a source."""
    applied = applied_spec_of(view.properties, table=view.identifier)
    prefix = MetadataColumns().prefix if applied is None else applied.prefix
    topic = ("topic",) if len(state.sources) > 1 and state.topic_of_unnamed_rows is None else ()
    return tuple(prefix + name for name in (*topic, "partition", "offset"))


def _replaced(run: tuple[Snapshot, ...]) -> ForeignChanges:
    others = tuple(snapshot.name for snapshot in run if not is_rewrite(snapshot))
    return ForeignChanges(snapshots=len(others), names=others)


def _changed(before: Snapshot, run: tuple[Snapshot, ...], names: Sequence[str]) -> ForeignChanges:
    """Return what a run of snapshots of one schema changed. Rows are counted before and after it, however long it is.

    Where sources cannot be compared, every row that was added may lack one, and every row removed may be ours.
    """
    rows = _rows_changed(before, run)
    change = run[-1].sources_since(before.id, names) or SourceChange(rows.rows_added, rows.rows_removed)
    return replace(rows, unsourced_added=change.unsourced_added, sourced_removed=change.sourced_removed)


def _rows_changed(before: Snapshot, run: tuple[Snapshot, ...]) -> ForeignChanges:
    """The rows added, by the summaries, and removed: where rows were marked as deleted, what counting leaves."""
    said = sum((_by_summary(snapshot) for snapshot in run), ForeignChanges())
    if all(_is_exact(parent, snapshot) for parent, snapshot in pairwise((before, *run))):
        return said
    had, has = before.count_live(), run[-1].count_live()
    if had is None or has is None:
        return said
    added = max(said.rows_added, has - had)
    return replace(said, rows_added=added, rows_removed=had + added - has)


def _is_exact(parent: Snapshot, snapshot: Snapshot) -> bool:
    """Return whether its summary gives the rows removed: not with position deletes, which outlive their data files."""
    return snapshot.operation == "append" or (parent.has_no_deletes and snapshot.has_no_deletes)


def _by_summary(snapshot: Snapshot) -> ForeignChanges:
    """Return the snapshot's own figures, not the difference to its parent: an overwrite adds and removes rows."""
    marked = snapshot.figure("added-position-deletes") - snapshot.figure("removed-position-deletes")
    return ForeignChanges(
        snapshots=1,
        rows_added=snapshot.figure("added-records"),
        rows_removed=_rows_removed(snapshot.figure("deleted-records"), marked),
        names=(snapshot.name,),
    )


def _rows_removed(of_files: int, marked: int) -> int:
    """Rows in files that went, and rows that were marked as deleted.

    A file that went counts rows that had been marked before: with the file goes its mark, so `marked` is negative.
    Without a file, marks that go were of files that are long gone.
    """
    return max(of_files + marked, 0) if of_files else max(marked, 0)
