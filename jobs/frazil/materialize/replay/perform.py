"""Perform a replay: a batch of its own that reads nothing from Kafka.

Its rows and the corrected figures become visible in one snapshot, and the marks of its dead letters right after, in the
same two steps as the dead letters of any batch. If anything else is published meanwhile, the letters are chosen again:
each published replay follows the state in which its letters had no mark.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import NoReturn

from frazil.materialize.branches import ATTEMPTS, BaseExpiredError, Staged, given_up, stage_with_state
from frazil.materialize.clients import Clients, Step
from frazil.materialize.dead_letter_checks import counted_letters
from frazil.materialize.dead_letter_marks import NewMarks, Offsets, Source
from frazil.materialize.dead_letters import drop_others, prepare, reveal
from frazil.materialize.epoch_tags import has_epoch_tags
from frazil.materialize.foreign import count_foreign
from frazil.materialize.group.complete import Places
from frazil.materialize.group.ledger import LedgerEntry
from frazil.materialize.group.shares import at_one_batch
from frazil.materialize.ingest.distribute import BatchTable, write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.materialize.one_table import OneTable
from frazil.materialize.pause.fenced_pause import Pauser
from frazil.materialize.plan import check_not_paused
from frazil.materialize.publish import Share, publish
from frazil.materialize.replay.answer import answer
from frazil.materialize.replay.doubled import check_no_rows
from frazil.materialize.replay.keyed import WHY, ReplayTarget, in_any
from frazil.materialize.replay.letters import LETTERS_AT_ONCE, Letters, Waiting, chosen_letters, without
from frazil.materialize.replay.redecode import NewSchemaError, Redecoder, SchemaUse
from frazil.materialize.replay.replayed_state import (
    ReplayedRows,
    check,
    joined,
    of_group,
    outcome_of,
    receipt_of,
    state_after,
)
from frazil.materialize.replay.request import ReplayRequest, ReplayResult
from frazil.materialize.schema.fitted import fitted
from frazil.materialize.state import Standing
from frazil.materialize.verdicts import OvertakenError
from frazil.model.errors import CountMismatchError, FrazilError, IncompatibleSchemaError
from frazil.model.expired_letters import deleted_in
from frazil.model.ingested import WrittenFile
from frazil.model.plan import BatchPlan, WriterSchemas
from frazil.model.progress import BatchRef
from frazil.model.receipt import Receipt
from frazil.model.schemas import RegisteredSchema, SchemaId, in_order
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import receipt_in

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Replay:
    """Replays dead letters of one table, or of a group. `result` is that of all snapshots, also if a later one fails.

    `tables` are the tables of rows, the ledger of a group first. `made_ready` returns them as they are, and that of
    dead letters with all of the last batch visible. `evolve` gives tables columns for schemas that were met, `schemas`
    are those that are known, and `untaken` those of them that no table of a group takes.
    """

    tables: Sequence[OneTable]
    clients: Clients
    writer: str
    made_ready: Callable[[], tuple[Places, TableView]]
    evolve: Callable[[Places, WriterSchemas], None]
    schemas: Callable[[], WriterSchemas]
    untaken: Callable[[], Iterable[SchemaId]]
    step: Callable[[Step], AbstractContextManager[None]]
    pauser: Pauser
    seconds: dict[str, float]
    result: ReplayResult = field(default_factory=ReplayResult)
    _now: datetime = field(init=False)
    """The time of the portion that is replayed."""
    _tried: dict[Source, list[Offsets]] = field(default_factory=dict)
    _waiting: Waiting | None = None
    _learnt: set[SchemaUse] = field(default_factory=set)
    _refused: set[SchemaUse] = field(default_factory=set)

    @property
    def spec(self) -> TableSpec:
        return self.tables[0].spec

    def perform(self, request: ReplayRequest) -> None:
        """Replay what is chosen, a portion at a time, each in a snapshot of its own, until nothing is left to try.

        Raises PausedError, ContendedError if others keep publishing, and what a batch raises. What is visible by then
        is right.
        """
        overtaken = 0
        while overtaken < ATTEMPTS:
            here, dead_letters = self.made_ready()
            check_not_paused(self.spec, self._ledger(here).view.properties)
            try:
                if not at_one_batch(here):
                    raise OvertakenError("the tables of the group are not at one batch")
                if not self._portion(request, here, dead_letters):
                    return
                overtaken = 0
            except NewSchemaError as new:
                self._learn(here, new.schemas, of_key=new.of_key)
            except OvertakenError:
                overtaken += 1
        raise given_up(
            self.spec.identifier,
            "replay dead letters",
            OvertakenError("other batches came first"),
            hint="if a driver runs, ask again without `--wait 0`: it performs the replay between two of its batches",
        )

    def _ledger(self, here: Places) -> Standing:
        """The table of rows, or the ledger of the group, whose state counts the dead letters."""
        return here[self.spec.identifier]

    def _portion(self, request: ReplayRequest, here: Places, dead_letters: TableView) -> bool:
        """Replay the first letters that were not tried. Return whether there were any."""
        self._now = self.clients.now()
        with self.step("replay_choose"):
            waiting = self._chosen(request, self._ledger(here), dead_letters)
            chosen, others = waiting.first(LETTERS_AT_ONCE)
            for table in self.tables:
                check_no_rows(self.clients.lake, table.spec, here[table.identifier], chosen)
        if not chosen:
            return False
        with self.step("replay_decode"):
            got = self._decided(chosen, here, dead_letters)
        any_letters = any(rows.letters for rows in got.replayed())
        after, head = self._published(got, here, dead_letters) if any_letters else (waiting.after, waiting.head)
        self._waiting = Waiting(after, head, others)
        for source, offsets in chosen.items():
            self._tried.setdefault(source, []).append(offsets)
        self.result = _added(self.result, got.result())
        return True

    def _chosen(self, request: ReplayRequest, here: Standing, dead_letters: TableView) -> Waiting:
        """Return the letters to try. They are listed again only if another process changed a table meanwhile."""
        after, head = here.state.itself, dead_letters.head
        if self._waiting is not None and (self._waiting.after, self._waiting.head) == (after, head):
            return self._waiting
        letters = chosen_letters(self.clients.lake, dead_letters, here, request)
        self._waiting = Waiting(after, head, without(letters, self._tried))
        return self._waiting

    def _learn(self, here: Places, schemas: Sequence[RegisteredSchema], *, of_key: bool) -> None:
        """Get columns for schemas. The letters are decoded again then, for the table as it is by then.

        If the table cannot hold all of them together, it gets those of the first one.
        """
        first, *others = schemas
        met = {each.id: each for each in schemas}
        try:
            self.evolve(here, WriterSchemas({}, met) if of_key else WriterSchemas(met, {}))
        except IncompatibleSchemaError:
            if others:
                self._learn(here, [first], of_key=of_key)
                return
            self._refused.add((of_key, first.id))
        uses = {(of_key, each.id) for each in schemas}
        self._refused |= uses & self._learnt  # others keep taking their columns away
        self._learnt |= uses

    def _decided(self, chosen: dict[Source, Offsets], here: Places, dead_letters: TableView) -> Redecoder:
        """Return the decoded letters. Those stay of which a table that follows keys cannot say what they change."""
        got = self._decoded(chosen, here, dead_letters)
        each, uuid = zip(self.tables, got.replayed(), strict=True), self._ledger(here).view.uuid
        undecided = in_any(
            self._target(table, here[table.identifier]).undecided(rows, dead_letters, uuid) for table, rows in each
        )
        if not undecided:
            return got
        left = without(chosen, {source: [offsets] for source, offsets in joined(undecided.values()).items()})
        again = self._decoded({source: each for source, each in left.items() if len(each)}, here, dead_letters)
        for reason, letters in undecided.items():
            again.stay(letters, reason, WHY[reason])
        return again

    def _target(self, table: OneTable, at: Standing) -> ReplayTarget:
        return ReplayTarget(self.clients, table.spec, at, f"{self.writer}-{at.state.epoch + 1:08d}", self._now)

    def _decoded(self, chosen: dict[Source, Offsets], here: Places, dead_letters: TableView) -> Redecoder:
        lake, ledger = self.clients.lake, self._ledger(here)
        got = Redecoder(
            lake=lake,
            registry=self.clients.registry,
            tables=[BatchTable(table.spec, here[table.identifier].view) for table in self.tables],
            state=ledger.state,
            dead_letters=dead_letters,
            schemas=self.schemas(),
            refused=frozenset(self._refused),
            prefix=f"{self.writer}-{ledger.state.epoch + 1:08d}",
        )
        for source, offsets in chosen.items():
            got.add(Letters(lake, dead_letters, ledger.view.uuid, source, offsets, self.spec.dead_letter_key))
        got.close()
        return got

    def _published(self, got: Redecoder, here: Places, dead_letters: TableView) -> tuple[BatchRef, int | None]:
        """Make the rows visible, then the marks of their dead letters, which are prepared before.

        Return the batch, and the snapshot of dead letters to which this added its marks only; None if others did more.
        """
        replayed, batch_id = got.replayed(), self.clients.new_id()
        plans = [self._plan(table, here[table.identifier], batch_id) for table in self.tables]
        check(plans, replayed, counted=counted_letters(plans[0].state), group=self.spec.group)
        lake, letters = self.clients.lake, self.spec.dead_letters_identifier
        ways, tags = self._ways(plans, replayed), has_epoch_tags(self.spec)
        with self.step("replay_stage"):
            staged = [way(here[plan.table]) for plan, way in zip(plans, ways, strict=True)]
        with self.step("replay_prepare"):
            marks = self._marks(plans[0], replayed, staged, dead_letters)
            prepare(lake, letters, plan=plans[0], writer=self.writer, files=marks)
            self._check_none_deleted(dead_letters)
        with self.step("replay_publish"):
            try:
                ways[0] = _begin_again
                views = publish(lake, [Share(*each, tags, got.began) for each in zip(plans, staged, ways, strict=True)])
            except CountMismatchError as mismatch:
                self.pauser.pause(self.clients, mismatch)
                raise
        now = [table.stands(view) for table, view in zip(self.tables, views, strict=True)]
        receipts = self._noted(plans, replayed, now)
        state, rows_uuid = now[0].state, plans[0].table_uuid
        with self.step("replay_reveal"):
            revealed = reveal(lake, letters, state=state, rows=self.spec.identifier, rows_uuid=rows_uuid)
            drop_others(lake, letters, plan=plans[0])
        for receipt in receipts:
            self.clients.on_receipt(receipt)
        ours = revealed.head_snapshot()
        return state.itself, ours.id if ours is not None and ours.parent_id == dead_letters.head else None

    def _plan(self, table: OneTable, here: Standing, batch_id: str) -> BatchPlan:
        return BatchPlan(
            table=table.identifier,
            batch_id=batch_id,
            base_snapshot_id=here.carrier.id,
            state=here.state,
            ranges=(),
            schemas=table.absorbed.as_writer_schemas(),
            topics=(),
            table_uuid=here.view.uuid,
            is_replay=True,
        )

    def _ways(self, plans: Sequence[BatchPlan], replayed: Sequence[ReplayedRows]) -> list[Callable[[Standing], Staged]]:
        """Return what stages the rows of each table. The ledger of a group gets the state of the group, too."""
        group = self.spec.group
        entry = None
        if group is not None:
            entry = LedgerEntry(of_group(plans[0].state, replayed, group), group.routes, in_order(self.untaken()))
        entries = [entry, *([None] * (len(plans) - 1))]
        given = zip(self.tables, plans, replayed, entries, strict=True)
        return [partial(self._staged, *each) for each in given]

    def _noted(
        self, plans: Sequence[BatchPlan], replayed: Sequence[ReplayedRows], now: Sequence[Standing]
    ) -> list[Receipt]:
        """Note in the result what is published by now, and return the receipts of the tables that got rows."""
        receipts = [
            self._receipt(plan, rows, at) for plan, rows, at in zip(plans, replayed, now, strict=True) if rows.letters
        ]
        tables, has_shapes = Counter(self.result.tables), has_epoch_tags(self.spec)
        for each in receipts:
            tables[each.table] += each.counts.rows if has_shapes else each.replayed
        counted = receipts[:1] if has_shapes else receipts
        snapshots = tuple(each.snapshot_id for each in receipts if each.snapshot_id is not None)
        self.result = replace(
            self.result,
            replayed=self.result.replayed + sum(each.replayed for each in counted),
            snapshots=(*self.result.snapshots, *snapshots),
            tables=dict(tables),
            deletes=self.result.deletes + sum(each.counts.deletes for each in counted),
            duplicates=self.result.duplicates + sum(each.counts.duplicates for each in counted),
        )
        return receipts

    def _receipt(self, plan: BatchPlan, rows: ReplayedRows, at: Standing) -> Receipt:
        """Return the receipt of a published replay, with the outcome that was stored, and the seconds so far."""
        stored = receipt_in(at.carrier)
        assert stored is not None  # noqa: S101 - a replay was published
        of_all = receipt_of(plan, rows, at.state, counts=stored.counts, seconds=self.seconds)
        return replace(of_all, snapshot_id=at.carrier.id)

    def _check_none_deleted(self, chosen_in: TableView) -> None:
        """Raise OvertakenError if old letters were deleted since the letters were chosen; none are from now on."""
        now = self.clients.lake.load(chosen_in.identifier)
        if now is None or deleted_in(now) != deleted_in(chosen_in):
            raise OvertakenError("old dead letters were deleted")

    def _staged(
        self, table: OneTable, plan: BatchPlan, rows: ReplayedRows, entry: LedgerEntry | None, here: Standing
    ) -> Staged:
        assert here.view.head is not None  # noqa: S101 - a standing has a snapshot that carries it
        spec, (change, remembered) = table.spec, self._target(table, here).change(rows)
        planned = replace(plan, state=replace(plan.state, foreign=count_foreign(here).without_copies(change.copies)))
        state = state_after(
            planned,
            rows,
            change,
            writer=self.writer,
            fitted=fitted(spec, here.view, plan.schemas),
            is_grouped=spec.group is not None,
            remembered=remembered,
        )
        state = state if entry is None else entry.added_to(plan.state.group, state)
        outcome = outcome_of(rows, change.late.values())
        receipt = receipt_of(planned, rows, state, counts=outcome, seconds=self.seconds)
        lake, names = self.clients.lake, table.stage_names
        try:
            return stage_with_state(lake, here.view, names=names, change=change, state=state, receipt=receipt)
        except BaseExpiredError as expired:
            raise OvertakenError from expired

    def _marks(
        self, plan: BatchPlan, replayed: Sequence[ReplayedRows], staged: Sequence[Staged], dead_letters: TableView
    ) -> tuple[WrittenFile, ...]:
        """Write the marks, which name the staged snapshot of the table that has the row, of shapes the log's."""
        now, lake = self.clients.now(), self.clients.lake
        writer = DataFileWriter(
            write_target(dead_letters),
            storage=lake.storage,
            prefix=f"{self.writer}-{plan.epoch:08d}",
            target_bytes=self.spec.maintain.target_file_bytes,
        )
        has_shapes = has_epoch_tags(self.spec)
        for rows, on in [*zip(replayed, staged, strict=True)][: 1 if has_shapes else None]:
            marks = NewMarks(now, plan.epoch, plan.batch_id, on.snapshot_id, plan.table_uuid, rows.letters)
            for batch in marks.batches(writer.arrow_schema):
                writer.add(batch)
        return writer.close()


