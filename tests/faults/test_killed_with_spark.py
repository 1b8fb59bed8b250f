"""As `test_killed`, with the real Spark: fewer moments, since each start costs seconds.

The last driver, of which only a worker dies, has a table that follows keys beside the other one.
"""

from __future__ import annotations

import signal
from pathlib import Path

from frazil.local.supervisor import LocalServices
from tests.faults.own_groups import OwnGroups
from tests.faults.spark_driver import IN_A_TASK
from tests.faults.test_histories import History
from tests.faults.world import World, assert_exactly_once, kafka_side, new_world, with_trigger
from tests.sampling import sampled

KILLED, DONE = -signal.SIGKILL, 0
TRIALS = sampled(
    [
        ("driver", IN_A_TASK, KILLED),
        ("group", IN_A_TASK, KILLED),
        ("driver", "after stage", KILLED),
        ("group", "before reveal", KILLED),
        ("worker", IN_A_TASK, DONE),
    ],
    keep=lambda trial: trial[1] in (IN_A_TASK, "before reveal"),
)
"""Who is killed, when, and how the driver ends."""


def test_killed_under_spark_each_record_is_there_once(
    local_world: World, services: LocalServices, tmp_path: Path, own_groups: OwnGroups
) -> None:
    history = History.of(with_trigger(new_world(services, local_world.setting.catalog), rows=6))
    history.change(18)
    for who, moment, end in TRIALS:
        local_world.produce(12)
        worlds = [local_world] if end == KILLED else [local_world, history.world]
        paths = ",".join(str(world.setting.save(tmp_path / world.topic)) for world in worlds)
        ended = own_groups.run("tests.faults.spark_driver", paths, tmp_path, who, moment)
        assert ended == end, own_groups.log.read_text()

    assert set((tmp_path / "tasks").read_text().split()) == {"run", "find", "update", "rewrite"}
    history.check()
    assert (tmp_path / "worker died").exists()
    assert written_files(local_world) > visible_files(local_world), "no task has left files behind"
    assert_exactly_once(local_world, kafka_side(local_world))


def written_files(world: World) -> int:
    location = world.table().location().removeprefix("file://")
    return len(list(Path(location).glob("data/**/*.parquet")))


def visible_files(world: World) -> int:
    return len(list(world.table().scan().plan_files()))
