"""What may be done with a staged batch, by one read of the table: every verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from values_of_tables import SPEC, progress, snapshot, state, view

from frazil.materialize.branches import Staged, stage_branches
from frazil.materialize.publish import Share, last_look, publish
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.materialize.verdicts import Done, OvertakenError, PlanAgain, Ready, StageAgain, judge
from frazil.model.errors import CatalogError, CountMismatchError, FencedError, ForeignOwnerError, StateLostError
from frazil.model.plan import BatchPlan, WriterSchemas
from frazil.model.progress import TableState
from frazil.model.snapshot import Snapshot, TableView
from frazil.modes.append import add_every_row
from frazil.modes.mode import Written, find_none
from frazil.ports import Lake

BEFORE = state({0: progress(0, 7)}, epoch=3, batch_id="batch3")
AFTER = state({0: progress(0, 9)}, epoch=4, batch_id="batch4")
PLAN = BatchPlan(SPEC.identifier, "batch4", 1, BEFORE, (), WriterSchemas({}, {}), ())
BASE = snapshot(1, None, carries=BEFORE, total_records=7)
STAGED = snapshot(2, 1, carries=AFTER, added_records=2, total_records=9)
ATTEMPT = Staged("frazil_stage_w1_1", 2, base=1, figures={"added-records": 2, "deleted-records": 0})
BRANCH = {"frazil_stage_w1_1": 2}


def staged_with(rows: int, attempt: Staged = ATTEMPT) -> Staged:
    return replace(attempt, figures=add_every_row(Written((), rows), find_none).figures)


class LakeOfTables:
    """Holds tables with a staged branch each, until that is published."""

    def __init__(self, **tables: TableView) -> None:
        self.tables = {f"lake.{name}": replace(table, identifier=f"lake.{name}") for name, table in tables.items()}
        self.done: list[str] = []

    def load(self, identifier: str) -> TableView:
        self.done.append(f"load {identifier}")
        return self.tables[identifier]

    def publish(self, table: TableView, *, branch: str, **__: object) -> None:
        self.done.append(f"publish {table.identifier}")
        self.tables[table.identifier] = replace(table, head=table.branches[branch])

    def drop_branches(self, table: TableView, names: list[str]) -> None:
        self.done.append(f"drop {table.identifier} {names}")

    def publish_all(self) -> list[TableView]:
        plans = [replace(PLAN, table=identifier) for identifier in self.tables]
        return publish(cast(Lake, self), [Share(plan, ATTEMPT, stage_on=lambda _: ATTEMPT) for plan in plans])


class LakeThatNotes:
    """Holds the table with the staged branch until that is published."""

    def __init__(self, before: TableView | None = None, after: TableView | None = None) -> None:
        self.done: list[str] = []
        self._before = before or view(BASE, STAGED, head=1, branches=BRANCH)
        self._after = after or view(BASE, STAGED)

    def load(self, _: str) -> TableView:
        return self._after if self.done else self._before

    def publish(self, _: TableView, *, branch: str, **__: object) -> None:
        self.done.append(f"publish {branch}")

    def drop_branches(self, _: TableView, names: list[str]) -> None:
        self.done.append(f"drop {names}")


def test_a_branch_on_the_head_of_main_may_be_published() -> None:
    assert judge(view(BASE, STAGED, head=1, branches=BRANCH), PLAN, ATTEMPT) == Ready()


def test_a_batch_that_main_carries_is_done() -> None:
    assert judge(view(BASE, STAGED), PLAN, ATTEMPT) == Done(2)


def test_a_batch_that_main_carries_under_what_others_did_is_done() -> None:
    assert judge(view(BASE, STAGED, snapshot(3, 2, operation="delete")), PLAN, ATTEMPT) == Done(2)


def test_a_batch_that_another_process_completed_from_its_own_branch_is_done() -> None:
    theirs = snapshot(7, 1, carries=replace(AFTER, writer="w2"))

    assert judge(view(BASE, STAGED, theirs, branches=BRANCH), PLAN, ATTEMPT) == Done(7)


@pytest.mark.parametrize("operation", ["append", "delete", "overwrite", "replace"])
def test_a_commit_of_others_makes_the_batch_be_staged_again_on_top(operation: str) -> None:
    theirs = snapshot(3, 1, operation=operation)

    verdict = judge(view(BASE, STAGED, theirs, branches=BRANCH), PLAN, ATTEMPT)

    assert isinstance(verdict, StageAgain)
    assert (verdict.now.view.head, verdict.now.foreign) == (3, (theirs,))


def test_a_branch_that_is_gone_is_staged_again() -> None:
    assert isinstance(judge(view(BASE, STAGED, head=1), PLAN, ATTEMPT), StageAgain)


def test_a_branch_that_somebody_moved_is_staged_again() -> None:
    moved = view(BASE, STAGED, snapshot(5, 2), head=1, branches={"frazil_stage_w1_1": 5})

    assert isinstance(judge(moved, PLAN, ATTEMPT), StageAgain)


@pytest.mark.parametrize(
    "not_ours",
    [snapshot(2, 1, carries=replace(AFTER, batch_id="batch9")), snapshot(2, None, carries=AFTER)],
    ids=["another batch", "another base"],
)
def test_a_staged_snapshot_that_is_not_this_batch_is_staged_again(not_ours: Snapshot) -> None:
    assert isinstance(judge(view(BASE, not_ours, head=1, branches=BRANCH), PLAN, ATTEMPT), StageAgain)


@pytest.mark.parametrize(
    "theirs",
    [
        state({0: progress(0, 9)}, epoch=4, batch_id="other4", writer="w2"),
        state({0: progress(0, 9)}, epoch=5, batch_id="other5", writer="w2"),
        state({0: progress(0, 8)}, epoch=3, batch_id="other3", writer="w2"),
    ],
    ids=["the same epoch", "a later epoch", "rolled back and read again"],
)
def test_another_process_of_this_pipeline_fences_this_one(theirs: TableState) -> None:
    with pytest.raises(FencedError, match=rf"published epoch {theirs.epoch} \(writer w2\)"):
        judge(view(BASE, STAGED, snapshot(3, 1, carries=theirs), branches=BRANCH), PLAN, ATTEMPT)


def test_a_rollback_below_the_base_makes_the_batch_be_planned_again() -> None:
    earlier = snapshot(9, None, carries=state({0: progress(0, 5)}, epoch=2, batch_id="batch2"))
    base = replace(BASE, parent_id=9)

    assert judge(view(earlier, base, STAGED, head=9, branches=BRANCH), PLAN, ATTEMPT) == PlanAgain()


def test_another_pipeline_that_took_the_table_halts_this_one() -> None:
    others = (replace(AFTER.sources[0], topic="returns"),)
    theirs = snapshot(3, 1, carries=replace(AFTER, sources=others, batch_id="x"))

    with pytest.raises(ForeignOwnerError):
        judge(view(BASE, STAGED, theirs, branches=BRANCH), PLAN, ATTEMPT)


def test_a_chain_that_broke_meanwhile_halts() -> None:
    with pytest.raises(StateLostError):
        judge(view(STAGED, snapshot(8, 6), branches=BRANCH, tags={CHECKPOINT_TAG: 1}), PLAN, ATTEMPT)


@pytest.mark.parametrize(("added", "deleted", "rows"), [(3, 0, 2), (1, 0, 2), (2, 1, 2), (0, 0, 2)])
def test_a_staged_summary_that_is_not_what_the_tasks_returned_stops_the_pipeline(
    added: int, deleted: int, rows: int
) -> None:
    staged = snapshot(2, 1, carries=AFTER, added_records=added, deleted_records=deleted)

    found, expected = f"{added} added-records, {deleted} deleted-records", f"{rows} added-records, 0 deleted-records"
    with pytest.raises(CountMismatchError, match=f"staged with {found}, expected {expected};"):
        last_look(view(BASE, staged, head=1, branches=BRANCH), PLAN, staged_with(rows))


@pytest.mark.parametrize(("added", "removed"), [(4, 1), (2, 1), (3, 2), (3, 0)])
def test_a_staged_summary_with_other_position_deletes_stops_the_pipeline(added: int, removed: int) -> None:
    figures = {"added-records": 2, "added-position-deletes": 3, "removed-position-deletes": 1}
    given = {"added_position_deletes": added, "removed_position_deletes": removed}
    staged = snapshot(2, 1, carries=AFTER, added_records=2, **given)

    found = f"{added} added-position-deletes, {removed} removed-position-deletes"
    with pytest.raises(CountMismatchError, match=f"staged with 2 added-records, {found}, expected 2 added-records, 3 "):
        last_look(view(BASE, staged, head=1, branches=BRANCH), PLAN, replace(ATTEMPT, figures=figures))


def test_a_staged_summary_that_agrees_is_published_and_nothing_is_dropped() -> None:
    lake = LakeThatNotes()

    publish(cast(Lake, lake), [Share(PLAN, staged_with(2), stage_on=lambda _: ATTEMPT)])

    assert lake.done == ["publish frazil_stage_w1_1"]


def test_a_batch_that_is_staged_again_is_compared_with_the_figures_of_that_head() -> None:
    """On another head, a mode that replaces rows takes out another number of them."""
    theirs = snapshot(3, 1, total_records=8)
    again = snapshot(4, 3, carries=AFTER, added_records=2, deleted_records=1, total_records=9)
    table = view(BASE, STAGED, theirs, again, head=3, branches={**BRANCH, "frazil_stage_w1_2": 4})
    restaged = Staged("frazil_stage_w1_2", 4, base=3, figures={"added-records": 2, "deleted-records": 1})
    lake = LakeThatNotes(before=table, after=replace(table, head=4))

    publish(cast(Lake, lake), [Share(PLAN, staged_with(2), stage_on=lambda _: restaged)])

    assert lake.done == ["publish frazil_stage_w1_2"]


def test_every_table_of_a_group_is_judged_before_the_first_one_is_published() -> None:
    table = view(BASE, STAGED, head=1, branches=BRANCH)
    lake = LakeOfTables(orders=table, refunds=table)

    published = lake.publish_all()

    assert lake.done[:3] == ["load lake.orders", "load lake.refunds", "publish lake.orders"]
    assert [each for each in lake.done if "publish" in each] == ["publish lake.orders", "publish lake.refunds"]
    assert [(each.identifier, each.head) for each in published] == [("lake.orders", 2), ("lake.refunds", 2)]


def test_a_table_of_a_group_that_was_rolled_back_keeps_the_first_one_from_being_published() -> None:
    earlier = snapshot(9, None, carries=state({0: progress(0, 5)}, epoch=2, batch_id="batch2"))
    rolled_back = view(earlier, replace(BASE, parent_id=9), STAGED, head=9, branches=BRANCH)
    lake = LakeOfTables(orders=view(BASE, STAGED, head=1, branches=BRANCH), refunds=rolled_back)

    with pytest.raises(OvertakenError):
        lake.publish_all()

    assert not [each for each in lake.done if "publish" in each]


def test_a_wrong_count_in_a_table_of_a_group_keeps_the_first_one_from_being_published() -> None:
    wrong = view(BASE, replace(STAGED, summary={**STAGED.summary, "added-records": "3"}), head=1, branches=BRANCH)
    lake = LakeOfTables(orders=view(BASE, STAGED, head=1, branches=BRANCH), refunds=wrong)

    with pytest.raises(CountMismatchError, match=r"^lake\.refunds: batch batch4 was staged with 3 added-records"):
        lake.publish_all()

    assert not [each for each in lake.done if "publish" in each]


class LakeThatGoesDown(LakeThatNotes):
    """The catalog answers once."""

    def load(self, identifier: str) -> TableView:
        if self.done:
            raise CatalogError("the catalog does not answer", hint="")
        found = super().load(identifier)
        self.done.append(f"load {identifier}")
        return found


def test_a_wrong_count_is_reported_even_if_its_branch_cannot_be_dropped() -> None:
    wrong = view(BASE, replace(STAGED, summary={**STAGED.summary, "added-records": "3"}), head=1, branches=BRANCH)

    with pytest.raises(CountMismatchError):
        publish(cast(Lake, LakeThatGoesDown(before=wrong)), [Share(PLAN, staged_with(2), stage_on=lambda _: ATTEMPT)])


def test_a_publish_drops_the_branches_of_every_attempt_and_no_other() -> None:
    branches = {"frazil_stage_w1_1": 2, "frazil_stage_w2_5": 2, "audit": 1}

    assert set(stage_branches(view(BASE, STAGED, head=1, branches=branches))) == {
        "frazil_stage_w1_1",
        "frazil_stage_w2_5",
    }
