"""The joined tables of a transformation: which snapshots its batches met, and how these are kept and read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from frazil.materialize.branches import ATTEMPTS
from frazil.model.errors import CommitError, FormatVersionError, TransformHaltedError
from frazil.model.join_history import NO_SNAPSHOT, Boundary, JoinHistory, Stretch, history_in, tag_of, tags_of
from frazil.model.snapshot import TableView
from frazil.model.transforms import Position, TransformSpec, transform_state
from frazil.ports import Lake
from frazil.transforms.tables import TableRows, all_rows, rows_between

NEWEST = (
    "`frazil transform rebuild {name} --newest-joins` computes all rows with the newest snapshots of the joined tables"
)


def history_of(target: TableView, spec: TransformSpec) -> JoinHistory:
    """Return what the table of a transformation records about the joined tables of its batches.

    Raises TransformHaltedError if that is damaged.
    """
    for snapshot in target.ancestry(target.head):
        state = transform_state(snapshot)
        if state is None:
            continue
        if not state.joined or state.position is None:
            return JoinHistory()
        document = snapshot.read_document()
        if document is None:  # an earlier release wrote it
            return JoinHistory(since=state.position.boundary)
        with suppress(ValueError, KeyError, TypeError):
            return history_in(document)
        raise _lost(spec, f"the record of them in the snapshot {snapshot.id} of {target.identifier} cannot be read")
    return JoinHistory()


def heads(tables: Sequence[TableView], last: Mapping[str, int]) -> dict[str, int]:
    """Return the snapshots to read: the newest, or the last one that was read if the rows are the same since."""
    found = {}
    for view in tables:
        before = last.get(view.identifier)
        found[view.identifier] = before if before is not None and _has_rows_of(view, before) else _head(view)
    return found


def _head(view: TableView) -> int:
    return NO_SNAPSHOT if view.head is None else view.head


def _has_rows_of(view: TableView, snapshot_id: int) -> bool:
    for snapshot in view.ancestry(view.head):
        if snapshot.id == snapshot_id:
            return True
        is_empty = snapshot.operation == "append" and not snapshot.figure("added-records")
        if snapshot.operation != "replace" and not is_empty:
            return False
    return False


def with_joins_of(history: JoinHistory, joined: Mapping[str, int]) -> JoinHistory:
    """Return the history as the query reads it now: tables that a stretch did not join are at their newest snapshot."""
    stretches = (
        replace(each, joined={n: each.joined.get(n, newest) for n, newest in joined.items()})
        for each in history.stretches
    )
    return replace(history, stretches=tuple(stretches))


def read_at(lake: Lake, view: TableView, snapshot_id: int) -> TableRows:
    """Return the rows that a table had at a snapshot."""
    if snapshot_id == NO_SNAPSHOT:
        return TableRows(view, ())
    return all_rows(lake, replace(view, head=snapshot_id))


def joined_before(
    lake: Lake, spec: TransformSpec, source: TableView, joined: Mapping[str, TableView], history: JoinHistory
) -> list[list[TableRows]]:
    """Return the tables of each stretch of a history: the rows that it read, and the joined tables as it met them.

    `joined` has all tables of `joins`. Those that a stretch did not join yet are read at their newest snapshot.
    Raises TransformHaltedError if one of the snapshots is not there any more.
    """
    if history.since is not None:
        raise _lost(spec, f"those of the rows up to epoch {history.since.epoch} are not recorded any more")
    found, after = [], None
    for stretch in history.stretches:
        _check(spec, source, joined, after, stretch)
        rows = rows_between(lake, source, None if after is None else after.snapshot_id, stretch.upto.snapshot_id)
        heads_of = {name: stretch.joined.get(name, _head(view)) for name, view in joined.items()}
        found.append([rows, *(read_at(lake, joined[name], heads_of[name]) for name in spec.joins)])
        after = stretch.upto
    return found


def _check(
    spec: TransformSpec, source: TableView, joined: Mapping[str, TableView], after: Boundary | None, stretch: Stretch
) -> None:
    epochs = f"the epochs {0 if after is None else after.epoch + 1} to {stretch.upto.epoch} of {source.identifier}"
    wanted = [(name, stretch.joined[name], view) for name, view in joined.items() if name in stretch.joined]
    for name, snapshot_id, view in (*wanted, (source.identifier, stretch.upto.snapshot_id, source)):
        if snapshot_id != NO_SNAPSHOT and snapshot_id not in view.snapshots:
            raise _lost(spec, f"the snapshot {snapshot_id} of {name}, which {epochs} met, is not there any more")


def _lost(spec: TransformSpec, why: str) -> TransformHaltedError:
    return TransformHaltedError(
        f"{spec.identifier}: the rows of {spec.name} cannot be computed again with the joined tables as they met them:"
        f" {why}",
        hint=NEWEST.format(name=spec.name),
    )


def keep(lake: Lake, spec: TransformSpec, views: Sequence[TableView], *histories: JoinHistory) -> None:
    """Let tags keep the snapshots of these histories, and no others, in the tables that a transformation reads.

    Others may commit meanwhile; then it is tried again, and at last left to the next batch.
    """
    for view in views:
        wanted: set[int] = set()
        for history in histories:
            wanted |= history.snapshots_of(spec.source).get(view.identifier, frozenset())
        _keep(lake, spec, view, wanted)


def _keep(lake: Lake, spec: TransformSpec, view: TableView, wanted: set[int]) -> None:
    for _ in range(ATTEMPTS):
        there = tags_of(spec.identifier, view.tags)
        tags = {tag_of(spec.identifier, each): each for each in wanted if each in view.snapshots}
        put = {tag: each for tag, each in tags.items() if tag not in there}
        drop = [tag for tag in there if tag not in tags]
        if not put and not drop:
            return
        with suppress(CommitError, FormatVersionError):
            lake.move_tags(view, put=put, drop=drop)
            return
        fresh = lake.load(view.identifier)
        if fresh is None:
            return
        view = fresh


def extended(history: JoinHistory, position: Position, joined: Mapping[str, int], *, rows: int) -> JoinHistory:
    """Return the history after a batch, which met what the one before did if it had no rows."""
    if not rows and history.stretches:
        joined = history.stretches[-1].joined
    return history.with_batch(position.boundary, joined)
