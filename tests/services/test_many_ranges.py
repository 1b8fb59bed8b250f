"""One consumer reads the ranges of a task one after the other, while it fetches those that follow."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from breadth import WAIT_SECONDS, Place, admin_of
from compaction import COMPACTED, alter_config, quick_cleaner
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import ResourceType
from reader_engines import ENGINES

from frazil.adapters.kafka import message_consumer, prefetch
from frazil.adapters.kafka import reader as reader_module
from frazil.adapters.kafka.reader import Engine, KafkaReader
from frazil.model.errors import BrokerError, RecordsLostError
from frazil.model.plan import OffsetRange
from frazil.records import OptionalFields, Records
from tests.headers import header_lists
from tests.sampling import examples

ALL = OptionalFields(timestamp_type=True, leader_epoch=True)
PARTITIONS = 40
LARGE = 20_000
Row = tuple[int, bytes | None, bytes | None, int, Any]
"""Offset, key, value, timestamp and headers."""


@pytest.fixture(params=ENGINES)
def reader(request: pytest.FixtureRequest, place: Place) -> Iterator[KafkaReader]:
    with closing(open_reader(place, request.param)) as opened:
        yield opened


def open_reader(place: Place, engine: Engine, chunk_bytes: int | None = None) -> KafkaReader:
    return KafkaReader({"bootstrap.servers": place.services.bootstrap_servers}, chunk_bytes=chunk_bytes, engine=engine)


def part(topic: str, partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange(topic, partition, start, end, partition_end=end, max_bytes=1 << 40)


def rows_of(chunks: Sequence[Records]) -> list[Row]:
    return [
        row
        for chunk in chunks
        for row in zip(
            chunk.offsets.to_pylist(),
            chunk.keys.to_pylist(),
            chunk.values.to_pylist(),
            chunk.timestamps_ms.to_pylist(),
            header_lists(chunk.headers),
            strict=True,
        )
    ]


def read_all(reader: KafkaReader, ranges: Sequence[OffsetRange]) -> list[list[Row]]:
    """The rows of each range, each of which was read to its end."""
    found: list[list[Row]] = []
    for wanted, chunks in zip(ranges, reader.read(ranges, ALL), strict=True):
        read = list(chunks)
        assert read[-1].next_offset == wanted.end
        found.append(rows_of(read))
    return found


def values(rows: Sequence[Row]) -> list[bytes | None]:
    return [value for _, _, value, _, _ in rows]


def sent(place: Place) -> str:
    """A topic whose partition N has N records, and one more."""
    topic = place.topic(partitions=PARTITIONS)
    for number in range(PARTITIONS):
        place.send(topic, *[b"%d-%d" % (number, n) for n in range(number + 1)], partition=number)
    return topic


def test_more_ranges_than_are_fetched_at_a_time_are_read_in_order(reader: KafkaReader, place: Place) -> None:
    topic = sent(place)
    forward = [part(topic, number, number // 2, number + 1) for number in range(PARTITIONS)]

    for ranges in (forward, forward[::-1], forward[7:9]):
        found = read_all(reader, ranges)

        assert [values(rows) for rows in found] == [
            [b"%d-%d" % (each.partition, n) for n in range(each.start, each.end)] for each in ranges
        ]


def test_ranges_that_are_left_early_or_never_read_take_nothing_from_others(reader: KafkaReader, place: Place) -> None:
    topic = sent(place)
    ranges = [part(topic, number, 0, number + 1) for number in range(PARTITIONS)]

    firsts = [next(chunks).first_offset if n % 3 else None for n, chunks in enumerate(reader.read(ranges, ALL))]
    found = read_all(reader, ranges[::3])

    assert firsts == [0 if n % 3 else None for n in range(PARTITIONS)]
    assert [len(rows) for rows in found] == [each.end for each in ranges[::3]]


def test_two_ranges_of_one_partition_follow_each_other(reader: KafkaReader, place: Place) -> None:
    topic = sent(place)
    ranges = [part(topic, 39, 30, 40), part(topic, 38, 0, 2), part(topic, 39, 0, 2)]

    found = read_all(reader, ranges)

    assert [values(rows) for rows in found[1:]] == [[b"38-0", b"38-1"], [b"39-0", b"39-1"]]


def test_partitions_that_are_larger_than_what_is_fetched_ahead(reader: KafkaReader, place: Place) -> None:
    topic, count = place.topic(partitions=4), 300
    for number in range(4):
        place.send(topic, *[b"%d-%d" % (number, n) + bytes(LARGE) for n in range(count)], partition=number)

    found = read_all(reader, [part(topic, number, 5, count - number) for number in (2, 0, 3, 1)])

    for number, rows in zip((2, 0, 3, 1), found, strict=True):
        assert [value and value.rstrip(b"\0") for value in values(rows)] == [
            b"%d-%d" % (number, n) for n in range(5, count - number)
        ]


@pytest.mark.parametrize(("chunk_bytes", "end"), [(None, 6), (1 << 20, 8)])
@pytest.mark.parametrize("engine", ENGINES)
def test_records_that_come_after_the_end_of_a_partition_was_met_are_read(
    place: Place, engine: Engine, chunk_bytes: int | None, end: int
) -> None:
    """The broker that answers may lag behind the one that the plan asked: a follower, or a new leader."""
    topic = place.topic(partitions=2)
    place.send(topic, b"a0", partition=0)
    place.send(topic, *[b"b%d" % n for n in range(5)], partition=1)

    with closing(open_reader(place, engine, chunk_bytes)) as reader:
        reads = reader.read([part(topic, 0, 0, 2), part(topic, 1, 5, end)], ALL)
        first = next(reads)
        before = next(first).offsets.to_pylist()
        time.sleep(1)  # the end of the other partition is met meanwhile
        place.send(topic, b"b5", b"b6", b"b7", partition=1)
        assert before == [0]
        sending = threading.Timer(1, place.send, [topic, b"a1"], {"partition": 0})
        sending.start()
        after = rows_of(list(first))
        sending.join()
        found = rows_of(list(next(reads)))

    assert values(after) == [b"a1"]
    assert values(found) == [b"b5", b"b6", b"b7"][: end - 5]


def test_what_is_lost_in_one_of_many_ranges_is_named(reader: KafkaReader, place: Place) -> None:
    topic = sent(place)
    gone = TopicPartition(topic, 30, 4)
    admin_of(place.services).delete_records([gone])[TopicPartition(topic, 30)].result(WAIT_SECONDS)
    reads = reader.read([part(topic, number, 2, 6) for number in range(10, 40)], ALL)
    before = [len(rows_of(list(chunks))) for _, chunks in zip(range(20), reads, strict=False)]

    with pytest.raises(RecordsLostError, match=rf"{topic}-30: offsets \[2, 6\) existed when .* but are gone"):
        list(next(reads))

    assert before == [4] * 20
    assert [values(rows) for rows in read_all(reader, [part(topic, 30, 4, 5)])] == [[b"30-4"]]


def test_a_range_that_stalls_among_others_is_named(
    reader: KafkaReader, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "STALLED_SECONDS", 3.0)
    topic = sent(place)
    ranges = [part(topic, 8, 0, 9), part(topic, 9, 3, 12), part(topic, 10, 0, 11)]

    with pytest.raises(BrokerError, match=rf"{topic}-9: no record arrived for 3 s at offset 10, expected up to 12"):
        read_all(reader, ranges)


# --- random ranges, compared with a plain consumer ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Filled:
    """A topic with transactions, and what a plain consumer reads: rows and the end, by partition."""

    topic: str
    rows: dict[int, list[Row]]
    ends: dict[int, int]

    @property
    def count(self) -> int:
        return sum(map(len, self.rows.values()))


def test_random_ranges_have_the_rows_of_a_plain_consumer(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over aborted, committed and compacted records, with queues, windows and chunks of any size."""
    chosen = random.Random(11)
    filled = fill(place, chosen, partitions=12, transactions=examples(60, 600))
    for _ in range(examples(12, 300)):
        monkeypatch.setattr(reader_module, "CHUNK", chosen.choice([1, 3, 50, 5_000]))
        monkeypatch.setattr(prefetch, "FETCHED_RANGES", chosen.choice([1, 2, 5, 16]))
        monkeypatch.setattr(message_consumer, "ASIDE_BYTES", chosen.choice([1, 200, 1 << 20]))
        chunk_bytes = chosen.choice([None, None, 1, 300, 20_000])
        for engine in ENGINES:
            name = engine if isinstance(engine, str) else "native"
            if isinstance(engine, str) or not engine.marks[0].args[0]:
                with closing(open_reader(place, name, chunk_bytes)) as reader:
                    for _ in range(3):
                        compare(reader, filled, chosen)


