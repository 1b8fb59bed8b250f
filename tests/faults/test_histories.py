"""Tables with `write: history`, with drivers that are killed while rows are written anew, and at other moments."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path

import pytest

from frazil.verify.table import verify_table
from tests.faults.test_keyed import Changelog
from tests.faults.test_killed import drivers, inside
from tests.faults.world import World
from tests.sampling import sampled

MOMENTS = ("before stage", "during search", "during update", "before publish", *inside(["rows stage", "rows publish"]))


@dataclass
class History(Changelog):
    """A topic whose records change seven keys: `current` has the number of the row of each that is valid."""

    current: dict[str, int] = field(default_factory=dict)
    rows_sent: int = 0

    @classmethod
    def of(cls, world: World, *, order_by: str | None = None) -> History:
        spec = replace(world.spec, write="history", on_tombstone="delete", order_by=order_by)
        return cls(replace(world, setting=replace(world.setting, spec=spec)))

    def send(self, key: str, number: int | None, *, partition: int | None = None) -> None:
        super().send(key, number, partition=partition)
        self.current.pop(key, None)
        if number is not None:
            self.current[key] = number
            self.rows_sent += 1

    def check(self) -> None:
        found = self.world.scanned(self.world.spec.identifier, "kafka_key", "n", "is_current")
        proof = verify_table(self.world.lake, self.world.spec)
        assert proof.clean, [str(finding) for finding in proof.findings]
        assert len(found) == self.rows_sent
        assert {key: number for key, number, is_current in found if is_current} == self.current


@pytest.mark.parametrize("order_by", sampled([None, "kafka_timestamp"], keep=[None].__contains__))
def test_killed_at_any_moment_each_key_has_its_versions(
    local_world: World, tmp_path: Path, order_by: str | None
) -> None:
    history, who = History.of(local_world, order_by=order_by), cycle(["group", "driver"])
    with drivers(history.world, tmp_path) as start:
        for moment in MOMENTS:
            history.change()
            assert start.run(next(who), moment) == "killed", moment
        assert start.run("none") == "done"

    history.check()
