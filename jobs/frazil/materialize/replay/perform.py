"""Perform a replay: a batch of its own that reads nothing from Kafka.

Its rows and the corrected figures become visible in one snapshot, and the marks of its dead letters right after, in the
same two steps as the dead letters of any batch. If anything else is published meanwhile, the letters are chosen again:
each published replay follows the state in which its letters had no mark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import NoReturn

from frazil.materialize.branches import ATTEMPTS, BaseExpiredError, Staged, given_up, stage_on_branch
from frazil.materialize.clients import Clients, Step
from frazil.materialize.dead_letter_marks import NewMarks, Offsets, Source
from frazil.materialize.dead_letters import drop_others, prepare, reveal
from frazil.materialize.foreign import count_foreign
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.materialize.pause.fenced_pause import Pauser
from frazil.materialize.plan import check_not_paused
from frazil.materialize.publish import Share, publish
from frazil.materialize.replay.answer import answer
from frazil.materialize.replay.doubled import check_no_rows
from frazil.materialize.replay.letters import LETTERS_AT_ONCE, Letters, Waiting, chosen_letters, without
from frazil.materialize.replay.redecode import NewSchemaError, Redecoder, SchemaUse
from frazil.materialize.replay.replayed_state import ReplayedRows, check, receipt_of, state_after
from frazil.materialize.replay.request import ReplayRequest, ReplayResult, check_replayable
from frazil.materialize.schema.fitted import fitted
from frazil.materialize.state import Standing, standing
from frazil.materialize.verdicts import OvertakenError
from frazil.model.errors import CountMismatchError, FrazilError, IncompatibleSchemaError
from frazil.model.expired_letters import deleted_in
from frazil.model.ingested import WrittenFile
from frazil.model.plan import BatchPlan, WriterSchemas
from frazil.model.progress import BatchRef, Counts
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import store
from frazil.modes.open import open_mode

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Replay:
    """Replays dead letters of one table. `result` is that of all snapshots so far, also if a later one fails.

    `made_ready` returns the table of rows, and that of dead letters with all of the last batch visible. `evolve` gives
    the table of rows columns for schemas that were met.
    """

    spec: TableSpec
    clients: Clients
    writer: str
    names: Iterator[str]
    made_ready: Callable[[], tuple[Standing, TableView]]
    evolve: Callable[[Standing, WriterSchemas], None]
    schemas: Callable[[], WriterSchemas]
    step: Callable[[Step], AbstractContextManager[None]]
    pauser: Pauser
    seconds: dict[str, float]
    result: ReplayResult = field(default_factory=ReplayResult)
    _tried: dict[Source, list[Offsets]] = field(default_factory=dict)
    _waiting: Waiting | None = None
    _learnt: set[SchemaUse] = field(default_factory=set)
    _refused: set[SchemaUse] = field(default_factory=set)

    def perform(self, request: ReplayRequest) -> None:
        """Replay what is chosen, a portion at a time, each in a snapshot of its own, until nothing is left to try.

        Raises PausedError, ContendedError if others keep publishing, and what a batch raises. What is visible by then
        is right.
        """
        check_replayable(self.spec)
        overtaken = 0
        while overtaken < ATTEMPTS:
            here, dead_letters = self.made_ready()
            check_not_paused(self.spec, here.view.properties)
            try:
                if not self._portion(request, here, dead_letters):
                    return
                overtaken = 0
            except NewSchemaError as new:
                self._learn(here, new)
            except OvertakenError:
                overtaken += 1
        raise given_up(
            self.spec.identifier,
            "replay dead letters",
            OvertakenError("other batches came first"),
            hint="if a driver runs, ask again without `--wait 0`: it performs the replay between two of its batches",
        )

    def _portion(self, request: ReplayRequest, here: Standing, dead_letters: TableView) -> bool:
        """Replay the first letters that were not tried. Return whether there were any."""
        with self.step("replay_choose"):
            waiting = self._chosen(request, here, dead_letters)
            chosen, others = waiting.first(LETTERS_AT_ONCE)
            check_no_rows(self.clients.lake, self.spec, here, chosen)
        if not chosen:
            return False
        with self.step("replay_decode"):
            got = self._decoded(chosen, here, dead_letters)
        after, head = self._published(got, here, dead_letters) if got.offsets else (waiting.after, waiting.head)
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

    def _learn(self, here: Standing, new: NewSchemaError) -> None:
        """Get columns for a schema. The letters are decoded again then, for the table as it is by then."""
        use = (new.of_key, new.schema.id)
        met = {new.schema.id: new.schema}
        try:
            self.evolve(here, WriterSchemas({}, met) if new.of_key else WriterSchemas(met, {}))
        except IncompatibleSchemaError:
            self._refused.add(use)
        if use in self._learnt:  # others keep taking its columns away
            self._refused.add(use)
        self._learnt.add(use)

    def _decoded(self, chosen: dict[Source, Offsets], here: Standing, dead_letters: TableView) -> Redecoder:
        lake = self.clients.lake
        got = Redecoder(
            lake=lake,
            registry=self.clients.registry,
            spec=self.spec,
            here=here,
            dead_letters=dead_letters,
            schemas=self.schemas(),
            refused=frozenset(self._refused),
            prefix=f"{self.writer}-{here.state.epoch + 1:08d}",
        )
        for source, offsets in chosen.items():
            got.add(Letters(lake, dead_letters, here.view.uuid, source, offsets, self.spec.dead_letter_key))
        got.close()
        return got

    def _published(self, got: Redecoder, here: Standing, dead_letters: TableView) -> tuple[BatchRef, int | None]:
        """Make the rows visible, then the marks of their dead letters, which are prepared before.

        Return the batch, and the snapshot of dead letters to which this added its marks only; None if others did more.
        """
        plan = BatchPlan(
            table=self.spec.identifier,
            batch_id=self.clients.new_id(),
            base_snapshot_id=here.carrier.id,
            state=here.state,
            ranges=(),
            schemas=got.schemas,
            topics=(),
            table_uuid=here.view.uuid,
            is_replay=True,
        )
        lake, table = self.clients.lake, self.spec.dead_letters_identifier
        rows = ReplayedRows(tuple(got.files), got.offsets, got.truncated_nanos, got.undeclared_fields)
        check(plan, rows)
        with self.step("replay_stage"):
            staged = self._staged(plan, rows, here)
        with self.step("replay_prepare"):
            marks = self._marks(plan, rows, staged, dead_letters)
            prepare(lake, table, plan=plan, writer=self.writer, files=marks)
            self._check_none_deleted(dead_letters)
        with self.step("replay_publish"):
            try:
                (view,) = publish(lake, [Share(plan, staged, stage_on=_begin_again)])
            except CountMismatchError as mismatch:
                self.pauser.pause(self.clients, mismatch)
                raise
        now = standing(view, pipeline=self.spec.pipeline)
        receipt = replace(receipt_of(plan, rows, now.state, seconds=self.seconds), snapshot_id=now.carrier.id)
        snapshots = (*self.result.snapshots, now.carrier.id)
        self.result = replace(self.result, replayed=self.result.replayed + rows.rows, snapshots=snapshots)
        with self.step("replay_reveal"):
            revealed = reveal(lake, table, state=now.state, rows=self.spec.identifier, rows_uuid=plan.table_uuid)
            drop_others(lake, table, plan=plan)
        self.clients.on_receipt(receipt)
        ours = revealed.head_snapshot()
        return now.state.itself, ours.id if ours is not None and ours.parent_id == dead_letters.head else None

    def _check_none_deleted(self, chosen_in: TableView) -> None:
        """Raise OvertakenError if old letters were deleted since the letters were chosen; none are from now on."""
        now = self.clients.lake.load(chosen_in.identifier)
        if now is None or deleted_in(now) != deleted_in(chosen_in):
            raise OvertakenError("old dead letters were deleted")

    def _staged(self, plan: BatchPlan, rows: ReplayedRows, here: Standing) -> Staged:
        assert here.view.head is not None  # noqa: S101 - a standing has a snapshot that carries it
        planned = replace(plan, state=replace(plan.state, foreign=count_foreign(here)))
        state = state_after(planned, rows, writer=self.writer, fitted=fitted(self.spec, here.view, plan.schemas))
        stored = store(state, receipt_of(planned, rows, state, seconds=self.seconds))
        counts = Counts(read=rows.rows, rows=rows.rows)
        try:
            return stage_on_branch(
                self.clients.lake,
                here.view,
                base=here.view.head,
                names=self.names,
                change=open_mode(self.spec.write).change(rows.files, counts, here.view),
                summary=stored.summary,
                document=stored.document,
            )
        except BaseExpiredError as expired:
            raise OvertakenError from expired

    def _marks(
        self, plan: BatchPlan, rows: ReplayedRows, staged: Staged, dead_letters: TableView
    ) -> tuple[WrittenFile, ...]:
        """Write the marks, which name the staged snapshot."""
        now, lake = self.clients.now(), self.clients.lake
        marks = NewMarks(now, plan.epoch, plan.batch_id, staged.snapshot_id, plan.table_uuid, rows.offsets)
        writer = DataFileWriter(
            write_target(dead_letters),
            storage=lake.storage,
            prefix=f"{self.writer}-{plan.epoch:08d}",
            target_bytes=self.spec.maintain.target_file_bytes,
        )
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
