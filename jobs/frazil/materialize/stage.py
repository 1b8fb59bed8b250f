"""The rows of a batch that is read go onto a branch of their table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from frazil.materialize.account import Ingested, next_state, receipt_of
from frazil.materialize.branches import Staged, stage_on_branch
from frazil.materialize.foreign import count_foreign
from frazil.materialize.state import Standing
from frazil.model.plan import BatchPlan
from frazil.model.progress import Fitted
from frazil.model.receipt import Receipt
from frazil.model.spec import TableSpec
from frazil.model.summary import store
from frazil.modes.open import open_mode
from frazil.ports import Lake


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """A batch that is read and about to become visible. It can be staged on any head of `main`.

    `names` gives the next branch name of this writer; `seconds` are those of the steps so far. `fitted` records the
    plan's schemas, with the table's schema that they were compared with.
    """

    lake: Lake
    spec: TableSpec
    writer: str
    names: Iterator[str]
    plan: BatchPlan
    got: Ingested
    planned_at: datetime
    seconds: Mapping[str, float]
    fitted: Fitted | None = None

    def planned_on(self, here: Standing) -> BatchPlan:
        """Return the plan for a table that may have had dead letters replayed since it was made."""
        # a state that was planned on has later origins, if the table had published nothing
        state = here.state
        if state.itself == self.plan.state.itself:
            return self.plan
        known = {source.topic for source in state.sources}
        begun = [source for source in self.plan.state.sources if source.topic not in known]
        return replace(self.plan, state=state.with_topics(begun))

    def stage_on(self, here: Standing) -> Staged:
        """Stage on top of the table's head. Raises BaseExpiredError, and the same errors as `publish`."""
        assert here.view.head is not None  # noqa: S101 - a standing has a snapshot that carries it
        planned = self.planned_on(here)
        plan = replace(planned, state=replace(planned.state, foreign=count_foreign(here)))
        state = next_state(plan, self.got, writer=self.writer, planned_at=self.planned_at, fitted=self.fitted)
        change = open_mode(self.spec.write).change(self.got.row_files, self.got.counts, here.view)
        stored = store(state, receipt_of(plan, self.got, state, seconds=self.seconds))
        return stage_on_branch(
            self.lake,
            here.view,
            base=here.view.head,
            names=self.names,
            change=change,
            summary=stored.summary,
            document=stored.document,
        )

    def receipt(self, now: Standing, *, schema_changes: tuple[str, ...]) -> Receipt:
        """Return the receipt of the published batch, with the seconds of all steps so far."""
        receipt = receipt_of(self.plan, self.got, now.state, seconds=self.seconds)
        return replace(receipt, snapshot_id=now.carrier.id, schema_changes=schema_changes)
