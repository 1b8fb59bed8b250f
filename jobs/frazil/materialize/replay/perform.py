"""Perform a replay: a batch of its own that reads nothing from Kafka.

Its rows and the corrected figures become visible in one snapshot, and the marks of its dead letters right after, in the
same two steps as the dead letters of any batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

from frazil.materialize.beginning import Source
from frazil.materialize.branches import BaseExpiredError, Staged, stage_on_branch
from frazil.materialize.clients import Clients, Step
from frazil.materialize.dead_letter_marks import Offsets, Replayed
from frazil.materialize.dead_letters import parent_for, prepare, reveal
from frazil.materialize.foreign import count_foreign
from frazil.materialize.publish import publish
from frazil.materialize.replay.letters import Letters, chosen_letters, portion, together
from frazil.materialize.replay.redecode import Evolved, Redecoder
from frazil.materialize.replay.replayed_state import ReplayedRows, check, receipt_of, state_after
from frazil.materialize.replay.request import ReplayRequest, ReplayResult
from frazil.materialize.schema.fitted import fitted
from frazil.materialize.state import Standing, standing
from frazil.materialize.verdicts import OvertakenError
from frazil.model.plan import BatchPlan, WriterSchemas
from frazil.model.progress import Counts
from frazil.model.receipt import Receipt
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import store
from frazil.modes.open import open_mode


@dataclass(frozen=True, slots=True)
class Performed:
    """A replay that is done, and the table after it; `receipts` has one for each snapshot."""

    result: ReplayResult
    here: Standing
    receipts: tuple[Receipt, ...]


@dataclass(slots=True)
class Replay:
    """Replays dead letters of one table. `evolved` gives the table columns for schemas that are met."""

    spec: TableSpec
    clients: Clients
    writer: str
    names: Iterator[str]
    schemas: Callable[[], WriterSchemas]
    evolved: Evolved
    step: Callable[[Step], AbstractContextManager[None]]
    seconds: dict[str, float]

    def perform(self, request: ReplayRequest, here: Standing, dead_letters: TableView) -> Performed:
        """Replay what is chosen, a portion at a time, each in a snapshot of its own, until nothing is left to try.

        `dead_letters` is their table with all of the last batch visible. Raises OvertakenError if another process
        published since: what is visible by then is right, and the rest is chosen again.
        """
        tried: dict[Source, Offsets] = {}
        result = ReplayResult()
        receipts: list[Receipt] = []
        while True:
            with self.step("replay_choose"):
                letters = self._chosen(request, here, dead_letters, tried)
            if not letters:
                return Performed(result, here, tuple(receipts))
            with self.step("replay_decode"):
                got = self._decoded(letters, here, dead_letters)
            tried = together(tried, {each.source: each.offsets for each in letters})
            here, result = got.here, _added(result, got.result())
            if got.offsets:
                here, receipt = self._published(got, here)
                dead_letters = self._reveal(here)
                receipts.append(receipt)
                snapshots = (*result.snapshots, here.carrier.id)
                result = replace(result, replayed=result.replayed + receipt.replayed, snapshots=snapshots)

    def _chosen(
        self, request: ReplayRequest, here: Standing, dead_letters: TableView, tried: dict[Source, Offsets]
    ) -> list[Letters]:
        snapshot_id = parent_for(dead_letters, here.state.epoch + 1, here.view.uuid).base
        lake, uuid = self.clients.lake, here.view.uuid
        chosen = portion(chosen_letters(lake, dead_letters, snapshot_id, here, request), tried)
        key = self.spec.dead_letter_key
        return [
            Letters(lake, dead_letters, snapshot_id, uuid, source, offsets, key) for source, offsets in chosen.items()
        ]

    def _decoded(self, letters: list[Letters], here: Standing, dead_letters: TableView) -> Redecoder:
        got = Redecoder(
            lake=self.clients.lake,
            registry=self.clients.registry,
            spec=self.spec,
            here=here,
            dead_letters=dead_letters,
            schemas=self.schemas(),
            evolved=self.evolved,
            prefix=f"{self.writer}-{here.state.epoch + 1:08d}",
        )
        for each in letters:
            got.add(each)
        got.close()
        return got

    def _published(self, got: Redecoder, here: Standing) -> tuple[Standing, Receipt]:
        """Make the rows visible; the marks of their dead letters are prepared before."""
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
        rows = ReplayedRows(tuple(got.files), got.offsets, got.truncated_nanos, got.undeclared_fields)
        check(plan, rows)
        with self.step("replay_stage"):
            staged = self._staged(plan, rows, here)
        with self.step("replay_publish"):
            view = publish(self.clients.lake, plan, staged, stage_on=partial(self._staged, plan, rows))
        now = standing(view, pipeline=self.spec.pipeline)
        receipt = receipt_of(plan, rows, now.state, seconds=self.seconds)
        return now, replace(receipt, snapshot_id=now.carrier.id)

    def _staged(self, plan: BatchPlan, rows: ReplayedRows, here: Standing) -> Staged:
        """Stage the rows, then prepare the marks, which name the staged snapshot."""
        assert here.view.head is not None  # noqa: S101 - a standing has a snapshot that carries it
        lake = self.clients.lake
        planned = replace(plan, state=replace(plan.state, foreign=count_foreign(here)))
        state = state_after(planned, rows, writer=self.writer, fitted=fitted(self.spec, here.view, plan.schemas))
        stored = store(state, receipt_of(planned, rows, state, seconds=self.seconds))
        counts = Counts(read=rows.rows, rows=rows.rows)
        change = open_mode(self.spec.write).change(rows.files, counts, here.view)
        try:
            staged = stage_on_branch(
                lake,
                here.view,
                base=here.view.head,
                names=self.names,
                change=change,
                summary=stored.summary,
                document=stored.document,
            )
        except BaseExpiredError as expired:
            raise OvertakenError from expired
        mark = Replayed(self.clients.now(), plan.epoch, plan.batch_id, staged.snapshot_id, rows.offsets)
        table = self.spec.dead_letters_identifier
        with self.step("replay_prepare"):
            prepare(lake, table, plan=plan, writer=self.writer, files=(), replayed=mark)
        return staged

    def _reveal(self, here: Standing) -> TableView:
        with self.step("replay_reveal"):
            table = self.spec.dead_letters_identifier
            return reveal(self.clients.lake, table, state=here.state, rows_uuid=here.view.uuid)


def _added(result: ReplayResult, more: ReplayResult) -> ReplayResult:
    reasons = {*result.stayed, *more.stayed}
    stayed = {reason: result.stayed.get(reason, 0) + more.stayed.get(reason, 0) for reason in sorted(reasons)}
    return replace(result, stayed=stayed, examples={**more.examples, **result.examples})
