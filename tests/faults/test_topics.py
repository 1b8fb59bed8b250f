"""The topic is not what it was: re-created, cut short, grown, written in transactions, compacted."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType

from frazil.local.supervisor import LocalServices
from frazil.materialize.outcome import Again, Published
from frazil.model.errors import BrokerError, RecordsLostError, SourceChangedError
from frazil.model.plan import NothingToDo, PartitionFacts, TopicFacts
from frazil.model.spec import Start, WriteMode
from tests.faults.moments import Moment, at
from tests.faults.world import (
    WAIT_SECONDS,
    World,
    admin_of,
    assert_exactly_once,
    jdbc_catalog,
    new_world,
    producer_of,
    topics_of,
    until_caught_up,
    with_mode,
    with_trigger,
)
from tests.faults.write_modes import in_every_mode
from tests.made_topics import make_topic
from tests.reader_paths import on_both_readers

UNREAD: list[Moment] = [("before", "create"), ("after", "repartition"), ("after", "plan"), ("before", "ingest")]


class TopicsThatSay:
    """What the broker says, altered (`ports.Topics`)."""

    def __init__(self, world: World, alter: Callable[[TopicFacts], TopicFacts]) -> None:
        self._topics = topics_of(world.setting.services)
        self._alter = alter

    def describe(self, topic: str) -> TopicFacts | None:
        facts = self._topics.describe(topic)
        return None if facts is None else self._alter(facts)

    def names(self) -> Collection[str]:
        return self._topics.names()

    def first_offsets(self, facts: TopicFacts, start: Start) -> Mapping[int, int]:
        return self._topics.first_offsets(facts, start)


def each_partition(change: Callable[[PartitionFacts], PartitionFacts]) -> Callable[[TopicFacts], TopicFacts]:
    return lambda facts: replace(facts, partitions={n: change(p) for n, p in facts.partitions.items()})


@pytest.mark.parametrize(
    ("alter", "expected", "words"),
    [
        (lambda facts: replace(facts, topic_id="another"), SourceChangedError, "re-created"),
        (each_partition(lambda p: replace(p, leader_epoch=-5)), SourceChangedError, "leader epoch"),
        (each_partition(lambda p: replace(p, end=p.earliest)), SourceChangedError, "but ends at"),
        (each_partition(lambda p: replace(p, earliest=p.end)), RecordsLostError, "retention overtook"),
        (lambda facts: replace(facts, partitions={0: facts.partitions[0]}), SourceChangedError, "no longer exists"),
    ],
    ids=["another topic id", "a lower leader epoch", "a shorter log", "a later beginning", "a partition less"],
)
def test_a_topic_that_is_not_the_one_that_was_read_halts_the_table(
    local_world: World, alter: Callable[[TopicFacts], TopicFacts], expected: type[Exception], words: str
) -> None:
    local_world.produce(6)
    local_world.catch_up()
    local_world.produce(6)

    with pytest.raises(expected, match=words):
        local_world.run(topics=TopicsThatSay(local_world, alter)).batch()

    local_world.catch_up()
    assert_exactly_once(local_world)


def test_a_topic_that_was_made_again_under_its_name_is_not_read(local_world: World) -> None:
    local_world.produce(6)
    local_world.catch_up()
    recreate(local_world)
    before = local_world.known()
    local_world.produce(12)

    with pytest.raises(SourceChangedError, match="re-created"):
        local_world.run().batch()

    local_world.know(before)
    assert_exactly_once(local_world, against_kafka=False)


def test_a_topic_that_was_made_again_between_plan_and_read_is_not_read(local_world: World) -> None:
    nothing = local_world.known()
    local_world.produce(6)

    def make_again() -> None:
        recreate(local_world)
        local_world.produce(6)

    assert isinstance(local_world.run(at(("after", "plan"), make_again)).batch(), Again)

    with pytest.raises(SourceChangedError, match="re-created"):
        local_world.run().batch()
    local_world.know(nothing)
    assert_exactly_once(local_world, against_kafka=False)


def recreate(world: World) -> None:
    services = world.setting.services
    admin_of(services).delete_topics([world.topic])[world.topic].result(WAIT_SECONDS)
    wait_until(lambda: topics_of(services).describe(world.topic) is None)
    make_topic(admin_of(services), world.topic, 2, {})
    wait_until(lambda: topics_of(services).describe(world.topic) is not None)


def test_retention_that_overtakes_the_reader_halts_the_table(local_world: World) -> None:
    local_world.produce(6)
    local_world.catch_up()
    before = local_world.known()
    local_world.produce(6)
    delete_records(local_world, 5)

    for _ in range(2):
        with pytest.raises(RecordsLostError, match="2 offsets are gone"):
            local_world.run().batch()

    local_world.know(before)
    assert_exactly_once(local_world)


@on_both_readers
@pytest.mark.parametrize("moment", UNREAD, ids=" ".join)
def test_retention_that_overtakes_the_reader_on_its_way_halts_the_table(local_world: World, moment: Moment) -> None:
    local_world.produce(6)
    local_world.catch_up()
    before = local_world.known()
    local_world.produce(6)

    with pytest.raises(RecordsLostError):
        local_world.run(at(moment, lambda: delete_records(local_world, 5))).batch()

    local_world.know(before)
    assert_exactly_once(local_world)


@pytest.mark.parametrize("moment", [("before", "create"), ("after", "plan")], ids=" ".join)
def test_retention_before_the_first_batch_only_moves_the_beginning(local_world: World, moment: Moment) -> None:
    local_world.run().create()
    local_world.produce(12)

    local_world.catch_up(local_world.run(at(moment, lambda: delete_records(local_world, 2))))

    for place in [(p, o) for p in (0, 1) for o in (0, 1)]:
        for known in (local_world.rows, local_world.tombstones, local_world.bad):
            known.pop(place, None)
    assert_exactly_once(local_world)
    assert {p.origin for p in local_world.standing().state.sources[0].partitions.values()} == {2}


@in_every_mode
def test_retention_of_what_was_read_takes_nothing_from_the_table(local_world: World) -> None:
    local_world.produce(6)
    local_world.catch_up()
    delete_records(local_world, 3)
    local_world.produce(6)

    local_world.catch_up()

    assert_exactly_once(local_world)


@pytest.mark.parametrize("moment", [*UNREAD, ("before", "publish"), ("after", "announce")], ids=" ".join)
def test_new_partitions_are_read_from_their_first_record(local_world: World, moment: Moment) -> None:
    local_world.produce(6)

    def grow() -> None:
        services = local_world.setting.services
        admin_of(services).create_partitions([NewPartitions(local_world.topic, 4)])[local_world.topic].result(
            WAIT_SECONDS
        )
        wait_until(lambda: len(known_partitions(local_world)) == 4)
        local_world.produce(8, partitions=(0, 1, 2, 3), producer=producer_of(services))

    local_world.catch_up(local_world.run(at(moment, grow)))

    assert set(local_world.standing().state.sources[0].partitions) == {0, 1, 2, 3}
    assert_exactly_once(local_world)


@in_every_mode
@on_both_readers
def test_aborted_records_never_appear_and_open_ones_wait_for_their_end(world: World) -> None:
    writer, other = transactional(world), transactional(world)
    in_transaction(world, writer, 3, counts=True)
    in_transaction(world, writer, 3, counts=False)
    in_transaction(world, writer, 2, counts=True)
    seen = dict(world.rows)
    other.begin_transaction()
    send(world, other, 2, counts=True)
    in_transaction(world, writer, 2, counts=True)

    later, world.rows = world.rows, seen
    run = world.catch_up()
    assert_exactly_once(world)
    assert world.standing().state.complete_through is None, "an open transaction holds it back"
    other.commit_transaction(WAIT_SECONDS)
    wait_until(lambda: not isinstance(run.batch(), NothingToDo))
    world.rows = later
    world.catch_up(run)

    assert_exactly_once(world)
    state = world.standing().state
    assert state.total().read < sum(p.next - p.origin for p in state.sources[0].partitions.values())
    assert (state.complete_through is None, state.observations) == (False, ())


@on_both_readers
def test_a_batch_of_aborted_records_only_moves_the_offsets(local_world: World) -> None:
    in_transaction(local_world, transactional(local_world), 6, counts=False)

    outcomes = until_caught_up(local_world.run())

    receipts = [outcome.receipt for outcome in outcomes if isinstance(outcome, Published)]
    assert [(each.counts.read, sum(r.gaps for r in each.ranges)) for each in receipts] == [(0, 6), (0, 2)]
    assert {p.next for p in local_world.standing().state.sources[0].partitions.values()} == {4}
    assert_exactly_once(local_world)


@on_both_readers
@pytest.mark.parametrize("moment", [("before", "create"), ("after", "plan")], ids=" ".join)
def test_offsets_that_compaction_took_are_gaps_and_not_losses(
    quick_cleaner: LocalServices, tmp_path_factory: pytest.TempPathFactory, moment: Moment, write: WriteMode
) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "50",
        "min.cleanable.dirty.ratio": "0.001",
        "min.compaction.lag.ms": "0",
        "max.compaction.lag.ms": "1",
    }
    catalog = jdbc_catalog(tmp_path_factory.mktemp("compacted"))
    fresh = new_world(quick_cleaner, catalog, partitions=1, **{name.replace(".", "_"): v for name, v in config.items()})
    world = with_mode(with_trigger(fresh, rows=1000), write)
    for _ in range(4):
        world.produce(6, partitions=(0,), keys=3)
        time.sleep(0.1)
    produced = len(world.rows) + len(world.tombstones) + len(world.bad)

    run = world.run(at(moment, lambda: wait_until(lambda: keep_what_is_there(world) < produced)))
    world.catch_up(run)

    keep_only(world, offsets_of(world))
    assert_exactly_once(world)
    state = world.standing().state.sources[0].partitions[0]
    assert state.counts.read < state.next - state.origin


@pytest.fixture
def quick_cleaner(services: LocalServices) -> Iterator[LocalServices]:
    """The broker's log cleaner looks every 100 ms; by itself it sleeps for 15 s."""
    with broker_config(services, "log.cleaner.backoff.ms", "100"):
        yield services