def perform_and_answer(replay: Replay, request: ReplayRequest) -> None:
    """Perform a request that a command left in the table, and store its result or its error in the request's place.

    Raises nothing: a request that cannot be performed must not stop a driver.
    """
    table, error, hint = replay.spec.identifier, None, ""
    try:
        replay.perform(request)
    except FrazilError as failure:
        error, hint = failure.what, failure.hint
    except Exception as defect:
        quotes_values = not replay.spec.masked  # of columns that are masked
        error = f"{type(defect).__name__}{f': {defect}' if quotes_values else ''}"
        hint = "this is a defect in Frazil: report it with the driver's log"
        LOG.error("replay_failed", exc_info=quotes_values, extra={"table": table, "request": request.id})
    result = replace(replay.result, error=error, hint=hint)
    try:
        answer(replay.clients.lake, table, request, result, now=replay.clients.now())
    except FrazilError as failure:
        LOG.warning("replay_not_answered", extra={"table": table, "request": request.id, "problem": failure.what})


def _begin_again(now: Standing) -> NoReturn:
    """Others have committed: choose the letters again, and stage them under marks that name the new snapshot."""
    raise OvertakenError


def _added(result: ReplayResult, more: ReplayResult) -> ReplayResult:
    reasons = {*result.stayed, *more.stayed}
    stayed = {reason: result.stayed.get(reason, 0) + more.stayed.get(reason, 0) for reason in sorted(reasons)}
    return replace(result, stayed=stayed, examples={**more.examples, **result.examples})
