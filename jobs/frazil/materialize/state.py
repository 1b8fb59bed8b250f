"""The current state of a table: that of the nearest Frazil snapshot in the ancestry of `main`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from frazil.materialize.changed_spec.applied_spec import applied_spec_of
from frazil.model.errors import ForeignOwnerError, ForeignTableError, FormatVersionError, StateLostError
from frazil.model.progress import ForeignChanges, TableState
from frazil.model.snapshot import Snapshot, SourceChange, TableView
from frazil.model.spec import MetadataColumns
from frazil.model.summary import carries_state, state_in

CHECKPOINT_TAG = "frazil_checkpoint"
"""Keeps the snapshot that carries the state alive through any expiry. It is moved with every publish."""
WRITABLE_FORMAT = 2
"""The format version of Iceberg that tables are made with; PyIceberg writes no manifests of version 3."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A table's state, the snapshot that carries it, and what others committed on top of it.

    `rolled_back` is true where the tag is ahead of `main`: somebody rolled the table back, and its offsets with it.
    """

    view: TableView
    state: TableState
    carrier: Snapshot
    foreign: tuple[Snapshot, ...]
    rolled_back: bool

    @property
    def state_with_foreign(self) -> TableState:
        names = _source_names(self.view.properties, self.state)
        return self.state.with_foreign(foreign_changes(self.carrier, self.foreign, names))


def standing(view: TableView, *, pipeline: str) -> Standing:
    """Return the state at the head of `main`.

    Raises ForeignTableError where Frazil never wrote the table, ForeignOwnerError where another pipeline does, and
    StateLostError where the chain from the head to our last snapshot is broken.
    """
    on_top: list[Snapshot] = []
    for snapshot in view.ancestry(view.head):
        if carries_state(snapshot):
            return _checked(view, snapshot, tuple(reversed(on_top)), pipeline)
        on_top.append(snapshot)
    if not on_top or (on_top[-1].parent_id is None and CHECKPOINT_TAG not in view.tags):
        raise ForeignTableError(
            f"the table {view.identifier} exists and Frazil did not create it",
            hint="run `frazil materialize --adopt` to keep its rows beside Frazil's, or choose another `table`",
        )
    raise _chain_broken(view, on_top[-1])


def check_format(view: TableView) -> None:
    """Raises FormatVersionError where the table was upgraded. It can still be read."""
    if view.format_version > WRITABLE_FORMAT:
        raise FormatVersionError(
            f"the table {view.identifier} has Iceberg format version {view.format_version},"
            f" expected {WRITABLE_FORMAT}: another engine upgraded it",
            hint="Iceberg has no downgrade: see docs/operate.md, FormatVersionError",
        )


def _checked(view: TableView, carrier: Snapshot, foreign: tuple[Snapshot, ...], pipeline: str) -> Standing:
    state = state_in(carrier)
    if state.pipeline != pipeline:
        raise ForeignOwnerError(
            f"the table {view.identifier} is owned by the pipeline {state.pipeline}, not by {pipeline}",
            hint="give this spec another `table`, or restore the topics that the table was created from",
        )
    tagged = view.tags.get(CHECKPOINT_TAG)
    rolled_back = tagged is not None and all(s.id != tagged for s in view.ancestry(view.head))
    return Standing(view, state, carrier, foreign, rolled_back)


def _chain_broken(view: TableView, oldest: Snapshot) -> StateLostError:
    return StateLostError(
        f"the table {view.identifier} holds rows but its state is unreachable: the ancestry of `main` ends at"
        f" snapshot {oldest.id} ({oldest.operation}), {_end_of_chain(oldest)}, before any Frazil snapshot",
        hint="see docs/operate.md, StateLostError: find the newest Frazil snapshot and roll `main` back to it",
    )


def _end_of_chain(oldest: Snapshot) -> str:
    if oldest.parent_id is not None:
        return f"whose parent {oldest.parent_id} has expired"
    return (
        "which has no parent because another engine replaced the table (CREATE OR REPLACE TABLE) or expired snapshots"
    )


def _source_names(properties: Mapping[str, str], state: TableState) -> tuple[str, ...]:
    """Return the names of the columns that say which record a row came from."""
    applied = applied_spec_of(properties)
    prefix = MetadataColumns().prefix if applied is None else applied.prefix
    topic = ("topic",) if len(state.sources) > 1 else ()
    return tuple(prefix + name for name in (*topic, "partition", "offset"))


def foreign_changes(before: Snapshot, foreign: tuple[Snapshot, ...], names: Sequence[str]) -> ForeignChanges:
    """Return what others' snapshots after `before` did to rows. Compaction (`replace`) counts as no change.

    `names` are the columns of the rows' sources. Raises CatalogError where storage does not answer.
    """
    total = ForeignChanges()
    for (is_replace, _), group in groupby(foreign, key=lambda each: (each.operation == "replace", each.schema_id)):
        run = tuple(group)
        total = total + (_replaced(run) if is_replace else _changed(before, run, names))
        before = run[-1]
    return total


def _replaced(run: tuple[Snapshot, ...]) -> ForeignChanges:
    return ForeignChanges(snapshots=len(run), names=tuple(snapshot.name for snapshot in run))


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
    """Its own figures, not the difference to its parent: an overwrite that adds rows removes some as well."""
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
