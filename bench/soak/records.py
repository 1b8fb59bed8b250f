"""Records for the soak's topics, at a steady rate, until somebody says stop. The registry's samples and plain JSON."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from frazil.local.produce import SAMPLES, produce
from frazil.local.supervisor import LocalServices

KeyAndValue = tuple[bytes, bytes | None]
PARTITIONS = 3
TICK_SECONDS = 0.1
RATES: Mapping[str, int] = {"trades": 1_000, "sales": 200, "prices": 400, "accounts": 200, "events": 200, "clicks": 200}
"""Records a second of each topic."""

KEYS = 20_000
FLUSH_SECONDS = 120
SAMPLE_ROWS = 10_000_000


def _prices(draw: random.Random) -> Iterator[KeyAndValue]:
    """Some come late: the column that orders them is less than that of a record before."""
    for number in count():
        late = draw.randrange(500) if draw.random() < 0.05 else 0
        value = {"price": draw.randrange(10_000), "changed": number - late}
        yield f"P{draw.randrange(KEYS)}".encode(), json.dumps(value).encode()


def _accounts(draw: random.Random) -> Iterator[KeyAndValue]:
    """One in twenty is a delete."""
    while True:
        value = None if draw.random() < 0.05 else json.dumps({"balance": draw.randrange(10**6)}).encode()
        yield f"A{draw.randrange(KEYS)}".encode(), value


def _events(draw: random.Random) -> Iterator[KeyAndValue]:
    """One in fifty is of a region that no route takes."""
    for number in count():
        region = draw.choices(("eu", "us", "moon"), (60, 38, 2))[0]
        yield b"%d" % number, json.dumps({"region": region, "number": number}).encode()


def _clicks(draw: random.Random) -> Iterator[KeyAndValue]:
    """One in a hundred is not JSON."""
    for number in count():
        value = json.dumps({"page": f"/{draw.randrange(50)}", "number": number})
        yield b"%d" % number, (value[:-1] if draw.random() < 0.01 else value).encode()


JSON: Mapping[str, Callable[[random.Random], Iterator[KeyAndValue]]] = {
    "prices": _prices,
    "accounts": _accounts,
    "events": _events,
    "clicks": _clicks,
}
AVRO = {"trades": "stock_trades", "sales": "sales_channel"}
"""The sample of each Avro topic."""


@dataclass(slots=True)
class Stream:
    """Writes all topics in a thread until `stop`. The broker may be away in between: records wait for it."""

    services: LocalServices
    seed: int
    sent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RATES, 0))
    lost: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        records = self._records()
        self._thread = threading.Thread(target=self._write, args=(records,), name="records", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Return when the broker has every record. Raises RuntimeError if it lacks one."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(FLUSH_SECONDS * 2)
            if self._thread.is_alive() or self.lost:
                raise RuntimeError(f"records that the broker does not have: {self.lost or 'the thread did not end'}")

    def _records(self) -> dict[str, Iterator[KeyAndValue]]:
        admin = AdminClient({"bootstrap.servers": self.services.bootstrap_servers})
        for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in RATES]).values():
            future.result(30)
        found: dict[str, Iterator[KeyAndValue]] = {}
        for topic, sample in AVRO.items():
            schema_id = produce(sample, 1, services=self.services, topic=topic).schema_id
            found[topic] = iter(SAMPLES[sample].records(SAMPLE_ROWS, seed=self.seed, schema_id=schema_id))
        for topic, records in JSON.items():
            found[topic] = records(random.Random(f"{self.seed} {topic}"))
        return found

    def _write(self, records: Mapping[str, Iterator[KeyAndValue]]) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.services.bootstrap_servers,
                "enable.idempotence": True,
                "message.timeout.ms": 0,  # the broker is away for a while, and comes back
                "queue.buffering.max.messages": 5_000_000,
                "log_level": 0,
            }
        )
        began = time.monotonic()
        while not self._over.wait(TICK_SECONDS):
            for topic, rate in RATES.items():
                while self.sent[topic] < rate * (time.monotonic() - began):
                    key, value = next(records[topic])
                    producer.produce(topic, value, key, on_delivery=self._delivered)
                    self.sent[topic] += 1
            producer.poll(0)
        left = producer.flush(FLUSH_SECONDS)
        if left:
            self.lost.append(f"{left:,} records were not acknowledged within {FLUSH_SECONDS} s")

    def _delivered(self, error: object, record: object) -> None:
        del record
        if error is not None:
            self.lost.append(str(error))