def compare(reader: KafkaReader, filled: Filled, chosen: random.Random) -> None:
    ranges = []
    for number in chosen.sample(sorted(filled.ends), chosen.randint(1, len(filled.ends))):
        start, end = sorted(chosen.sample(range(filled.ends[number] + 1), 2))
        ranges.append(part(filled.topic, number, start, end))

    for wanted, rows in zip(ranges, read_all(reader, ranges), strict=True):
        assert rows == [row for row in filled.rows[wanted.partition] if wanted.start <= row[0] < wanted.end], wanted


def fill(place: Place, chosen: random.Random, *, partitions: int, transactions: int) -> Filled:
    topic = place.topic(partitions=partitions, **COMPACTED)
    settings = {"bootstrap.servers": place.services.bootstrap_servers, "transactional.id": place.name, "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(WAIT_SECONDS)
    committed = 0
    with quick_cleaner(place):
        for number in range(transactions):
            aborted = number % 3 == 2
            count = chosen.randint(1, 40)
            producer.begin_transaction()
            for _ in range(count):
                produce(producer, topic, chosen, chosen.randrange(partitions))
            producer.flush(WAIT_SECONDS)  # what is aborted before it is sent leaves no record
            (producer.abort_transaction if aborted else producer.commit_transaction)(WAIT_SECONDS)
            committed += 0 if aborted else count
        return compacted(place, topic, partitions, committed)


def produce(producer: Producer, topic: str, chosen: random.Random, partition: int) -> None:
    producer.produce(
        topic,
        chosen.choice([None, b"", chosen.randbytes(10), chosen.randbytes(5_000)]),
        chosen.choice([b"k%d" % chosen.randint(0, 9), chosen.randbytes(8)]),
        partition=partition,
        headers=chosen.choice([None, [("h", b"1")], [("a", None), ("b", bytes(3_000))]]),
    )


def compacted(place: Place, topic: str, partitions: int, committed: int) -> Filled:
    """Wait until some records are gone, and then until nothing changes any more."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := plainly_read(place, topic, partitions)).count == committed:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    alter_config(place, ResourceType.TOPIC, topic, {"cleanup.policy": "delete", "retention.ms": "-1"})
    while (again := plainly_read(place, topic, partitions)) != found:
        assert time.monotonic() < deadline
        found = again
        time.sleep(1)
    return found


def plainly_read(place: Place, topic: str, partitions: int) -> Filled:
    settings = {
        "bootstrap.servers": place.services.bootstrap_servers,
        "group.id": place.name,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    rows: dict[int, list[Row]] = {number: [] for number in range(partitions)}
    ends: dict[int, int] = {}
    deadline = time.monotonic() + WAIT_SECONDS
    while len(ends) < partitions:
        assert time.monotonic() < deadline
        for message in consumer.consume(500, 0.1):
            number, error = message.partition(), message.error()
            assert number is not None
            if error is None:
                stamp = message.timestamp()[1]
                rows[number].append((message.offset(), message.key(), message.value(), stamp, message.headers()))  # type: ignore[arg-type]
            else:
                assert error.code() == KafkaError._PARTITION_EOF
                ends[number] = message.offset() or 0
    consumer.close()
    return Filled(topic, rows, ends)
