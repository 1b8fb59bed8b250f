"""An output topic has each row once for readers of committed records, with a real broker and registry."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from frazil.adapters.kafka import output_topics
from frazil.adapters.kafka.output_topics import KafkaOutputTopics
from frazil.adapters.output_schemas import RegistrySchemas
from frazil.local.supervisor import LocalServices
from frazil.materialize.scheduling.schedule import Stopping, run_once
from frazil.model.errors import BrokerError, FencedError, OutputSchemaError, TopicMissingError
from frazil.model.outputs import Marker, OutputSpec, ShardPlace
from frazil.outputs.ports import Encoded, ShardProducer
from tests.fakes.watched_outputs import MOMENTS, watched_outputs
from tests.faults.test_keyed import Changelog
from tests.faults.test_killed import drivers
from tests.faults.world import SCHEMA, WAIT_SECONDS, World, admin_of, jdbc_catalog, new_world, register, with_trigger
from tests.made_topics import make_topic

PARTITIONS = 3


def with_output(world: World, *, partitions: int = PARTITIONS, **changes: object) -> World:
    topic = f"{world.topic}.out"
    make_topic(admin_of(world.setting.services), topic, partitions, {})
    output = replace(OutputSpec(topic, topic, key=("kafka_key",)), **changes)  # type: ignore[arg-type]
    return replace(world, setting=replace(world.setting, spec=replace(world.spec, outputs=(output,))))


@pytest.fixture
def sending(services: LocalServices, tmp_path: Path) -> World:
    return with_output(with_trigger(new_world(services, jdbc_catalog(tmp_path / "warehouse")), rows=6))


def read_committed(world: World, *, partitions: int = PARTITIONS) -> list[tuple[int, bytes, int | None]]:
    """Partition, key and number of each record up to the first one of an open transaction, or to the topic's end.

    The number of a tombstone is None.
    """
    (output,) = world.spec.outputs
    settings = {"group.id": f"{output.topic}-reader", "isolation.level": "read_committed", "log_level": 0}
    settings |= {"enable.auto.commit": False, "enable.partition.eof": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**world.setting.kafka, **settings})  # type: ignore[dict-item]
    try:
        return [each for n in range(partitions) for each in _of_partition(consumer, output.topic, n)]
    finally:
        consumer.close()


def _of_partition(consumer: Consumer, topic: str, partition: int) -> Iterator[tuple[int, bytes, int | None]]:
    place = TopicPartition(topic, partition, 0)
    _, end = consumer.get_watermark_offsets(place, timeout=WAIT_SECONDS)
    consumer.assign([place])
    until = time.monotonic() + WAIT_SECONDS
    while consumer.position([place])[0].offset < end and time.monotonic() < until:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            value = message.value()
            yield partition, bytes(message.key() or b""), None if value is None else _number(bytes(value))
        elif consumer.position([place])[0].offset < 0 and end == 0:
            break


def _number(payload: bytes) -> int:
    """The long of an optional field, after the frame and the branch of the union."""
    raw, shift = 0, 0
    for byte in payload[6:]:
        raw |= (byte & 0x7F) << shift
        shift += 7
    assert payload[:1] == b"\0"
    assert payload[5] == 2
    return (raw >> 1) ^ -(raw & 1)


def assert_each_row_is_sent_once(world: World) -> None:
    assert sorted(numbers_of(world)) == sorted(world.rows.values())


def numbers_of(world: World) -> list[int]:
    return [number for _, _, number in read_committed(world) if number is not None]


def test_a_reader_of_committed_records_has_each_row_once(sending: World) -> None:
    sending.produce(20)
    sending.catch_up()
    sending.produce(5)
    sending.catch_up()

    found = read_committed(sending)

    assert sorted(numbers_of(sending)) == sorted(sending.rows.values())
    assert {key for _, key, _ in found} == {f"key-{n}".encode() for n in sending.rows.values()}


def test_killed_at_each_moment_each_row_is_sent_once(sending: World, tmp_path: Path) -> None:
    with drivers(sending, tmp_path) as start:
        for moment in ("before send", *MOMENTS, "after send"):
            sending.produce(6)
            assert start.run("driver", moment) == "killed", moment
        assert start.run("none") == "done"

    assert_each_row_is_sent_once(sending)


def test_killed_at_each_moment_each_of_two_shards_has_whole_epochs_once(
    services: LocalServices, tmp_path: Path
) -> None:
    """With as many partitions as shards, each partition has the records of one shard."""
    world = with_trigger(new_world(services, jdbc_catalog(tmp_path / "warehouse")), rows=6)
    world = with_output(world, partitions=2, shards=2)
    epochs, seen = [], {}
    with drivers(world, tmp_path) as start:
        for moment in MOMENTS[1:]:
            before = {*world.rows.values()}
            world.produce(6)
            epochs.append({*world.rows.values()} - before)
            assert start.run("driver", moment) == "killed", moment
            seen[moment] = numbers_of_shards(world)
        assert start.run("none") == "done"

    shards = numbers_of_shards(world)
    assert sorted(shards[0] + shards[1]) == sorted(world.rows.values())
    for visible in seen.values():
        for epoch, shard in product(epochs, (0, 1)):
            assert epoch.intersection(visible[shard]) in (set(), epoch.intersection(shards[shard]))
    first, second = (len(epochs_in(epochs, numbers)) for numbers in seen["sent"])
    assert (first, second) == (1, 0), "killed between the commits of an epoch in two shards"


def numbers_of_shards(world: World) -> tuple[list[int], list[int]]:
    found = read_committed(world, partitions=2)
    one, other = ([n for place, _, n in found if place == shard and n is not None] for shard in (0, 1))
    return one, other


def epochs_in(epochs: list[set[int]], numbers: list[int]) -> list[set[int]]:
    return [epoch for epoch in epochs if epoch.intersection(numbers)]


def test_killed_inside_a_send_the_topic_has_the_rows_of_a_table_that_follows_keys(
    sending: World, tmp_path: Path
) -> None:
    changelog = Changelog.of(sending)
    with drivers(changelog.world, tmp_path) as start:
        for moment in ("in transaction", "sent"):
            changelog.change()
            assert start.run("driver", moment) == "killed", moment
        assert start.run("none") == "done"

    found = read_committed(sending)
    last = {key.decode(): number for _, key, number in found}
    numbers = [number for *_, number in found if number is not None]
    assert {key: n for key, n in last.items() if n is not None} == {key: n for key, (_, n) in changelog.newest.items()}
    assert None in last.values()
    assert len(numbers) == len(set(numbers))


def test_an_open_transaction_of_a_killed_driver_is_ended_by_the_next_one(sending: World, tmp_path: Path) -> None:
    with drivers(sending, tmp_path) as start:
        sending.produce(6)
        assert start.run("driver", "in transaction") == "killed"
        began = time.monotonic()
        assert start.run("none") == "done"

    assert time.monotonic() - began < 60, "the broker would end it after 10 minutes only"
    assert_each_row_is_sent_once(sending)


def test_a_second_driver_fences_the_first_one(sending: World) -> None:
    sending.produce(6)
    paused = []

    def second(moment: str) -> None:
        if moment == "in transaction" and not paused:
            paused.append(moment)
            sending.catch_up()

    setting = sending.setting
    first = sending.run(outputs=lambda: watched_outputs(setting.kafka, setting.registry, second))
    first.batch()

    assert isinstance(first.output_failure, FencedError), first.output_failure
    assert_each_row_is_sent_once(sending)


def test_a_transaction_that_timed_out_is_sent_again(
    sending: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(output_topics, "TRANSACTION_MS", 4000)
    sending.produce(6)
    waited = []

    def wait_until_aborted(moment: str) -> None:
        if moment == "before commit" and not waited:
            waited.append(moment)
            wait_until_readable(sending)

    setting = sending.setting
    alone = sending.run(outputs=lambda: watched_outputs(setting.kafka, setting.registry, wait_until_aborted))
    alone.batch()

    assert alone.output_failure is None
    assert_each_row_is_sent_once(sending)
    (again,) = [record for record in caplog.records if record.message == "output_sent_again"]
    assert "took longer than 4 s" in vars(again)["problem"]


def wait_until_readable(world: World) -> None:
    """Wait until no open transaction holds readers of committed records back."""
    (output,) = world.spec.outputs
    until = time.monotonic() + WAIT_SECONDS
    while _ends(world, output.topic, "read_committed") != _ends(world, output.topic, "read_uncommitted"):
        assert time.monotonic() < until
        time.sleep(0.2)


def _ends(world: World, topic: str, isolation: str) -> list[int]:
    settings = {"group.id": "ends", "isolation.level": isolation, "log_level": 0}
    consumer = Consumer({**world.setting.kafka, **settings})  # type: ignore[dict-item]
    try:
        places = [TopicPartition(topic, n) for n in range(PARTITIONS)]
        return [consumer.get_watermark_offsets(place, timeout=WAIT_SECONDS)[1] for place in places]
    finally:
        consumer.close()


def test_a_driver_whose_transaction_is_old_is_fenced_once_another_one_has_sent(
    sending: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sending.produce(6)
    paused = []

    def wake_up_late(moment: str) -> None:
        if moment == "in transaction" and not paused:
            paused.append(moment)
            sending.catch_up()
            monkeypatch.setattr(output_topics, "TRANSACTION_MS", 0)

    setting = sending.setting
    first = sending.run(outputs=lambda: watched_outputs(setting.kafka, setting.registry, wake_up_late))
    first.batch()

    assert isinstance(first.output_failure, FencedError), first.output_failure
    assert_each_row_is_sent_once(sending)


def test_a_fenced_driver_is_told_so_when_it_sends_records(services: LocalServices) -> None:
    topic = f"fenced-{os.urandom(4).hex()}"
    make_topic(admin_of(services), topic, 1, {})
    place, topics = (
        ShardPlace("0b9c", topic, topic, 0),
        KafkaOutputTopics({"bootstrap.servers": services.bootstrap_servers}),
    )
    record = Encoded(None, pa.array([b"row"]), pa.array([0], pa.int32()))
    first = topics.open(place)
    first.begin()
    first.add(record)
    second = topics.open(place)

    with pytest.raises(FencedError, match="send a record"):
        add_until_refused(first, record)
    first.close()
    second.close()


def test_a_topic_decides_how_large_a_record_may_be(services: LocalServices) -> None:
    """Its default is 1 MB, as that of librdkafka is; records of 8 MB can be read."""
    large, usual = (f"large-{os.urandom(4).hex()}" for _ in range(2))
    make_topic(admin_of(services), large, 1, {"max.message.bytes": "4000000"})
    make_topic(admin_of(services), usual, 1, {})
    topics = KafkaOutputTopics({"bootstrap.servers": services.bootstrap_servers})
    record = Encoded(None, pa.array([os.urandom(2_000_000)]), pa.array([0], pa.int32()))

    def send(topic: str) -> None:
        producer = topics.open(ShardPlace("0b9c", topic, topic, 0))
        producer.begin()
        try:
            producer.add(record)
            producer.commit(Marker(1, 1))
        finally:
            producer.close()

    send(large)
    with pytest.raises(BrokerError) as refused:
        send(usual)

    assert topics.markers([ShardPlace("0b9c", each, each, 0) for each in (large, usual)]) == [Marker(1, 1), None]
    assert "raise `max.message.bytes` of the topic, or name fewer `columns`" in refused.value.hint


def add_until_refused(producer: ShardProducer, record: Encoded) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        producer.add(record)
        time.sleep(0.05)


def test_a_topic_that_is_missing_is_named(sending: World) -> None:
    (output,) = sending.spec.outputs
    missing = replace(output, topic=f"{output.topic}.missing")
    world = replace(sending, setting=replace(sending.setting, spec=replace(sending.spec, outputs=(missing,))))
    world.produce(6)

    (report,) = run_once([world.run()], Stopping())

    assert isinstance(report.failure, TopicMissingError)
    assert missing.topic in report.failure.what
    assert report.batches > 0


def test_a_schema_that_the_registry_refuses_is_told_before_anything_is_sent(sending: World) -> None:
    (output,) = sending.spec.outputs
    fields = [{"name": "n", "type": "string"}]
    subject = f"{output.topic}-value"
    register(sending.setting.services, subject, {"type": "record", "name": "Other", "fields": fields})
    check_compatibility(sending, subject)
    sending.produce(6)
    schemas, ours = RegistrySchemas(sending.setting.registry), json.dumps(SCHEMA)
    with pytest.raises(OutputSchemaError, match=subject):
        schemas.check(subject, ours)
    schemas.check(f"{output.topic}-other", ours)

    (report,) = run_once([sending.run()], Stopping())

    assert isinstance(report.failure, OutputSchemaError), report.failure
    assert subject in report.failure.what
    assert read_committed(sending) == []


def check_compatibility(world: World, subject: str) -> None:
    """Let the registry refuse what readers of the newest schema could not read."""
    request = urllib.request.Request(
        f"{world.setting.services.schema_registry_url}/config/{subject}",
        data=json.dumps({"compatibility": "BACKWARD"}).encode(),
        headers={"Content-Type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
        assert answer.status == 200
