"""Which rows of a table a transformation has not read: decided from the table's metadata and a position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from frazil.model.epochs import epoch_of
from frazil.model.errors import TransformHaltedError
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.transforms import Identified, Position, TransformSpec, TransformState, transform_state


@dataclass(frozen=True, slots=True)
class Unread:
    """What a batch reads, and the position after it: the rows that snapshots added, or all of the table's head.

    `changed_by` are all snapshots that changed rows, those that only added some included.
    """

    position: Position
    added_by: tuple[int, ...] = ()
    is_everything: bool = False
    changed_by: tuple[int, ...] = ()


def head_position(view: TableView, spec: TransformSpec) -> Position:
    """Return the position of the newest epoch of `main`. Raises TransformHaltedError for a table without one."""
    for snapshot in view.ancestry(view.head):
        epoch = epoch_of(snapshot)
        if epoch is not None:
            return Position(view.identifier, view.uuid, epoch, snapshot.id)
    raise TransformHaltedError(
        f"the transformation {spec.name} follows {view.identifier}, which has no snapshot of Frazil",
        hint=f"name a table in `from` of {spec.source_file} that `frazil materialize` fills",
    )


def unread(view: TableView, spec: TransformSpec, position: Position | None, *, changes: bool = False) -> Unread:
    """Return what was added after the position; with none, all rows of the table.

    With `changes`, batches of the table may also have replaced and deleted rows.

    Raises TransformHaltedError if the table is another one or was rolled back, if its earlier rows changed, or if
    snapshots expired before they were read.
    """
    head = head_position(view, spec)
    if position is None:  # all rows of the head, also those of others who came after its last epoch
        return Unread(replace(head, snapshot_id=view.head or head.snapshot_id), is_everything=True)
    if (position.table, position.uuid) != (view.identifier, view.uuid):
        raise _halted(view, spec, position, "is another table now: it was dropped and made again")
    newer: list[Snapshot] = []
    for snapshot in view.ancestry(view.head):
        if snapshot.id == position.snapshot_id:
            changed = _changed(view, spec, position, newer[::-1], changes=changes)
            added = tuple(each.id for each in changed if _adds_only(spec, each) and each.figure("added-records"))
            upto = head if any(epoch_of(each) is not None for each in newer) else position
            return Unread(upto, added, changed_by=tuple(each.id for each in changed))
        newer.append(snapshot)
    if position.snapshot_id in view.snapshots:
        raise _halted(view, spec, position, "was rolled back or rebuilt: that snapshot is not in its history any more")
    raise _halted(view, spec, position, "has no such snapshot: it was rolled back or rebuilt, or snapshots expired")


def _changed(
    view: TableView, spec: TransformSpec, position: Position, newer: Sequence[Snapshot], *, changes: bool
) -> list[Snapshot]:
    """Return the snapshots that changed rows, oldest first. Files that were rewritten have no other rows."""
    for snapshot in newer:
        is_ours = epoch_of(snapshot) is not None and (changes or _adds_only(spec, snapshot))
        if not is_ours and snapshot.operation != "replace":
            raise _halted(view, spec, position, f"was changed by others since ({snapshot.name})")
    figures = ("added-records", "deleted-records", "added-position-deletes")
    return [each for each in newer if each.operation != "replace" and any(map(each.figure, figures))]


def _adds_only(spec: TransformSpec, snapshot: Snapshot) -> bool:
    """Return whether an epoch changed no earlier row. Deduplication takes rows out of the files of its own batch."""
    return snapshot.operation == "append" or (spec.source_deduplicates and snapshot.operation == "overwrite")


def _halted(view: TableView, spec: TransformSpec, position: Position, why: str) -> TransformHaltedError:
    return TransformHaltedError(
        f"{spec.identifier}: the transformation {spec.name} has read {view.identifier} up to {position}, and the table"
        f" {why}",
        hint=f"run `frazil transform rebuild {spec.name}`, which computes all rows again",
    )


def current_state(view: TableView, spec: TransformSpec, *, definition: str) -> TransformState:
    """Return what the newest snapshot of the transformation in the history of `main` records.

    Raises TransformHaltedError if the table is not the transformation's, if others changed its rows, or if the
    transformation has changed.
    """
    state = owned_by(view, spec)
    for snapshot in view.ancestry(view.head):
        if transform_state(snapshot) is not None:
            break
        if snapshot.operation != "replace":
            raise TransformHaltedError(
                f"{view.identifier}: others changed the table of the transformation {spec.name} ({snapshot.name})",
                hint=f"roll `main` back to the snapshot before, or run `frazil transform rebuild {spec.name}`",
            )
    if state.definition != definition:
        raise TransformHaltedError(
            f"{view.identifier}: the transformation {spec.name} has changed since the table was filled:"
            f" its definition was {state.definition}, and is {definition} in {spec.source_file}",
            hint=f"run `frazil transform rebuild {spec.name}`, which computes all rows again, or restore the old text."
            " A process that began before a rebuild has the old text: restart it",
        )
    return state


def check_kept(view: TableView, spec: TransformSpec, before: Identified, now: Identified) -> None:
    """Raise TransformHaltedError if the stored rows lack what the query keeps now, as when rows of `source` can change.

    Such a column would be null in all groups there are, and rows could not be taken out of them. A table whose rows no
    batch replaced has no names `before`.
    """
    there = {column.name for column in view.columns}
    differs = before.keys and (set(before.keys), set(before.internal)) != (set(now.keys), set(now.internal))
    if differs or not there.issuperset(now.internal):
        raise TransformHaltedError(
            f"{view.identifier}: rows of {spec.source} change in another way than when {spec.name} began: expected rows"
            f" named by {_listed(before.keys)}, with {_listed(before.internal)} kept beside them; found"
            f" {_listed(now.keys)} with {_listed(now.internal)}",
            hint=f"run `frazil transform rebuild {spec.name}`, which computes all rows again",
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "no column"


def newest_state(view: TableView) -> TransformState | None:
    """Return what the newest snapshot of a transformation records; None for any other table."""
    states = (transform_state(snapshot) for snapshot in view.ancestry(view.head))
    return next((each for each in states if each is not None), None)


def owned_by(view: TableView, spec: TransformSpec) -> TransformState:
    """Return what the transformation's newest snapshot records. Raises TransformHaltedError for a table of others."""
    state = newest_state(view)
    if state is not None and state.name == spec.name:
        return state
    by = "no transformation wrote it" if state is None else f"the transformation {state.name} writes it"
    raise TransformHaltedError(
        f"{spec.source_file}: the table {view.identifier} exists, and {by}",
        hint=f"write another `table` in {spec.source_file}",
    )
