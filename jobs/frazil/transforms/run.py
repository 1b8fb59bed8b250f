"""One transformation in one process: its batches, each exactly once (docs/decisions/0051)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from frazil.adapters.iceberg.probe import stored_files
from frazil.materialize.branches import ATTEMPTS, STAGE_PREFIX, branch_names
from frazil.materialize.schema.compare import compare
from frazil.model.columns import Column
from frazil.model.errors import CommitRejectedError, ContendedError, Misuse, ServiceError, TransformHaltedError
from frazil.model.join_history import JoinHistory
from frazil.model.probe import StoredFile
from frazil.model.snapshot import TableView
from frazil.model.transforms import TransformSpec, TransformState
from frazil.modes.mode import BatchChange
from frazil.ports import Lake
from frazil.transforms.commit import OvertakenError, appended, ensure, keep_from, loaded, publish
from frazil.transforms.function import code_of
from frazil.transforms.joins import extended, heads, history_of, keep, read_at
from frazil.transforms.queries import Parts, Queries, Query
from frazil.transforms.ranges import key_ranges
from frazil.transforms.replaced import replaced_groups
from frazil.transforms.tables import TableRows, unread_rows
from frazil.transforms.unread import Unread, current_state, unread
from frazil.transforms.upkeep import Upkeep

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

    def batch(self) -> Transformed | None:
        """Read what was added to the followed table, and publish the rows of the query over it; None if nothing was.

        Raises TransformHaltedError if the table cannot be continued, SpecError if the query cannot be carried out,
        ContendedError if other commits were first each time, and ServiceErrors, after which it can be tried again.
        """
        if self.upkeep is None:
            return self._not_overtaken()
        self.lake = self.upkeep.begin().lake
        try:
            done = self._not_overtaken()
            if done is not None:
                self.upkeep.after_batch()
        except ServiceError:
            self.upkeep.service_failed()
            raise
        return done

    def _not_overtaken(self) -> Transformed | None:
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
        begun, spec, definition = self.clock(), self.spec, self.definition()
        source, target = self.followed(), self.lake.load(spec.identifier)
        before = None if target is None else current_state(target, spec, definition=definition).position
        news = unread(source, spec, before)
        keep_from(self.lake, source, spec, before or news.position)
        if news.position == before:
            return None
        history = JoinHistory() if target is None else history_of(target, spec)
        tables, joined = self.tables(source, news, history.last)
        met = self.met(history, source, news, tables, joined)
        target, change = self._change(target, tables, definition)
        after = TransformState(spec.name, definition, news.position, joined, self.new_id(), met)
        names = branch_names(STAGE_PREFIX, after.batch_id)
        snapshot_id = publish(self.lake, target, change, after, names=names)
        keep_from(self.lake, loaded(self.lake, spec.source), spec, news.position)
        self.keep_joined(met)
        rows = sum(file.rows for file in change.files)
        done = Transformed(spec, tables[0].rows, rows, after, snapshot_id, self.clock() - begun)
        LOG.info("transformed", extra=_log_fields(done))
        return done

    def definition(self) -> str:
        """Return the hash of what decides the rows. Raises SpecError if a module is missing."""
        return self.spec.definition(code_of(self.spec))

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
        others = [read_at(self.lake, view, joined[name]) for name, view in views.items() if name in joined]
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
        self, target: TableView | None, tables: Sequence[TableRows], definition: str
    ) -> tuple[TableView, BatchChange]:
        """Return the table, made or with added columns if it needs them, and what the batch changes in it."""
        if target is not None and not tables[0].files:
            return target, appended(())
        query = self.queries().check(self.spec, tables)
        if target is None:
            target = ensure(self.lake, self.spec, query.columns, TransformState(self.spec.name, definition))
        target = self._with_columns(target, query.columns)
        stored = stored_files(target, key_ranges(query.plan, tables[0], target)) if query.keyed else ()
        return target, self.change(query, [tables], target, stored)

    def change(self, query: Query, parts: Parts, target: TableView, stored: Sequence[StoredFile]) -> BatchChange:
        """Write the rows of a query over these parts. Groups are merged with those in the files `stored`.

        Raises as `Queries.write`.
        """
        prefix = f"{self.spec.name}-{self.new_id()}"
        parts = [tables for tables in parts if tables[0].files]
        if not parts:
            return appended(())
        if query.keyed is None:
            return appended(self.queries().write(self.spec, query, parts, target, prefix=prefix))
        groups = self.queries().merge(self.spec, query, parts, target, stored, prefix=prefix)
        return replaced_groups(target, self.lake.storage, groups)

    def _with_columns(self, target: TableView, wanted: tuple[Column, ...]) -> TableView:
        """Add the columns that the query has got, since a table that it reads has."""
        evolution = compare(wanted, target.columns, {})
        if evolution.findings:
            listed = "; ".join(map(str, evolution.findings))
            raise TransformHaltedError(
                f"{target.identifier}: the rows of the transformation {self.spec.name} do not fit its table any more:"
                f" {listed}",
                hint=f"run `frazil transform rebuild {self.spec.name}`, which makes the table again",
            )
        if not evolution.changes:
            return target
        try:
            return self.lake.change_schema(target, evolution.changes, {})
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
