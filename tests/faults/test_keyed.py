"""Tables that follow keys, with drivers that are killed, overtaken, and disturbed by other engines at every moment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from time import sleep

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import NewPartitions
from pyiceberg.expressions import EqualTo

from frazil.materialize.added_partitions import note_on_order
from frazil.model.errors import FencedError, SourceChangedError
from frazil.verify.table import verify_table
from tests.faults.moments import BOUNDARIES, Moment, at
from tests.faults.test_killed import drivers, inside
from tests.faults.world import WAIT_SECONDS, Place, World, admin_of, framed, plain_producer, topics_of
from tests.sampling import sampled

KEYS = ["a", "bb", "c", "dd", "e", "ff", "g"]
"""Those of an odd length are in one partition, the others in another one."""
DISTURBED = sampled(BOUNDARIES, keep=[("before", "stage"), ("before", "publish"), ("before", "reveal")].__contains__)


@dataclass
class Changelog:
    """A topic whose records change and delete seven keys, each of them in one partition, and what is left of them."""

    world: World
    newest: dict[str, tuple[Place, int]] = field(default_factory=dict)
    sent: int = 0

    @classmethod
    def of(cls, world: World) -> Changelog:
        spec = replace(world.spec, write="upsert", on_tombstone="delete")
        return cls(replace(world, setting=replace(world.setting, spec=spec)))

    def change(self, count: int = 9) -> None:
        """Send records, of which every fourth deletes its key."""
        for _ in range(count):
            self.send(KEYS[self.sent * 3 % len(KEYS)], None if self.sent % 4 == 3 else self.sent)

    def send(self, key: str, number: int | None, *, partition: int | None = None) -> None:
        producer = plain_producer(self.world.setting.services)

        def delivered(error: object, message: Message) -> None:
            assert error is None, error
            self.newest.pop(key, None)
            if number is not None:
                self.newest[key] = ((message.partition() or 0, message.offset() or 0), number)

        value = None if number is None else framed(self.world.schema_id, number)
        where = len(key) % 2 if partition is None else partition
        producer.produce(self.world.topic, value, key.encode(), partition=where, on_delivery=delivered)
        assert producer.flush(WAIT_SECONDS) == 0
        self.sent += 1

    def delete(self, key: str) -> None:
        """A user's DELETE of a row."""
        self.world.table().delete(EqualTo("kafka_key", key))
        self.newest.pop(key, None)

    def rows(self) -> dict[str, tuple[Place, int]]:
        columns = ("kafka_key", "kafka_partition", "kafka_offset", "n")
        found = self.world.scanned(self.world.spec.identifier, *columns)
        rows = {key: ((partition, offset), number) for key, partition, offset, number in found}
        assert len(rows) == len(found), "a key has two rows"
        return rows  # type: ignore[return-value]

    def check(self) -> None:
        assert self.rows() == self.newest
        proof = verify_table(self.world.lake, self.world.spec)
        assert proof.clean, [str(finding) for finding in proof.findings]
        assert self.world.standing().state.total().read == self.sent


@pytest.fixture
def changelog(local_world: World) -> Changelog:
    return Changelog.of(local_world)


def test_killed_at_every_moment_each_key_has_the_row_of_its_newest_record(changelog: Changelog, tmp_path: Path) -> None:
    who = cycle(["group", "driver"])
    moments = [f"{when} {step}" for when, step in DISTURBED]
    with drivers(changelog.world, tmp_path) as start:
        for moment in (*moments, "during ingest", "during search", *inside(["rows stage", "rows publish"])):
            changelog.change()
            assert start.run(next(who), moment) == "killed", moment
        assert start.run("none") == "done"

    changelog.check()


@pytest.mark.parametrize("in_one_batch", [True, False], ids=["in one batch", "of a stored row"])
def test_a_key_in_two_partitions_stops_the_table(changelog: Changelog, *, in_one_batch: bool) -> None:
    changelog.send("a", 1, partition=0)
    if not in_one_batch:
        changelog.world.catch_up()
    changelog.send("a", 2, partition=1)

    with pytest.raises(SourceChangedError, match=r"1 key of .* has records in two partitions, such as partition 0 at"):
        changelog.world.catch_up()

    assert len(changelog.rows()) == (0 if in_one_batch else 1)


def test_timestamps_order_the_records_of_a_key_that_moves_to_an_added_partition(changelog: Changelog) -> None:
    changelog.send("a", 1)
    changelog.send("b", 1)
    changelog.world.catch_up()
    topic, admin = changelog.world.topic, admin_of(changelog.world.setting.services)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(WAIT_SECONDS)
    while len(topics_of(changelog.world.setting.services).describe(topic).partitions) < 3:  # type: ignore[union-attr]
        sleep(0.05)
    changelog.send("a", 2)
    plain_producer(changelog.world.setting.services).list_topics(topic, WAIT_SECONDS)  # it knows the former partitions

    changelog.send("a", 3, partition=2)
    changelog.send("b", None, partition=2)
    changelog.world.catch_up()

    changelog.check()
    note = note_on_order(changelog.world.spec, changelog.world.standing())
    assert note == "since partitions were added, kafka_timestamp orders the records of a key"


def disturbed(changelog: Changelog, moment: Moment, act: Callable[[], object]) -> None:
    """Catch up with a batch in which something else happens at the moment."""
    for _ in range(2):
        changelog.change()
        with suppress(FencedError):
            changelog.world.catch_up(changelog.world.run(at(moment, act)))
        changelog.world.catch_up()
    changelog.check()


@pytest.mark.parametrize("moment", DISTURBED, ids=" ".join)
def test_another_driver_that_overtakes_leaves_each_key_one_row(changelog: Changelog, moment: Moment) -> None:
    changelog.change()
    changelog.world.catch_up()

    disturbed(changelog, moment, changelog.world.catch_up)


@pytest.mark.parametrize("moment", DISTURBED, ids=" ".join)
def test_rows_that_a_user_deletes_meanwhile_stay_deleted(changelog: Changelog, moment: Moment) -> None:
    untouched = ["first", "second"]
    for key in untouched:
        changelog.send(key, 1)
    changelog.change()
    changelog.world.catch_up()

    disturbed(changelog, moment, lambda: changelog.delete(untouched.pop()))
