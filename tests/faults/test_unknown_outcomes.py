"""A commit without an answer: it landed, it never will, or it lands after the client gave up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import pytest
from pyiceberg.exceptions import CommitFailedException

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.branches import STAGE_PREFIX
from frazil.materialize.outcome import Published
from frazil.materialize.scheduling.schedule import Stopping, run_once
from frazil.model.errors import ContendedError, CountMismatchError, PausedError
from frazil.model.ingested import Deletion, WrittenFile
from frazil.model.remembered import PuffinFile
from frazil.model.snapshot import TableView
from tests.fakes.watched_lake import Commit, WatchedLake
from tests.faults.test_killed import BATCH, CREATING, add_column
from tests.faults.world import World, assert_exactly_once
from tests.faults.write_modes import in_every_mode
from tests.sampling import CATALOGS, combined, sampled

FATES = ["landed", "never lands", "lands before the next commit", "lands after the run"]
COMMITS = [*BATCH, "dead letters drop_branches", "rows change_schema"]
ON_JDBC = [("jdbc", *case) for case in combined(COMMITS, FATES)]

UNANSWERED = sampled(
    product(CATALOGS, COMMITS, FATES),
    keep=lambda case: (case[0] in ("jdbc", "glue") and case[1] == "rows publish") or case in ON_JDBC,
)
UNANSWERED_AT_FIRST = sampled(
    product(CATALOGS, CREATING, ["landed", "never lands"]),
    keep=lambda case: case[0] == "jdbc" or case[1:] == ("rows create", "landed"),
)


@dataclass(slots=True)
class NoAnswer:
    """Answers the first commit of a name with an error, whether or not it lands."""

    name: str
    fate: str
    late: list[Commit] = field(default_factory=list)
    met: bool = False

    def __call__(self, name: str, commit: Commit) -> object:
        if name == self.name and not self.met:
            self.met = True
            if self.fate == "landed":
                commit()
            else:
                self.late.append(commit)
            raise TimeoutError("no answer")
        if self.fate == "lands before the next commit":
            self.land()
        return commit()

    def land(self) -> None:
        """The catalog carries out what it was asked long ago, if it still can."""
        while self.late:
            commit = self.late.pop()
            try:
                commit()
            except Exception as refused:
                print(f"{self.name} was refused: {refused}")


@pytest.mark.parametrize(("catalog", "commit", "fate"), UNANSWERED, indirect=["catalog"])
def test_a_commit_without_an_answer_is_decided_by_the_table(world: World, commit: str, fate: str) -> None:
    world.produce(6)
    world.catch_up()
    for_the_commit(world, commit)
    world.produce(6)
    fault = NoAnswer(commit, fate)
    run = world.run(lake=WatchedLake(world.setting.catalog, around=fault))

    assert isinstance(run.batch(), Published)
    if fate == "lands after the run":
        fault.land()

    assert fault.met
    world.produce(6)
    world.catch_up()
    assert_exactly_once(world)


@in_every_mode
def test_a_commit_that_landed_and_whose_repeat_was_refused_is_decided_by_the_table(local_world: World) -> None:
    """As Glue's client does: no answer to a request that landed, the same request again, and a conflict."""
    local_world.produce(6)
    local_world.catch_up()

    for name in [*BATCH, "dead letters drop_branches", "rows change_schema"]:
        for_the_commit(local_world, name)
        local_world.produce(6)
        met: list[str] = []

        def answered_twice(here: str, commit: Commit, name: str = name, met: list[str] = met) -> object:
            answer = commit()
            if here == name and not met:
                met.append(here)
                raise CommitFailedException("the version of the table has changed")
            return answer

        run = local_world.run(lake=WatchedLake(local_world.setting.catalog, around=answered_twice))
        assert isinstance(run.batch(), Published), name
        assert met == [name]

    local_world.catch_up()
    assert_exactly_once(local_world)


def for_the_commit(world: World, commit: str) -> None:
    """See that the next batch has a reason for it."""
    if commit == "dead letters drop_branches":
        world.produce(2)
        leave_prepared(world)
    if commit == "rows change_schema":
        add_column(world, 0)


def leave_prepared(world: World) -> None:
    class DiedError(Exception):
        pass

    def die(when: str, step: str) -> None:
        if (when, step) == ("after", "prepare"):
            raise DiedError

    with pytest.raises(DiedError):
        world.run(die).batch()


@pytest.mark.parametrize(("catalog", "commit", "fate"), UNANSWERED_AT_FIRST, indirect=["catalog"])
def test_a_creation_without_an_answer_is_tried_again(world: World, commit: str, fate: str) -> None:
    world.produce(6)
    fault = NoAnswer(commit, fate)

    reports = run_once([world.run(lake=WatchedLake(world.setting.catalog, around=fault))], Stopping())

    assert [report.failure for report in reports] == [None]
    assert fault.met
    assert_exactly_once(world)


def test_a_table_that_never_stops_moving_ends_the_batch_with_nothing_published(world: World) -> None:
    world.produce(6)
    world.catch_up()
    world.produce(6)

    def overtaken(name: str, commit: Commit) -> object:
        if name == "rows publish":
            world.insert()
        return commit()

    with pytest.raises(ContendedError):
        world.run(lake=WatchedLake(world.setting.catalog, around=overtaken)).batch()

    assert world.standing().state.epoch == 1
    world.catch_up()
    assert_exactly_once(world)


class ForgetfulLake(IcebergLake):
    """Stages the last file twice over, or not at all, and says nothing."""

    def __init__(self, world: World, copies: int) -> None:
        super().__init__(world.setting.catalog)
        self._copies = copies

    def stage(
        self,
        view: TableView,
        *,
        base: int,
        branch: str,
        files: Sequence[WrittenFile],
        summary: Mapping[str, str],
        document: bytes = b"",
        without: str | None = None,
        deletes: Sequence[Deletion] = (),
        statistics: PuffinFile | None = None,
    ) -> int:
        if branch.startswith(STAGE_PREFIX):
            copies = [replace(files[-1], path=f"{files[-1].path}{'?' * n}") for n in range(self._copies)]
            files = [*files[:-1], *copies]
        return super().stage(
            view,
            base=base,
            branch=branch,
            files=files,
            summary=summary,
            document=document,
            without=without,
            deletes=deletes,
            statistics=statistics,
        )


@pytest.mark.parametrize("copies", [0, 2], ids=["a file is missing", "a file stands twice"])
def test_what_is_not_what_the_tasks_returned_is_dropped_and_pauses_the_table(world: World, copies: int) -> None:
    world.produce(6)
    world.catch_up()
    world.produce(6, keys=6)  # other keys, so that the batch has a file in every write mode

    with pytest.raises(CountMismatchError):
        world.run(lake=ForgetfulLake(world, copies)).batch()

    at = world.standing()
    assert (at.state.epoch, set(at.view.branches)) == (1, {"main"})
    with pytest.raises(PausedError):
        world.run().batch()
    world.lake.set_properties(world.spec.identifier, put={}, remove=["frazil.paused"])
    world.catch_up()
    assert_exactly_once(world)
