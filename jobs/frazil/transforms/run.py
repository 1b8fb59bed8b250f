"""One transformation in one process: its batches, each exactly once (docs/decisions/0051)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from frazil.adapters.iceberg.probe import stored_files
from frazil.maintain.expiring import elapsed_seconds
from frazil.materialize.branches import ATTEMPTS, STAGE_PREFIX, branch_names
from frazil.model.errors import (
    CommitRejectedError,
    ContendedError,
    FrazilError,
    Misuse,
    ServiceError,
)
from frazil.model.join_history import JoinHistory
from frazil.model.probe import StoredFile
from frazil.model.snapshot import TableView
from frazil.model.transforms import Identified, TransformSpec, TransformState
from frazil.modes.mode import BatchChange
from frazil.ports import Lake
from frazil.transforms.commit import OvertakenError, appended, ensure, keep_from, loaded, publish, unmoved
from frazil.transforms.fit import changes_for
from frazil.transforms.function import code_to_run
from frazil.transforms.joins import extended, heads, history_of, keep, read_at
from frazil.transforms.queries import Parts, Queries, Query
from frazil.transforms.ranges import key_ranges, unchanged_columns
from frazil.transforms.replaced import replaced_groups
from frazil.transforms.send import TransformSending, outputs_by
from frazil.transforms.sources import kind_of
from frazil.transforms.tables import Changes, TableRows, changes_between, unread_rows
from frazil.transforms.unread import Unread, check_kept, current_state, owned_by, unread
from frazil.transforms.upkeep import Upkeep
from frazil.transforms.widened import check_values_kept, schemas_before, schemas_now

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Transformed:
    """What a batch did: rows that it read of the followed table, rows that it wrote, and the new snapshot."""

    spec: TransformSpec
    read: int
    written: int
    state: TransformState
    snapshot_id: int
    seconds: float


@dataclass(slots=True)
class Transformation:
    """Keeps the table of one transformation up to date. `queries` starts Spark when there are rows to read."""

    spec: TransformSpec
    lake: Lake
    queries: Callable[[], Queries]
    new_id: Callable[[], str]
    clock: Callable[[], float] = time.monotonic
    upkeep: Upkeep | None = None
    """Of a process that keeps the table: with it, the lake is that of the batch at work."""
    sending: TransformSending | None = None

    def batch(self, *, waits_for_table: bool = False) -> Transformed | None:
        """Read what was added to the followed table, and publish the rows of the query over it; None if nothing was.

        With `waits_for_table`, it also does nothing if there is no followed table.

        Raises TransformHaltedError if the table cannot be continued, SpecError if the query cannot be carried out,
        ContendedError if other commits were first each time, and ServiceErrors, after which it can be tried again.
        """
        if self.upkeep is None:
            return self._not_overtaken(waits_for_table=waits_for_table)
        try:
            self.lake = self.upkeep.begin().lake
            done = self._not_overtaken(waits_for_table=waits_for_table)
            if done is not None:
                self.upkeep.after_batch()
        except ServiceError:
            self.upkeep.service_failed()
            raise
        return done

    def _not_overtaken(self, *, waits_for_table: bool) -> Transformed | None:
        if waits_for_table and self.lake.load(self.spec.source) is None:
            return None
        for _ in range(ATTEMPTS):
            try:
                return self._batch()
            except OvertakenError:
                continue
        raise ContendedError(
            f"{self.spec.identifier}: other commits to the table came first {ATTEMPTS} times",
            hint="look for another process that writes the table; the next run continues",
        )

    def _batch(self) -> Transformed | None:
        begun, spec, definition, first = self.clock(), self.spec, self.definition(), elapsed_seconds()
        target = self.lake.load(spec.identifier)
        source = self.followed()  # after the table, so that it has what another process has read of it
        kind = kind_of(spec, source)
        last = None if target is None else current_state(target, spec, definition=definition)
        before = None if last is None else last.position
        news = unread(source, spec, before, changes=kind.changes)
        keep_from(self.lake, source, spec, before or news.position)
        if news.position == before:
            return None
        history = JoinHistory() if target is None else history_of(target, spec)
        tables, joined = self.tables(source, news, history.last)
        met = self.met(history, source, news, tables, joined)
        state = last or TransformState(spec.name, definition)
        if target is None or news.is_everything or news.changed_by:
            target, change, rows = self._change(target, tables, news, state)
            schemas = schemas_now(tables)
        else:
            change, rows, schemas = appended(()), state.rows, schemas_before(state, tables)
        if self.sending is not None:
            target = unmoved(self.sending.begin(self.lake, target, rows), target.head)
        after = TransformState(
            spec.name, self.definition(), news.position, joined, self.new_id(), state.epoch + 1, rows, met, schemas
        )
        names = branch_names(STAGE_PREFIX, after.batch_id)
        snapshot_id = publish(self.lake, target, change, after, names=names, began=first)
        keep_from(self.lake, loaded(self.lake, spec.source), spec, news.position)
        self.keep_joined(met)
        written = sum(file.rows for file in change.files)
        read = tables[0].rows
        if kind.changes and not news.is_everything:
            read = sum(source.snapshots[each].figure("added-records") for each in news.changed_by)
        done = Transformed(spec, read, written, after, snapshot_id, self.clock() - begun)
        LOG.info("transformed", extra=_log_fields(done))
        return done

    def send(self) -> FrazilError | None:
        """Send to the outputs what they lack, and return the first failure.

        Raises TransformHaltedError for a table of others, and CatalogError.
        """
        target = self.lake.load(self.spec.identifier) if self.sending is not None and self.spec.outputs else None
        if target is None or self.sending is None:
            return None
        rows = owned_by(target, self.spec).rows
        return self.sending.send(self.lake, self.sending.begin(self.lake, target, rows), rows)

    def definition(self) -> str:
        """Return the hash of what decides the rows. Raises SpecError if a module is missing, and as `code_to_run`."""
        return self.spec.definition(code_to_run(self.spec))

    def followed(self) -> TableView:
        return self._table(self.spec.source, "from")

    def tables(
        self, source: TableView, news: Unread, last: Mapping[str, int] | None = None
    ) -> tuple[list[TableRows], Mapping[str, int]]:
        """Return the rows to read of each table, the followed one first, and the snapshots of the joined ones.

        `last` are those that the last batch met.
        """
        views = self.joined()
        joined = heads([*views.values()], last or {})
        others = [read_at(self.lake, view, joined[name]) for name, view in views.items()]
        return [unread_rows(self.lake, source, news), *others], joined

    def joined(self) -> Mapping[str, TableView]:
        return {each: self._table(each, "joins") for each in self.spec.joins}

    def met(
        self,
        history: JoinHistory,
        source: TableView,
        news: Unread,
        tables: Sequence[TableRows],
        joined: Mapping[str, int],
    ) -> JoinHistory:
        """Return the history after a batch, whose snapshots are kept from now on with those before."""
        if not joined:
            return JoinHistory()
        met = extended(history, news.position, joined, rows=tables[0].rows)
        keep(self.lake, self.spec, [source, *(each.view for each in tables[1:])], history, met)
        return met

    def keep_joined(self, met: JoinHistory, before: JoinHistory | None = None) -> None:
        """Keep the snapshots that a rebuild needs, and no longer others, also of tables that were joined before."""
        earlier = JoinHistory() if before is None else before
        names = {**dict.fromkeys(earlier.snapshots_of(self.spec.source)), **dict.fromkeys(self.spec.joins)}
        if self.spec.joins or earlier.stretches:
            views = (self.lake.load(each) for each in {self.spec.source: None, **names})
            keep(self.lake, self.spec, [view for view in views if view is not None], met)

    def _table(self, identifier: str, key: str) -> TableView:
        view = self.lake.load(identifier)
        if view is None:
            raise Misuse(
                f"{self.spec.source_file}: {key}: the catalog has no table {identifier}",
                hint=f"correct `{key}`, or run `frazil materialize` first",
            )
        return view

    def _change(
        self, target: TableView | None, tables: Sequence[TableRows], news: Unread, state: TransformState
    ) -> tuple[TableView, BatchChange, Identified]:
        """Return the table, made or with added columns if it needs them, and what the batch changes in it."""
        query = self.queries().check(self.spec, tables)
        outputs_by(self.spec, query.rows)
        if target is None:
            target = ensure(self.lake, self.spec, query.columns, replace(state, rows=query.rows))
        check_kept(target, self.spec, state.rows, query.rows)
        check_values_kept(self.spec, query.plan, tables, state)
        target = self._with_columns(target, query)
        if query.replaces and not news.is_everything:
            return target, self._replaced(query, tables[0], target, news, state), query.rows
        if query.keyed is not None and query.keyed.is_signed and not news.is_everything:
            return target, self._retracted(query, tables[0].view, target, news, state), query.rows
        stored = stored_files(target, key_ranges(query.plan, tables[0], target)) if query.keyed else ()
        return target, self.change(query, [tables], target, stored), query.rows

    def _retracted(
        self, query: Query, source: TableView, target: TableView, news: Unread, state: TransformState
    ) -> BatchChange:
        """Add to the groups what came, and take out of them what went."""
        assert state.position is not None  # noqa: S101 - there are changes since the position only
        changes = changes_between(self.lake, source, state.position.snapshot_id, news.position.snapshot_id)
        if changes.is_empty:
            return appended(())
        plus, minus = ([[rows]] if rows.files else [] for rows in (changes.added, changes.removed))
        prefix, stored = f"{self.spec.name}-{self.new_id()}", stored_files(target)
        groups = self.queries().merge(self.spec, query, plus, target, stored, prefix=prefix, minus=minus)
        return replaced_groups(target, self.lake.storage, groups)

    def _replaced(
        self, query: Query, added: TableRows, target: TableView, news: Unread, state: TransformState
    ) -> BatchChange:
        """Compute the rows again whose keys are those of changed rows, and take the stored ones out."""
        source, upto = added.view, news.position.snapshot_id
        ranges: Mapping[str, tuple[int, int]] = {}
        if kind_of(self.spec, source).changes:
            assert state.position is not None  # noqa: S101 - there are changes since the position only
            changes = changes_between(self.lake, source, state.position.snapshot_id, upto)
        else:
            ranges = key_ranges(query.plan, added, target)
            columns = unchanged_columns(query.plan, added.name)
            within = {columns[name]: bounds for name, bounds in ranges.items()}
            now = TableRows(source, stored_files(replace(source, head=upto), within))
            changes = Changes(added, TableRows(source, ()), now)
        if changes.is_empty:
            return appended(())
        stored, prefix = stored_files(target, ranges), f"{self.spec.name}-{self.new_id()}"
        groups = self.queries().replace(self.spec, query, changes, target, stored, prefix=prefix)
        return replaced_groups(target, self.lake.storage, groups)

    def change(self, query: Query, parts: Parts, target: TableView, stored: Sequence[StoredFile]) -> BatchChange:
        """Write the rows of a query over these parts. Groups are merged with those in the files `stored`.

        Raises as `Queries.write`.
        """
        prefix = f"{self.spec.name}-{self.new_id()}"
        parts = [tables for tables in parts if tables[0].files]
        if not parts:
            return appended(())
        if query.keyed is None or query.keyed.is_recomputed:
            return appended(self.queries().write(self.spec, query, parts, target, prefix=prefix))
        groups = self.queries().merge(self.spec, query, parts, target, stored, prefix=prefix)
        return replaced_groups(target, self.lake.storage, groups)

    def _with_columns(self, target: TableView, query: Query) -> TableView:
        """Add the columns that the query has got, since a table that it reads has."""
        changes = changes_for(target, self.spec, query)
        if not changes:
            return target
        try:
            return unmoved(self.lake.change_schema(target, changes, {}), target.head)
        except CommitRejectedError as overtaken:
            raise OvertakenError from overtaken


def _log_fields(done: Transformed) -> dict[str, object]:
    at = done.state.position
    return {
        "transform": done.spec.name,
        "table": done.spec.identifier,
        "snapshot": done.snapshot_id,
        "read": done.read,
        "rows": done.written,
        "epoch": None if at is None else at.epoch,
        "seconds": round(done.seconds, 3),
    }
