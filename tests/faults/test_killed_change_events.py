"""Change events that the source's position orders, with drivers that are killed, overtaken and disturbed.

Changes of a key come late, and in any partition. The greatest position is the row of its key, whatever was a batch.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path

import pytest
from confluent_kafka import Message
from pyiceberg.expressions import EqualTo

from frazil.model.change_events import PLACEHOLDER, ChangeEvents
from frazil.model.errors import FencedError
from frazil.model.spec import FormatSettings
from frazil.verify.table import verify_table
from tests.fakes.connect_samples import json_value
from tests.fakes.debezium_samples import POSTGRES, Event, postgres
from tests.faults.moments import BOUNDARIES, Moment, at
from tests.faults.test_killed import drivers, inside
from tests.faults.world import WAIT_SECONDS, World, kafka_side, plain_producer
from tests.sampling import sampled

FIELDS = {"id": "long", "placed": "io.debezium.time.MicroTimestamp", "notes": "string", "day": "long"}
DISTURBED = sampled(BOUNDARIES, keep=[("before", "stage"), ("before", "publish")].__contains__)
MOMENTS = (
    *(" ".join(moment) for moment in DISTURBED),
    "during ingest",
    "during search",
    "during update",
    *inside(["rows stage", "rows publish"]),
)
KEPT = 100
"""A key whose changes come in order, in one partition: all but the first one lack its notes."""
Order = tuple[int, int, int]
"""A position in the database's log, a partition and an offset."""


@dataclass
class Changes:
    """A topic of changes of a few keys, and the newest change of each with its notes; None for one that deletes it."""

    world: World
    newest: dict[int, tuple[Order, str | None]] = field(default_factory=dict)
    sent: int = 0
    draw: random.Random = field(default_factory=lambda: random.Random(12))

    @classmethod
    def of(cls, world: World) -> Changes:
        events = ChangeEvents(connector="postgresql")
        spec = replace(
            world.spec,
            write="upsert",
            on_tombstone="skip",
            key="json",
            value="json",
            value_settings=FormatSettings(fields=json.dumps(FIELDS), change_events=events),
            key_settings=FormatSettings(of_change_events=True),
        )
        return cls(replace(world, setting=replace(world.setting, spec=spec)))

    def change(self, count: int = 6) -> None:
        """Send changes of any position, and one that lacks a value."""
        for _ in range(count):
            lsn, partition, key = self.draw.randint(1, 10_000), self.draw.randint(0, 1), self.draw.randint(1, 5)
            self.send(key, self.draw.choice("cuud"), lsn, partition)
        first = KEPT not in self.newest
        self.send(KEPT, "c" if first else "u", self.sent, 0, notes="kept" if first else PLACEHOLDER)

    def send(self, key: int, op: str, lsn: int, partition: int, *, notes: str | None = None) -> None:
        given = str(self.sent) if notes is None else notes
        image: Event = {"id": key, "placed": 0, "notes": given, "day": self.sent}
        event = postgres(op, lsn=lsn, **({"before": image} if op == "d" else {"after": image}))

        def delivered(error: object, message: Message) -> None:
            assert error is None, error
            order = (lsn, partition, message.offset() or 0)
            if key not in self.newest or order > self.newest[key][0]:
                self.newest[key] = (order, None if op == "d" else "kept" if key == KEPT else given)

        producer = plain_producer(self.world.setting.services)
        value = json.dumps({**json_value(POSTGRES, event), "before": event["before"], "after": event["after"]})
        producer.produce(self.world.topic, value, json.dumps({"id": key}), partition=partition, on_delivery=delivered)
        assert producer.flush(WAIT_SECONDS) == 0
        self.sent += 1

    def delete(self, key: int) -> None:
        """A user's DELETE of a row."""
        self.world.table().delete(EqualTo("id", key))
        self.newest.pop(key, None)

    def check(self, *, against_kafka: bool = True) -> None:
        columns = ("id", "notes", "__position_lsn", "kafka_partition", "kafka_offset")
        found = self.world.scanned(self.world.spec.identifier, *columns)
        newest = [(key, notes, *order) for key, (order, notes) in self.newest.items() if notes is not None]
        assert found == sorted(newest, key=repr)
        kafka = kafka_side(self.world) if against_kafka else None
        proof = verify_table(self.world.lake, self.world.spec, kafka=kafka)
        assert proof.clean, [str(finding) for finding in proof.findings]
        assert self.world.standing().state.total().read == self.sent


@pytest.fixture
def changes(local_world: World) -> Changes:
    return Changes.of(local_world)


def test_killed_at_every_moment_each_key_has_the_row_of_its_greatest_position(changes: Changes, tmp_path: Path) -> None:
    who = cycle(["group", "driver"])
    changes.change()
    with drivers(changes.world, tmp_path) as start:
        assert start.run("none") == "done"
        for moment in MOMENTS:
            changes.change()
            assert start.run(next(who), moment) == "killed", moment
        assert start.run("none") == "done"

    changes.check()
    remembered = changes.world.standing().state.remembered
    assert remembered is not None and remembered.count


def disturbed(changes: Changes, moment: Moment, act: Callable[[], object]) -> None:
    """Catch up with a batch in which something else happens at the moment."""
    for _ in range(2):
        changes.change()
        with suppress(FencedError):
            changes.world.catch_up(changes.world.run(at(moment, act)))
        changes.world.catch_up()


@pytest.mark.parametrize("moment", DISTURBED, ids=" ".join)
def test_another_driver_that_overtakes_leaves_the_greatest_position(changes: Changes, moment: Moment) -> None:
    changes.change()
    changes.world.catch_up()

    disturbed(changes, moment, changes.world.catch_up)

    changes.check()


@pytest.mark.parametrize("moment", DISTURBED, ids=" ".join)
def test_rows_that_a_user_deletes_meanwhile_stay_deleted(changes: Changes, moment: Moment) -> None:
    untouched = [8, 9]
    for key in untouched:
        changes.send(key, "c", 1, 0)
    changes.change()
    changes.world.catch_up()

    disturbed(changes, moment, lambda: changes.delete(untouched.pop()))

    changes.check(against_kafka=False)
