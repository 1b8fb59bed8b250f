"""The output topic of a table that follows keys has each row once as it becomes current, and then a tombstone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from output_worlds import ROWS_OF_A_BATCH, TOPIC, OutputWorld
from test_outputs import Broken, break_once

from frazil.maintain import rewriting
from frazil.model.errors import OutputHaltedError
from frazil.model.outputs import OutputSpec
from frazil.model.summary import is_rewrite
from tests.fakes.output_topics_in_memory import MOMENTS
from tests.sampling import examples

Change = tuple[str, int | None]
"""A key and a number; None deletes the key."""

CHANGES = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 9) | st.none()), max_size=8)


def keyed(folder: Path, *outputs: OutputSpec, **changes: Any) -> OutputWorld:
    made: dict[str, Any] = {"write": "upsert", "on_tombstone": "delete", "readers": ()}
    return OutputWorld.at(folder, *outputs, **(made | changes))


@pytest.fixture
def world(tmp_path: Path) -> OutputWorld:
    return keyed(tmp_path)


class Model:
    """What the topic should have, by batch: keys with the number of their row, or None for a tombstone."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.batches: list[dict[str, int | None]] = []

    def drain(self, changes: list[Change]) -> None:
        for start in range(0, len(changes), ROWS_OF_A_BATCH):
            before, batch = dict(self.rows), dict(changes[start : start + ROWS_OF_A_BATCH])
            self.rows = {key: n for key, n in (before | batch).items() if n is not None}
            self.batches.append({key: n for key, n in batch.items() if n is not None or key in before})


def sent(world: OutputWorld) -> list[Change]:
    return [((key or b"").decode(), None if value is None else value["n"]) for key, value in world.sent()]


def assert_sent(world: OutputWorld, model: Model) -> None:
    """In their order, the batches are in the topic, each of whose keys occurs once."""
    found, done = sent(world), 0
    for batch in model.batches:
        part = found[done : done + len(batch)]
        assert dict(part) == batch
        done += len(batch)
    assert len(found) == done


def test_current_rows_and_tombstones_are_sent(world: OutputWorld) -> None:
    world.write(("a", 1), ("b", 2), ("a", 3))
    world.drain()
    world.write(("b", None), ("c", 4), ("x", None))
    world.drain()

    assert sent(world) == [("b", 2), ("a", 3), ("c", 4), ("b", None)]
    assert world.sent()[0] == (b"b", {"n": 2, "symbol": "b"}), "the value has no columns of the identity"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(4, 200))
@given(st.lists(CHANGES, max_size=4))
def test_a_topic_follows_a_model_of_its_table(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[Change]]
) -> None:
    world, model = keyed(tmp_path_factory.mktemp("t")), Model()

    for changes in rounds:
        world.write(*changes)
        world.drain()
        model.drain(changes)

    assert_sent(world, model)


@pytest.mark.parametrize("moment", MOMENTS)
def test_broken_at_each_moment_rows_and_tombstones_are_sent_once(world: OutputWorld, moment: str) -> None:
    first: list[Change] = [("a", 1), ("b", 2), ("c", 3)]
    second: list[Change] = [("a", None), ("b", 4), ("d", 5)]
    model = Model()
    world.write(*first)
    world.drain()
    world.write(*second)
    world.cluster.reach = break_once(moment)

    with pytest.raises(Broken):
        world.drain()
    world.drain()

    model.drain(first + second)
    assert_sent(world, model)


def test_files_that_are_written_again_are_not_sent(world: OutputWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "WORTH_A_SNAPSHOT", 1)
    model = Model()
    for number in range(8):
        changes: list[Change] = [("a", number), (f"b{number % 3}", number), ("c", None if number % 2 else number)]
        world.write(*changes)
        world.drain()
        model.drain(changes)

    assert sum(map(is_rewrite, world.view.ancestry(world.view.head))) > 1
    assert_sent(world, model)


def test_a_row_that_was_deleted_before_is_no_tombstone_again(world: OutputWorld) -> None:
    """A file of deletes is replaced by one that names the same rows and more."""
    first: list[Change] = [("a", 1), ("b", 2), ("c", 3)]
    later: list[Change] = [("a", None), ("b", None), ("a", 4), ("c", 5)]
    model = Model()
    for changes in (first, *([change] for change in later)):
        world.write(*changes)
        world.drain()
        model.drain(changes)

    assert_sent(world, model)


def test_shards_divide_tombstones_as_they_divide_rows(tmp_path: Path) -> None:
    output = OutputSpec(TOPIC, TOPIC, key=("kafka_key",), shards=3)
    world = keyed(tmp_path, output)
    keys = [f"k{number}" for number in range(9)]
    world.write(*((key, 1) for key in keys))
    world.drain()
    world.write(*((key, None) for key in keys))
    world.drain()

    assert sorted(sent(world), key=str) == sorted(
        [*((key, 1) for key in keys), *((key, None) for key in keys)], key=str
    )


def test_a_table_without_duplicates_sends_its_rows_and_no_tombstones(tmp_path: Path) -> None:
    world = keyed(tmp_path, write="deduplicate", on_tombstone="row")
    world.write(("a", 1), ("a", 2), ("b", 3))
    world.drain()
    world.write(("b", 4), ("c", 5))
    world.drain()

    assert sent(world) == [("a", 1), ("b", 3), ("c", 5)]


def test_another_schema_of_the_key_halts(tmp_path: Path) -> None:
    output = OutputSpec(TOPIC, TOPIC, key=("symbol", "kafka_key"))
    world = keyed(tmp_path, output)
    world.write(("a", 1))
    world.drain()
    sent_before = world.sent()
    world.schemas.texts.clear()
    world.schemas.texts["other-value", "{}"] = 1
    world.write(("a", 2))

    run = world.drain()

    assert isinstance(run.output_failure, OutputHaltedError)
    assert "would not replace" in str(run.output_failure)
    assert len(sent_before) == len(world.cluster.committed[TOPIC]) == 1
