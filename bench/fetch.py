"""What fetching costs, in the native reader and in the one in Python, turn and turn about in one process.

Usage: python -m bench.fetch [--records N] [--pairs N]
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.sections import put
from frazil.adapters.kafka.reader import Engine, KafkaReader
from frazil.local.supervisor import ANY_FREE_PORTS, LocalServices, down, up
from frazil.model.plan import OffsetRange
from frazil.records import OptionalFields

HOME = Path(".frazil/bench-fetch")
TITLE = "Fetching"
ONLY_VALUES = OptionalFields(timestamp_type=False, leader_epoch=False)
ENGINES: tuple[Engine, Engine] = ("python", "native")
MANY_PARTITIONS = 200
HEADERS = [("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("source", b"orders-service")]


@dataclass(frozen=True, slots=True)
class Shape:
    """Records of one topic, with keys of 15 bytes."""

    name: str
    value_bytes: int
    headers: bool = False
    codec: str = "none"
    share: int = 1
    """The topic has one of so many of the records."""


SHAPES = (
    Shape("100 B", 100),
    Shape("200 B", 200),
    Shape("200 B, zstd", 200, codec="zstd"),
    Shape("200 B, 2 headers", 200, headers=True),
    Shape("1 KB", 1_000, share=4),
    Shape("10 KB", 10_000, share=20),
)


WIDE, LARGE = Shape("1 KB", 1_000), Shape("10 KB", 10_000)


@dataclass(frozen=True, slots=True)
class Pair:
    """CPU microseconds a record."""

    python: float
    native: float

    @property
    def ratio(self) -> float:
        return self.python / self.native


@dataclass(frozen=True, slots=True)
class Peak:
    """Megabytes of memory."""

    task: str
    python: int
    native: int


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fetch", description=__doc__)
    parser.add_argument("--records", type=int, default=600_000, help="records in the topics of small ones")
    parser.add_argument("--pairs", type=int, default=5, help="interleaved runs of both readers")
    asked = parser.parse_args()
    down(HOME, wipe=True)
    try:
        services = up(services=("broker",), directory=HOME, preferred_ports=ANY_FREE_PORTS)
        found = {shape.name: pairs_of(services, shape, asked) for shape in SHAPES}
        a_range = range_pairs(services, asked.pairs)
        peaks = peaks_of(services)
    finally:
        down(HOME, wipe=True)
    put(TITLE, report(asked, found, a_range, peaks))


def pairs_of(services: LocalServices, shape: Shape, asked: argparse.Namespace) -> list[Pair]:
    topic = f"fetch-{SHAPES.index(shape)}"
    count = asked.records // shape.share
    fill(services, topic, values(shape, count), shape)
    whole = OffsetRange(topic, 0, 0, count, count, 1 << 60)
    cpu_micros(services, "native", [whole])  # the first to read would wait for the disk
    found = in_pairs(services, [whole], asked.pairs, count)
    print(shape.name, found, file=sys.stderr)
    return found


def range_pairs(services: LocalServices, pairs: int) -> list[Pair]:
    """Ranges of one record in one task: milliseconds of wall time each."""
    fill(services, "ranges", (b"v" for _ in range(MANY_PARTITIONS)), Shape("ranges", 1), MANY_PARTITIONS)
    ranges = [OffsetRange("ranges", n, 0, 1, 1, 1 << 60) for n in range(MANY_PARTITIONS)]
    found: list[Pair] = []
    for _ in range(pairs):
        walls = {engine: _wall_ms(services, engine, ranges) / len(ranges) for engine in ENGINES}
        found.append(Pair(walls["python"], walls["native"]))
    print("ranges", found, file=sys.stderr)
    return found


def _wall_ms(services: LocalServices, engine: Engine, ranges: Sequence[OffsetRange]) -> float:
    with closing(KafkaReader({"bootstrap.servers": services.bootstrap_servers}, engine=engine)) as reader:
        began = time.monotonic()
        assert [sum(map(len, chunks)) for chunks in reader.read(ranges, ONLY_VALUES)] == [1] * len(ranges)
        return (time.monotonic() - began) * 1000


def in_pairs(services: LocalServices, ranges: Sequence[OffsetRange], pairs: int, count: int) -> list[Pair]:
    found = []
    for pair in range(pairs):
        turns = ENGINES if pair % 2 == 0 else ENGINES[::-1]
        micros = {engine: cpu_micros(services, engine, ranges) / count for engine in turns}
        found.append(Pair(micros["python"], micros["native"]))
    return found


def cpu_micros(services: LocalServices, engine: Engine, ranges: Sequence[OffsetRange]) -> float:
    """CPU of this process, librdkafka's threads included, until the reader is closed."""
    began = time.process_time()
    with closing(KafkaReader({"bootstrap.servers": services.bootstrap_servers}, engine=engine)) as reader:
        read_through(reader, ranges)
    return (time.process_time() - began) * 1e6