@contextmanager
def broker_config(services: LocalServices, name: str, value: str) -> Iterator[None]:
    def alter(op: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, value, incremental_operation=op)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        admin_of(services).incremental_alter_configs([resource])[resource].result(WAIT_SECONDS)

    alter(AlterConfigOpType.SET)
    try:
        yield
    finally:
        alter(AlterConfigOpType.DELETE)


def keep_what_is_there(world: World) -> int:
    return len(offsets_of(world))


def keep_only(world: World, offsets: set[int]) -> None:
    world.rows = {place: n for place, n in world.rows.items() if place[1] in offsets}
    world.bad = {place: n for place, n in world.bad.items() if place[1] in offsets}
    world.tombstones = {place: n for place, n in world.tombstones.items() if place[1] in offsets}


def offsets_of(world: World) -> set[int]:
    """The offsets in partition 0 that still have a record, as a plain consumer reads them."""
    consumer = Consumer(
        {
            **world.setting.kafka,
            "group.id": "looks",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(world.topic, 0, 0)])
    found: set[int] = set()
    try:
        while True:
            record = consumer.poll(WAIT_SECONDS)
            assert record is not None
            if record.error() is not None:
                return found
            found.add(int(record.offset() or 0))
    finally:
        consumer.close()


def delete_records(world: World, before: int) -> None:
    asked = [TopicPartition(world.topic, n, before) for n in (0, 1)]
    for future in admin_of(world.setting.services).delete_records(asked).values():
        future.result(WAIT_SECONDS)


def known_partitions(world: World) -> Mapping[int, PartitionFacts]:
    facts = topics_of(world.setting.services).describe(world.topic)
    return {} if facts is None else facts.partitions


def transactional(world: World) -> Producer:
    producer = producer_of(world.setting.services, **{"transactional.id": f"{world.topic}-{time.monotonic_ns()}"})
    producer.init_transactions(WAIT_SECONDS)
    return producer


def in_transaction(world: World, producer: Producer, count: int, *, counts: bool) -> None:
    producer.begin_transaction()
    send(world, producer, count, counts=counts)
    if counts:
        producer.commit_transaction(WAIT_SECONDS)
    else:
        producer.abort_transaction(WAIT_SECONDS)


def send(world: World, producer: Producer, count: int, *, counts: bool) -> None:
    world.rows, world.bad = dict(world.rows), dict(world.bad)
    for index in range(count):
        world.send(producer, index % 2, counts=counts)
    assert producer.flush(WAIT_SECONDS) == 0


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not _answered(true):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def _answered(true: Callable[[], bool]) -> bool:
    """Retry while the broker, just after a change, answers that it is not the leader."""
    try:
        return true()
    except BrokerError:
        return False
