"""Shapes of one topic, rebuilds and rewinds, in processes that are killed inside their commits and between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path

import pytest

from frazil.materialize.rebuild.rewind import Target, ToEarliest
from frazil.materialize.state import standing
from frazil.model.routes import Group, Route
from frazil.verify.group import verify_together
from tests.faults.test_histories import History
from tests.faults.test_killed import drivers, inside
from tests.faults.world import World, kafka_side
from tests.sampling import sampled

TABLES = ("log", "now", "history")
OF_BATCHES = sampled(
    [
        *("written rows create", "committed rows create", "committed rows create"),
        "before stage",
        "during search",
        "during update",
        *inside(["rows stage", "rows stage 2", "rows stage 3", "rows publish", "rows publish 2", "rows publish 3"]),
        "during rewrite",
    ],
    keep=lambda moment: moment.startswith(("committed rows create", "during update", "committed rows publish")),
)
OF_REBUILDS = sampled(
    [
        *("after create", "before stage", "after stage", "before publish", "after publish"),
        *inside(["rows stage", "rows stage 2", "rows take_rebuilt", "rows take_rebuilt 2"]),
        *inside(["dead letters stage", "dead letters publish"]),
    ],
    keep=("before publish", "committed rows stage", "committed rows take_rebuilt").__contains__,
)
"""What a rebuild commits to a branch has the moments of a batch; then it stages the end, and takes the branches."""


@dataclass
class Shapes(History):
    """A topic whose records change seven keys: a log of them, their present state and their history."""

    @classmethod
    def of_one_topic(cls, world: World) -> Shapes:
        shared = replace(world.spec, group=Group("lake", world.topic, tuple(map(Route, TABLES))))
        log, now, past = (replace(shared, table=table) for table in TABLES)
        now = replace(now, write="upsert", on_tombstone="delete")
        past = replace(past, write="history", on_tombstone="delete")
        return cls(replace(world, setting=replace(world.setting, spec=log, others=(now, past))))

    def rebuilding(self, target: Target | None = None) -> World:
        """Return the world whose drivers rebuild the tables, or rewind them to a target."""
        return replace(self.world, setting=replace(self.world.setting, rebuilds=True, target=target))

    def epochs(self) -> set[int]:
        """Return the epochs of the tables; that of one that is not there is 0."""
        setting, found = self.world.setting, set()
        for spec in (setting.spec, *setting.others):
            view = self.world.lake.load(spec.identifier)
            found.add(0 if view is None else standing(view, pipeline=spec.pipeline).state.epoch)
        return found

    def check(self) -> None:
        setting = self.world.setting
        log, now, past = (spec.identifier for spec in (setting.spec, *setting.others))
        assert len(self.world.scanned(log, "n")) == self.sent
        assert dict(self.world.scanned(now, "kafka_key", "n")) == self.current
        versions = self.world.scanned(past, "kafka_key", "n", "is_current")
        assert len(versions) == self.rows_sent
        assert {key: number for key, number, is_current in versions if is_current} == self.current
        proofs = verify_together(self.world.lake, (setting.spec, *setting.others), kafka=kafka_side(self.world))
        assert [str(finding) for proof in proofs for finding in proof.findings] == []


def test_killed_at_any_moment_all_shapes_have_every_record(local_world: World, tmp_path: Path) -> None:
    """The tables are at most one batch apart then, and get it before the next one is planned."""
    shapes, who = Shapes.of_one_topic(local_world), cycle(["group", "driver"])
    with drivers(shapes.world, tmp_path) as start:
        for moment in OF_BATCHES:
            shapes.change()
            assert start.run(next(who), moment) == "killed", moment
            assert len(shapes.epochs()) <= 2
            assert max(shapes.epochs()) - min(shapes.epochs()) <= 1
        assert start.run("none") == "done"

    shapes.check()


@pytest.mark.parametrize("target", sampled([None, ToEarliest()], keep=lambda target: target is None))
def test_a_rebuild_that_is_killed_goes_on_beside_a_driver(
    local_world: World, tmp_path: Path, target: Target | None
) -> None:
    """Readers have every record after each kill, as the driver left the tables or as they were rebuilt."""
    shapes, who = Shapes.of_one_topic(local_world), cycle(["group", "driver"])
    (tmp_path / "rebuilds").mkdir()
    with drivers(shapes.world, tmp_path) as start, drivers(shapes.rebuilding(target), tmp_path / "rebuilds") as rebuild:
        for moment in OF_REBUILDS:
            shapes.change()
            assert start.run("none") == "done"
            assert rebuild.run(next(who), moment) == "killed", moment
        assert start.run("none") == "done"
        shapes.check()
        assert rebuild.run("none") == "done"

    shapes.check()