def read_through(reader: KafkaReader, ranges: Sequence[OffsetRange]) -> None:
    for chunks in reader.read(ranges, ONLY_VALUES):
        deque(chunks, maxlen=0)


def peaks_of(services: LocalServices) -> list[Peak]:
    fill(services, "many", values(WIDE, 1_000 * MANY_PARTITIONS), WIDE, MANY_PARTITIONS)
    fill(services, "one", values(LARGE, 20_000), LARGE)
    fill(services, "small", (bytes(40) for _ in range(24 * 60_000)), Shape("small", 40, codec="lz4"), 24)
    found = []
    for name, topic, count, partitions in (
        (f"{MANY_PARTITIONS} ranges of 1,000 records of 1 KB", "many", 1_000, MANY_PARTITIONS),
        ("1 range of 20,000 records of 10 KB", "one", 20_000, 1),
        ("24 ranges of 60,000 records of 40 equal bytes, lz4", "small", 60_000, 24),
        ("the first 1,000 records of each of them", "small", 1_000, 24),
    ):
        ranges = [OffsetRange(topic, n, 0, count, count, 1 << 60) for n in range(partitions)]
        found.append(Peak(name, **{engine: peak_mb(services, engine, ranges) for engine in ENGINES}))
    print("peaks", found, file=sys.stderr)
    return found


def peak_mb(services: LocalServices, engine: Engine, ranges: Sequence[OffsetRange]) -> int:
    """The memory that reading takes in a new process, above what its imports take."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_peak_mb, services.bootstrap_servers, engine, ranges).result()


def _peak_mb(servers: str, engine: Engine, ranges: Sequence[OffsetRange]) -> int:
    before = _peak_kb()
    with closing(KafkaReader({"bootstrap.servers": servers}, engine=engine)) as reader:
        read_through(reader, ranges)
    return (_peak_kb() - before) >> 10


def _peak_kb() -> int:
    """Of this process alone: `ru_maxrss` begins with what the parent has."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def values(shape: Shape, count: int) -> Iterator[bytes]:
    """Half of each value is random and half is zero; there are a thousand different ones."""
    seeded = random.Random(shape.value_bytes)
    half = shape.value_bytes // 2
    some = [seeded.randbytes(half) + bytes(shape.value_bytes - half) for _ in range(1_000)]
    return (some[number % 1_000] for number in range(count))


def fill(services: LocalServices, topic: str, sent: Iterator[bytes], shape: Shape, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": services.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    settings: Mapping[str, str | int | bool | float] = {
        "bootstrap.servers": services.bootstrap_servers,
        "linger.ms": 50,
        "compression.type": shape.codec,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 2_000_000,
        "queue.buffering.max.kbytes": 2_000_000,
    }
    producer = Producer(dict(settings))
    for number, value in enumerate(sent):
        headers = HEADERS if shape.headers else None
        producer.produce(topic, value, b"customer-%06d" % (number % 100_000), number % partitions, headers=headers)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()


def report(
    asked: argparse.Namespace, found: Mapping[str, Sequence[Pair]], a_range: Sequence[Pair], peaks: Sequence[Peak]
) -> str:
    return "\n".join(
        [
            f"`python -m bench.fetch --records {asked.records} --pairs {asked.pairs}`, {datetime.now(UTC):%Y-%m-%d}, on"
            f" {os.cpu_count()} cores shared with other work (load average {os.getloadavg()[0]:.0f}). Both readers read"
            " the same partition in turns, in one process. CPU microseconds a record include librdkafka's threads, its"
            " start and its end; not the broker. The ratio is that of a pair.",
            "",
            "| records | in Python, least (median) | native, least (median) | ratio, median (span) |",
            "|---|---|---|---|",
            *(_row(name, pairs) for name, pairs in found.items()),
            "",
            f"A task with a range of one record in each of {MANY_PARTITIONS} partitions, wall milliseconds a range,"
            f" least (median): {_both(a_range, 'python')} in Python, {_both(a_range, 'native')} native.",
            "",
            "Peak memory of reading in a new process, above what its imports take, in MB:",
            "",
            "| task | in Python | native |",
            "|---|---|---|",
            *(f"| {each.task} | {each.python} | {each.native} |" for each in peaks),
        ]
    )


def _row(name: str, pairs: Sequence[Pair]) -> str:
    ratios = [pair.ratio for pair in pairs]
    span = f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})"
    return f"| {name} | {_both(pairs, 'python')} | {_both(pairs, 'native')} | {span} |"


def _both(pairs: Sequence[Pair], engine: Engine) -> str:
    costs = [getattr(pair, engine) for pair in pairs]
    return f"{min(costs):.2f} ({statistics.median(costs):.2f})"


if __name__ == "__main__":
    main()
