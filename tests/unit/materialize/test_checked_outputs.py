"""What `frazil check` finds about output topics before anything is made or sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from output_worlds import TOPIC, OutputWorld

from frazil.model.errors import BrokerError, FrazilError, OutputHaltedError, OutputSchemaError, TopicMissingError
from frazil.model.outputs import OutputSpec

PLAIN = OutputSpec(TOPIC, TOPIC, key=("kafka_key",))


def of(folder: Path, output: OutputSpec = PLAIN, *, made: bool) -> OutputWorld:
    world = OutputWorld.at(folder, output)
    if made:
        world.produce(2)
        world.drain()
    return world


@pytest.mark.parametrize("made", [False, True], ids=["new table", "table"])
def test_an_output_that_can_be_sent_has_no_problems(tmp_path: Path, *, made: bool) -> None:
    world = of(tmp_path, made=made)
    known = dict(world.schemas.texts)

    assert world.check() == []
    assert world.schemas.texts == known, "a check registers nothing"


def missing(world: OutputWorld) -> None:
    world.cluster.partitions_of.clear()


def forbidden(world: OutputWorld) -> None:
    world.cluster.forbidden.add(TOPIC)


def refused(world: OutputWorld) -> None:
    world.schemas.refused.add(f"{TOPIC}-value")


def nothing(world: OutputWorld) -> None:
    del world


@pytest.mark.parametrize("made", [False, True], ids=["new table", "table"])
@pytest.mark.parametrize(
    ("output", "happens", "kind", "says"),
    [
        (PLAIN, missing, TopicMissingError, TOPIC),
        (PLAIN, forbidden, BrokerError, "does not allow"),
        (PLAIN, refused, OutputSchemaError, "incompatible"),
        (OutputSpec(TOPIC, TOPIC, shards=5), nothing, OutputHaltedError, "5 shards"),
        (OutputSpec(TOPIC, TOPIC, columns=("m",)), nothing, OutputSchemaError, "needs the columns m, which the table"),
        (OutputSpec(TOPIC, TOPIC, key=("m",)), nothing, OutputSchemaError, "needs the columns m, which the table"),
    ],
    ids=["no topic", "no permission", "schema", "shards", "column", "key"],
)
def test_what_would_keep_it_from_being_sent_is_told(
    tmp_path: Path,
    output: OutputSpec,
    happens: Callable[[OutputWorld], None],
    kind: type[FrazilError],
    says: str,
    *,
    made: bool,
) -> None:
    world = of(tmp_path, output, made=made)
    happens(world)

    (problem,) = world.check()

    assert isinstance(problem, kind)
    assert says in problem.what


def test_a_cluster_that_does_not_answer_hides_no_other_problem(tmp_path: Path) -> None:
    world = of(tmp_path, OutputSpec(TOPIC, TOPIC, columns=("m",)), made=False)
    missing(world)

    assert {type(problem) for problem in world.check()} == {TopicMissingError, OutputSchemaError}
