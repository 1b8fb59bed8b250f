"""Bringing a Delta log to a table's head, and the tags that keep its files, while others commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from delta_tables import file, view

from frazil.materialize.readers.delta import announce_delta
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.delta import (
    DELTA_TAG,
    NEXT_DELTA_TAG,
    Announced,
    LogFailed,
    LogIsCurrent,
    LogWritten,
    TableFiles,
    Withheld,
)
from frazil.model.errors import CatalogError, CommitRejectedError, CommitUnknownError
from frazil.model.snapshot import TableView
from frazil.ports import Lake
from tests.fakes.delta_logs_in_memory import DeltaLogsInMemory

FILES = {1: TableFiles((file("a"),)), 2: TableFiles((file("a"), file("b"))), 3: TableFiles((file("c"),))}


@dataclass
class OneTable:
    """The lake's part. `before_move` is called before tags are moved: another process, or a fault."""

    now: TableView
    history: list[str] = field(default_factory=list)
    before_move: Iterator[Callable[[], object]] = field(default_factory=lambda: iter(()))

    def load(self, identifier: str) -> TableView:
        assert identifier == self.now.identifier
        return self.now

    def move_tags(self, seen: TableView, *, put: Mapping[str, int], drop: Sequence[str] = ()) -> None:
        next(self.before_move, lambda: None)()
        if any(seen.tags.get(name) != self.now.tags.get(name) for name in (*put, *drop)):
            raise CommitRejectedError("moved meanwhile")
        assert all(snapshot_id in self.now.snapshots for snapshot_id in put.values())
        self.tag({**self.now.tags, **put}, without=drop)
        self.history.append(f"tags {dict(sorted(self.now.tags.items()))}")

    def tag(self, tags: Mapping[str, int], *, without: Sequence[str] = ()) -> None:
        self.now = replace(self.now, tags={name: at for name, at in tags.items() if name not in without})


@dataclass
class World:
    table: OneTable
    logs: DeltaLogsInMemory

    def announce(self) -> Announced | None:
        return announce_delta(cast(Lake, self.table), lambda: self.logs, self.table.now)

    def comes_to(self, *operations: str, **tags: int) -> None:
        self.table.now = replace(view(*operations), tags={**self.table.now.tags, **tags})

    @property
    def stands_for(self) -> list[int | None]:
        return [log.snapshot_id for log in self.logs.versions.get(self.table.now.location, [])]


@pytest.fixture
def world() -> World:
    table = OneTable(replace(view("append"), tags={CHECKPOINT_TAG: 1}))
    logs = DeltaLogsInMemory(FILES)
    logs.before_write = lambda: table.history.append("write")
    return World(table, logs)


def test_the_tag_moves_after_the_write(world: World) -> None:
    first = world.announce()
    world.comes_to("append", "append", frazil_checkpoint=2)
    second = world.announce()

    assert (first, second) == (LogWritten(0, 1), LogWritten(1, 2))
    assert world.table.history == [
        "write",
        f"tags { {CHECKPOINT_TAG: 1, DELTA_TAG: 1} }",
        "write",
        f"tags { {CHECKPOINT_TAG: 2, DELTA_TAG: 2} }",
    ]


def test_a_head_of_others_is_held_by_a_tag_before_it_is_written(world: World) -> None:
    world.announce()
    world.comes_to("append", "append", "overwrite")
    world.table.history.clear()

    world.announce()

    assert world.table.history == [
        f"tags { {CHECKPOINT_TAG: 1, DELTA_TAG: 1, NEXT_DELTA_TAG: 3} }",
        "write",
        f"tags { {CHECKPOINT_TAG: 1, DELTA_TAG: 3} }",
    ]


def test_nothing_is_written_or_moved_twice(world: World) -> None:
    world.announce()
    world.table.history.clear()

    assert world.announce() == LogIsCurrent(0, 1)
    assert world.table.history == []


