"""Both Kafka readers, the native one and the one in Python, keep the same promises to the letter."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import psutil
import pytest
from breadth import WAIT_SECONDS, Place, admin_of
from compaction import COMPACTED, quick_cleaner
from confluent_kafka import Producer, TopicPartition
from raw_headers import send_with_headers
from reader_engines import ENGINES, NATIVE

from frazil.adapters.kafka import reader as reader_module
from frazil.adapters.kafka.reader import Engine, KafkaReader
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.model.errors import BrokerError, RecordsLostError, SettingError
from frazil.model.plan import OffsetRange
from frazil.model.secret import SettingValue
from frazil.records import OptionalFields, Records, UnreadableHeaders
from tests.headers import header_lists

ALL = OptionalFields(timestamp_type=True, leader_epoch=True)
BIG = 300_000
Make = Callable[..., KafkaReader]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.param
    return found


@pytest.fixture
def make(place: Place, engine: Engine) -> Iterator[Make]:
    """Opens readers, which are closed after the test."""
    opened: list[KafkaReader] = []

    def new(chunk_bytes: int | None = None, **settings: SettingValue) -> KafkaReader:
        servers: dict[str, SettingValue] = {"bootstrap.servers": place.services.bootstrap_servers}
        opened.append(KafkaReader({**servers, **settings}, chunk_bytes=chunk_bytes, engine=engine))
        return opened[-1]

    yield new
    for reader in opened:
        reader.close()


def whole(topic: str, start: int, end: int) -> OffsetRange:
    return OffsetRange(topic, 0, start, end, partition_end=end, max_bytes=1 << 40)


def read(reader: KafkaReader, topic: str, start: int, end: int) -> list[Records]:
    chunks = list(chain.from_iterable(reader.read([whole(topic, start, end)], ALL)))
    assert chunks[-1].next_offset == end
    return chunks


def together(chunks: Sequence[Records], column: str) -> list[Any]:
    values: list[Any] = []
    for chunk in chunks:
        found = getattr(chunk, column)
        values += header_lists(found) if column == "headers" else found.to_pylist()
    return values


def end_of(place: Place, topic: str) -> int:
    facts = KafkaTopics({"bootstrap.servers": place.services.bootstrap_servers}).describe(topic)
    assert facts is not None
    return facts.partitions[0].end


def test_every_column_is_what_was_sent(make: Make, place: Place) -> None:
    topic, stamped = place.topic(), place.topic("-stamped", **{"message.timestamp.type": "LogAppendTime"})
    keys, values = [b"k", None, b"", b"\xff\x00"], [b"\x00\xff", b"", None, b"v" * BIG]
    for key, value in zip(keys, values, strict=True):
        place.send(topic, value, key=key, timestamp=1_600_000_000_000)
    began = int(time.time() * 1000)
    place.send(stamped, b"v")

    chunks = read(make(), topic, 0, 4)
    (by_broker,) = read(make(), stamped, 0, 1)

    assert together(chunks, "offsets") == [0, 1, 2, 3]
    assert (together(chunks, "keys"), together(chunks, "values")) == (keys, values)
    assert together(chunks, "timestamps_ms") == [1_600_000_000_000] * 4
    assert together(chunks, "timestamp_types") == ["CREATE_TIME"] * 4
    assert together(chunks, "leader_epochs") == [0] * 4
    assert chunks[-1].last_leader_epoch == 0
    assert together(chunks, "headers") == [None] * 4
    assert together([by_broker], "timestamp_types") == ["LOG_APPEND_TIME"]
    assert began - 60_000 < by_broker.timestamps_ms[0].as_py() < began + 60_000


@pytest.mark.skipif(sys.platform != "linux", reason="freed memory is returned to the system by a call of glibc")
@pytest.mark.parametrize("engine", [NATIVE], indirect=True)
def test_offsets_that_are_kept_do_not_keep_the_values(make: Make, place: Place) -> None:
    """A writer gathers rows of many chunks: their columns of offsets and timestamps are those of the reader."""
    topic = place.topic()
    place.send(topic, *[b"v" * BIG] * 150)
    reader = make()
    before = resident_megabytes()

    kept = [chunk.offsets for chunk in chain.from_iterable(reader.read([whole(topic, 0, 150)], ALL))]

    assert sum(map(len, kept)) == 150
    assert resident_megabytes() - before < 150 * BIG / 1e6 / 2


def resident_megabytes() -> float:
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return float(psutil.Process().memory_info().rss) / 1e6


def test_headers_of_any_bytes(make: Make, place: Place) -> None:
    topic = place.topic()
    fine = [(b"h", b"\x00\xff"), (b"h", None), (b"", b""), ("ž".encode(), b"x" * 1000)]
    one_bad = [(b"ok", b""), (b"\xff\xfe", b"1")]
    three_bad = [(b"\xff\xfe", None), (b"\xfd", b"1"), (b"ok", b""), (b"\xfc", b"2")]
    send_with_headers(place.services, topic, (b"0", fine), (b"1", one_bad), (b"2", fine), (b"3", three_bad))
    place.send(topic, b"4")

    chunks = read(make(), topic, 0, 5)

    as_text = [(key.decode(), value) for key, value in fine]
    bad = UnreadableHeaders("a header key is not UTF-8: 0xfffe")
    assert together(chunks, "headers") == [as_text, bad, as_text, bad, None]
    (records,) = chunks
    assert header_lists(records.after(1).headers) == [bad, as_text, bad, None]
    assert header_lists(records.first(1).headers) == [as_text]


@pytest.mark.parametrize("engine", [NATIVE])
def test_headers_that_librdkafka_refuses_are_unreadable_and_not_missing(make: Make, place: Place) -> None:
    """It reads at most 100,000 of a record. To the reader in Python such a record looks as one without headers."""
    topic = place.topic()
    send_with_headers(place.services, topic, (b"0", [(b"", b"")] * 100_001), (b"1", [(b"h", b"")]))

    (records,) = read(make(), topic, 0, 2)

    assert header_lists(records.headers) == [UnreadableHeaders("Local: Bad message format"), [("h", b"")]]


def transactional(place: Place) -> Producer:
    settings = {"bootstrap.servers": place.services.bootstrap_servers, "transactional.id": place.name, "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(WAIT_SECONDS)
    return producer


def test_aborted_and_control_records_are_passed_and_never_returned(make: Make, place: Place) -> None:
    """Offsets 0 to 2 are aborted and 3 is their marker; 4 and 5 are committed by 6; 7 is aborted by 8."""
    topic, producer = place.topic(), transactional(place)
    for values, end in (
        ("abc", producer.abort_transaction),
        ("de", producer.commit_transaction),
        ("f", producer.abort_transaction),
    ):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush(WAIT_SECONDS)  # what is aborted before it is sent leaves no record
        end(WAIT_SECONDS)
    deadline = time.monotonic() + WAIT_SECONDS
    while end_of(place, topic) < 9:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    reader = make()

    assert together(read(reader, topic, 0, 9), "values") == [b"d", b"e"]
    assert together(read(reader, topic, 0, 5), "values") == [b"d"], "a range may end inside of a transaction"
    assert together(read(reader, topic, 0, 4), "values") == []
    assert together(read(reader, topic, 3, 4), "values") == [], "nothing but a marker"
    assert together(read(reader, topic, 6, 9), "values") == []


def test_offsets_that_compaction_took_are_passed(make: Make, place: Place) -> None:
    topic, reader = place.topic(**COMPACTED), make()
    with quick_cleaner(place):
        for number in range(8):
            place.send(topic, str(number).encode(), key=b"ab"[number % 2 :][:1])
            time.sleep(0.1)
        deadline = time.monotonic() + WAIT_SECONDS
        while len(together(read(reader, topic, 0, 8), "offsets")) > 4:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    chunks = read(reader, topic, 0, 8)

    offsets = together(chunks, "offsets")
    assert offsets == sorted(set(offsets))
    assert offsets[-1] == 7
    assert together(chunks, "values") == [str(offset).encode() for offset in offsets]
    assert together(read(reader, topic, 0, offsets[0]) if offsets[0] else [], "offsets") == []


def test_one_reader_reads_one_range_after_the_other(make: Make, place: Place) -> None:
    """Also where a range is left before its end, and where the next one is before it."""
    topic, other = place.topic(), place.topic("-other")
    place.send(topic, *[b"v%d" % n for n in range(500)])
    place.send(other, b"w")
    reader = make(chunk_bytes=100)

    reads = reader.read([whole(topic, 0, 500)], ALL)
    next(next(reads))
    del reads

    assert together(read(reader, other, 0, 1), "values") == [b"w"]
    assert together(read(reader, topic, 400, 500), "values") == [b"v%d" % n for n in range(400, 500)]
    assert together(read(reader, topic, 3, 5), "values") == [b"v3", b"v4"]


def test_a_chunk_that_is_bounded_ends_with_the_record_that_reaches_its_bytes(make: Make, place: Place) -> None:
    topic = place.topic()
    place.send(topic, *[b"v"] * 300, *[bytes(BIG)] * 6)

    chunks = read(make(chunk_bytes=2 * BIG), topic, 0, 306)

    sizes = [int(chunk.sizes.sum()) for chunk in chunks]
    assert sum(sizes) == 300 + 6 * BIG
    assert max(sizes) < 3 * BIG


def test_records_that_are_gone_are_lost(make: Make, place: Place) -> None:
    topic = place.topic()
    place.send(topic, *[b"v"] * 6)
    admin_of(place.services).delete_records([TopicPartition(topic, 0, 4)])[TopicPartition(topic, 0)].result(
        WAIT_SECONDS
    )

    with pytest.raises(RecordsLostError, match=rf"{topic}-0: offsets \[2, 6\) existed when .* but are gone: .") as lost:
        read(make(), topic, 2, 6)

    assert "retention removed records" in lost.value.hint


def test_an_end_that_never_comes_stalls(make: Make, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "STALLED_SECONDS", 0.5)
    topic = place.topic()
    place.send(topic, b"v")

    with pytest.raises(BrokerError, match=rf"{topic}-0: no record arrived for 0 s at offset 1, expected up to 3"):
        read(make(), topic, 0, 3)


def test_a_cluster_that_does_not_answer_is_named_with_what_the_client_received(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "STALLED_SECONDS", 1.0)
    reader = make(**{"bootstrap.servers": "127.0.0.1:1"})

    with pytest.raises(BrokerError, match=r"no record arrived .*; .*127\.0\.0\.1:1.*Connect") as stalled:
        read(reader, "orders", 0, 3)

    assert "the cluster is up" in stalled.value.hint


def test_a_topic_that_does_not_exist_is_said(make: Make, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "STALLED_SECONDS", 3.0)
    reader = make(**{"topic.metadata.propagation.max.ms": "10", "topic.metadata.refresh.interval.ms": "500"})

    with pytest.raises(BrokerError, match=rf"no record arrived .*; {place.name} \[0\]: topic does not exist"):
        read(reader, place.name, 0, 3)


def test_settings_that_librdkafka_refuses_are_named_without_their_secrets(make: Make) -> None:
    pems = {"ssl.key.pem": "a secret", "ssl.certificate.pem": "no certificate"}

    with pytest.raises(SettingError, match=r"the `kafka` settings cannot be used: .*ssl") as refused:
        make(**{"security.protocol": "ssl", **pems})

    assert "a secret" not in str(refused.value)
