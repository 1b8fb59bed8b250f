"""Compute all rows of a transformation again, and put them in the place of its table's in one commit."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from frazil.maintain.expiring import elapsed_seconds
from frazil.materialize.batch_age import is_old
from frazil.materialize.branches import ATTEMPTS, STAGE_PREFIX, branch_names, given_up
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.columns import Column
from frazil.model.errors import (
    CatalogError,
    CommitError,
    CommitRejectedError,
    CommitUnknownError,
    ContendedError,
    TransformHaltedError,
)
from frazil.model.join_history import JoinHistory
from frazil.model.snapshot import TableView
from frazil.model.transforms import Position, TransformSpec, TransformState, transform_state
from frazil.modes.mode import BatchChange
from frazil.ports import RebuildLake
from frazil.transforms.commit import OvertakenError, create, document_of, keep_from, loaded, publish
from frazil.transforms.joins import NEWEST, history_of, joined_before, with_joins_of
from frazil.transforms.queries import Parts, Query
from frazil.transforms.run import Transformation, Transformed
from frazil.transforms.send import outputs_by
from frazil.transforms.tables import TableRows
from frazil.transforms.unread import Unread, owned_by, unread
from frazil.transforms.widened import schemas_now

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Rebuilds the table of a transformation. `built` is the lake in which the new table is a branch of the old one.

    Rows meet joined tables at the snapshots that they met before, or with `newest_joins` all at the newest ones.
    """

    made: Transformation
    built: RebuildLake
    newest_joins: bool = False

    def perform(self) -> Transformed:
        """Replace rows, columns and layout by those of the present query. Readers see the old ones until then.

        A table that does not exist is created. If this is interrupted, nothing has changed, and it can be run again.
        Raises TransformHaltedError for a table of others, ContendedError if another process rebuilds the table,
        CommitRejectedError if it took so long that clean-up may have deleted files, and what a batch raises.
        """
        made, spec = self.made, self.made.spec
        begun, lake, definition = made.clock(), made.lake, made.definition()
        there = lake.load(spec.identifier)
        if there is None:
            done = made.batch()
            assert done is not None  # noqa: S101 - the first batch has a position to publish
            return done
        last, before = owned_by(there, spec), JoinHistory()
        source = made.followed()
        news = unread(source, spec, None)  # all rows, however they change
        parts: list[list[TableRows]] = []
        if spec.joins and not self.newest_joins:
            before = history_of(there, spec)
        if last.position is not None and (before.stretches or before.since):
            news = _continued(source, spec, last.position)
            parts = joined_before(lake, spec, source, made.joined(), before)
        keep_from(lake, source, spec, news.position)
        tables, joined = made.tables(source, news, before.last)
        met = made.met(with_joins_of(before, joined), source, news, tables, joined)
        parts.append(tables)
        query = made.queries().check(spec, tables)
        outputs_by(spec, query.rows)
        branch = self._begun(query.columns, TransformState(spec.name, definition))
        change = self._computed(query, parts, branch)
        number, schemas = last.epoch + 1, schemas_now(tables)
        state = TransformState(
            spec.name, made.definition(), news.position, joined, made.new_id(), number, query.rows, met, schemas
        )
        try:
            publish(self.built, branch, change, state, names=branch_names(STAGE_PREFIX, state.batch_id))
        except (OvertakenError, CatalogError, ContendedError) as failed:
            if isinstance(failed, OvertakenError) or self._is_dropped():
                raise _other_rebuild(spec.identifier) from failed
            raise
        snapshot_id = self._replaced(state)
        keep_from(lake, loaded(lake, spec.source), spec, news.position)
        made.keep_joined(met, history_of(there, spec))
        rows = sum(file.rows for file in change.files)
        LOG.info("transform_rebuilt", extra={"transform": spec.name, "table": spec.identifier, "rows": rows})
        read = sum(each[0].rows for each in parts)
        return Transformed(spec, read, rows, state, snapshot_id, made.clock() - begun)

    def _computed(self, query: Query, parts: Parts, branch: TableView) -> BatchChange:
        """Write the rows. Raises CommitRejectedError if clean-up may have deleted files of them meanwhile."""
        first = elapsed_seconds()
        change = self.made.change(query, parts, branch, ())
        if is_old(first):
            raise CommitRejectedError(
                f"{self.made.spec.identifier}: the rows took more than a day, and orphan clean-up may have deleted"
                " files of them; nothing was changed",
                hint="run the command again with more cores, such as with --spark-master",
            )
        return change

    def _begun(self, columns: Sequence[Column], state: TransformState) -> TableView:
        """Begin the rebuild, in the place of one that another process has left. Raises ContendedError."""
        identifier = self.made.spec.identifier
        self.built.discard(identifier)
        reason: Exception = OvertakenError()
        for _ in range(ATTEMPTS):
            try:
                return create(self.built, self.made.spec, columns, state)
            except CommitRejectedError as other:
                if not self._is_dropped():
                    raise _other_rebuild(identifier) from other
                reason = other
        raise given_up(identifier, "begin the rebuild", reason) from reason

    def _is_dropped(self) -> bool:
        """Return whether there is nothing built any more. Raises CatalogError if the table itself is gone."""
        loaded(self.made.lake, self.made.spec.identifier)
        return self.built.load(self.made.spec.identifier) is None

    def _replaced(self, state: TransformState) -> int:
        """Make what was built the table. A batch of a driver that is first is replaced as well."""
        identifier = self.made.spec.identifier
        reason: Exception = OvertakenError()
        for _ in range(ATTEMPTS):
            here, built = loaded(self.made.lake, identifier), self.built.load(identifier)
            if (found := _batch_in(here, state)) is not None:
                return found
            if built is None or _batch_in(built, state) is None:
                raise _other_rebuild(identifier)
            try:
                with suppress(CommitUnknownError):
                    self.built.replace(
                        here,
                        built,
                        tags=(CHECKPOINT_TAG,),
                        summary=state.summary(),
                        document=document_of(state),
                        put={},
                        remove=(),
                    )
            except CommitError as failed:
                reason = failed
        found = _batch_in(loaded(self.made.lake, identifier), state)
        if found is None:
            raise given_up(identifier, "replace the table with what was built", reason) from reason
        return found


def _continued(source: TableView, spec: TransformSpec, position: Position) -> Unread:
    """Return what was added after the position, which the table must have in its history.

    Raises TransformHaltedError if not: which rows met which snapshots of joined tables is then unknown.
    """
    try:
        return unread(source, spec, position)
    except TransformHaltedError as halted:
        raise TransformHaltedError(halted.what, hint=NEWEST.format(name=spec.name)) from halted


def _batch_in(view: TableView, state: TransformState) -> int | None:
    """Return the newest snapshot of the batch in a table's history; None if it has none."""
    for snapshot in view.ancestry(view.head):
        found = transform_state(snapshot)
        if found is not None and found.batch_id == state.batch_id:
            return snapshot.id
    return None


def _other_rebuild(identifier: str) -> ContendedError:
    return ContendedError(
        f"{identifier}: another process has begun a rebuild of the table; this one changed nothing",
        hint="wait until that one has ended, and run the command again if you still need it",
    )