@pytest.mark.parametrize("left", [{}, {DELTA_TAG: 1, NEXT_DELTA_TAG: 2}], ids=["no tag", "before its move"])
def test_tags_that_a_dead_run_left_are_put_right(world: World, left: dict[str, int]) -> None:
    world.comes_to("append", "append")
    world.announce()
    world.table.tag({CHECKPOINT_TAG: 1, **left})

    assert world.announce() == LogIsCurrent(0, 2)
    assert world.table.now.tags == {CHECKPOINT_TAG: 1, DELTA_TAG: 2}


def test_what_is_withheld_leaves_log_and_tag_with_the_older_snapshot(world: World) -> None:
    world.announce()
    world.comes_to("append", "delete", frazil_checkpoint=1)
    world.logs.of_snapshots = {2: replace(FILES[2], position_deletes=1)}

    withheld = world.announce()

    assert isinstance(withheld, Withheld)
    assert world.stands_for == [1]
    assert world.table.now.tags[DELTA_TAG] == 1


def test_a_faster_process_with_the_same_snapshot_counts_as_written(world: World) -> None:
    other = DeltaLogsInMemory(FILES, world.logs.versions)
    world.logs.before_write = lambda: announce_delta(cast(Lake, world.table), lambda: other, world.table.now) and None

    assert world.announce() == LogWritten(0, 1)
    assert world.stands_for == [1]


def test_a_slow_process_does_not_take_the_log_back(world: World) -> None:
    """It was left standing after its publish; another has published and announced the next batch since."""
    old = world.table.now
    world.comes_to("append", "append", frazil_checkpoint=2)
    world.announce()

    assert announce_delta(cast(Lake, world.table), lambda: world.logs, old) == LogIsCurrent(0, 2)
    assert world.stands_for == [2]


def test_a_slow_process_does_not_take_the_tag_back(world: World) -> None:
    def another_goes_on() -> None:
        world.comes_to("append", "append", frazil_checkpoint=2)
        world.announce()

    world.table.before_move = iter([another_goes_on])

    assert world.announce() == LogWritten(0, 1)
    assert (world.stands_for, world.table.now.tags[DELTA_TAG]) == ([1, 2], 2)


def test_a_commit_in_between_that_is_about_something_else_is_no_reason_to_stop(world: World) -> None:
    def refused_once() -> None:
        raise CommitRejectedError("another process set a property")

    world.table.before_move = iter([refused_once])

    assert world.announce() == LogWritten(0, 1)
    assert world.table.now.tags[DELTA_TAG] == 1


@pytest.mark.parametrize(
    "fault",
    [CatalogError("the storage is down", hint="wait"), CommitRejectedError("lost"), ZeroDivisionError("oops")],
    ids=lambda fault: type(fault).__name__,
)
def test_a_failure_is_a_value_and_the_next_run_mends_it(world: World, fault: Exception) -> None:
    def fails() -> None:
        raise fault

    world.logs.before_write = fails
    failed = world.announce()
    world.logs.before_write = lambda: None

    assert isinstance(failed, LogFailed)
    assert failed.hint
    assert world.announce() == LogWritten(0, 1)


def test_an_answer_that_is_lost_when_the_tag_moves_leaves_that_to_the_next_run(world: World) -> None:
    def lost() -> None:
        raise CommitUnknownError("no answer")

    world.table.before_move = iter([lost])

    assert world.announce() == LogWritten(0, 1)
    assert DELTA_TAG not in world.table.now.tags
    assert world.announce() == LogIsCurrent(0, 1)
    assert world.table.now.tags[DELTA_TAG] == 1


def test_a_library_that_cannot_be_loaded_is_a_failure_of_the_log_alone(world: World) -> None:
    def missing() -> Any:
        raise ImportError("no module named deltalake")

    assert isinstance(announce_delta(cast(Lake, world.table), missing, world.table.now), LogFailed)
