"""What bad records and many schema ids cost an ingest task: fetch, decode and write, in one process.

Usage: python -m bench.mixed [--records N] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from bench.frazil_drain import settings_of
from bench.orders import SCHEMA, encoded
from bench.sections import put
from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.registry import ConfluentRegistry
from frazil.cli.clients import open_clients, table_runs
from frazil.formats.framing import FRAME_BYTES
from frazil.local.supervisor import ANY_FREE_PORTS, LocalServices, down, up
from frazil.materialize.ingest.task import ingest
from frazil.model.ingested import IngestTask, TaskResult
from frazil.model.plan import WriterSchemas

HOME = Path(".frazil/bench-mixed")
TITLE = "Bad records and many schemas"
SCHEMA_IDS = 20
BAD_EVERY = 100
Payload = Callable[[int, bytes, Sequence[int]], bytes]
"""From the record's number, an encoded order, and the schema ids to the record's value."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.mixed", description=__doc__)
    parser.add_argument("--records", type=int, default=300_000, help="records in each topic")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved runs of each topic")
    asked = parser.parse_args()
    down(HOME / "local", wipe=True)
    try:
        services = up(services=("broker", "registry"), directory=HOME / "local", preferred_ports=ANY_FREE_PORTS)
        fill(services, asked.records)
        found = rounds(services, asked)
    finally:
        down(HOME / "local", wipe=True)
    put(TITLE, report(asked, found))


def good(number: int, value: bytes, ids: Sequence[int]) -> bytes:
    del number
    return _framed(ids[0], value[FRAME_BYTES:])


def bad(number: int, value: bytes, ids: Sequence[int]) -> bytes:
    """One record in `BAD_EVERY` is cut short, another type's, or no Avro at all, in turns."""
    if number % BAD_EVERY:
        return good(number, value, ids)
    forms = (value[: len(value) // 2], value[:FRAME_BYTES] + bytes([255]) * 100, json.dumps({"n": number}).encode())
    form = forms[number // BAD_EVERY % 3]
    return form if form[:1] == b"{" else _framed(ids[0], form[FRAME_BYTES:])


def of_all_ids(number: int, value: bytes, ids: Sequence[int]) -> bytes:
    return _framed(ids[number % len(ids)], value[FRAME_BYTES:])


def _framed(schema_id: int, payload: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + payload


TOPICS: Mapping[str, Payload] = {
    "good records of 1 schema id": good,
    f"1 bad record in {BAD_EVERY}": bad,
    f"{SCHEMA_IDS} schema ids in turns": of_all_ids,
}


def topic_of(name: str) -> str:
    return f"mixed_{list(TOPICS).index(name)}"


def fill(services: LocalServices, records: int) -> None:
    """Fill all topics, of one partition each, with the same orders."""
    ids = {name: _register(services, topic_of(name)) for name in TOPICS}
    admin = AdminClient({"bootstrap.servers": services.bootstrap_servers})
    for created in admin.create_topics([NewTopic(topic_of(name), 1, 1) for name in TOPICS]).values():
        created.result(30)
    producer = Producer(
        {
            "bootstrap.servers": services.bootstrap_servers,
            "linger.ms": 50,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )
    for number, value in enumerate(encoded(0, records, 0)):
        for name, payload in TOPICS.items():
            producer.produce(topic_of(name), payload(number, value, ids[name]), b"customer-%06d" % (number % 100_000))
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()


def _register(services: LocalServices, topic: str) -> list[int]:
    """Register versions of the same fields, each with a text of its own, and return their ids."""
    registry = SchemaRegistryClient({"url": services.schema_registry_url})
    texts = [json.dumps({**SCHEMA, "doc": f"{topic}, version {n}"}) for n in range(SCHEMA_IDS)]
    return [registry.register_schema(f"{topic}-value", Schema(text, "AVRO")) for text in texts]


def rounds(services: LocalServices, asked: argparse.Namespace) -> dict[str, list[float]]:
    """Return CPU microseconds a record of each topic, by round."""
    tasks = {name: knowing_all(services, task_of(services, topic_of(name), asked.records)) for name in TOPICS}
    found: dict[str, list[float]] = {name: [] for name in TOPICS}
    any_task = next(iter(tasks.values()))
    with (
        closing(KafkaReader(any_task.context.kafka)) as reader,
        closing(ConfluentRegistry(any_task.context.registry)) as registry,
    ):
        for number in range(asked.rounds + 1):
            for name in tasks if number % 2 else reversed(tasks):
                began = time.process_time()
                result = ingest(tasks[name], reader=reader, registry=registry)
                micros = (time.process_time() - began) / asked.records * 1e6
                assert sum(each.counts.read for each in result.ranges) == asked.records
                if number:  # the first round waits for the disk and fills caches
                    found[name].append(micros)
    print(found, file=sys.stderr)
    return found


class PlannedError(Exception):
    """Ends a run where its tasks would begin."""


class TaskCatcher:
    """A runner that keeps the tasks of a batch and runs none (`ports.TaskRunner`)."""

    parallelism = 1

    def __init__(self) -> None:
        self.tasks: Sequence[IngestTask] = ()

    def start(self) -> object:
        return None

    def stop(self) -> None: ...

    def offsets_read(self, name: str) -> int:
        del name
        return 0

    def run(self, tasks: Sequence[IngestTask], *, name: str) -> list[TaskResult]:
        self.tasks = tasks
        raise PlannedError(name)


def task_of(services: LocalServices, topic: str, records: int) -> IngestTask:
    """Return the task that reads the whole topic."""
    warehouse = HOME / "warehouses" / topic
    shutil.rmtree(warehouse, ignore_errors=True)
    bootstrap, url = services.bootstrap_servers, services.schema_registry_url
    settings = settings_of(bootstrap, url, warehouse, topic, rows=records)
    catcher = TaskCatcher()
    runs = table_runs(open_clients(settings, catcher, on_receipt=lambda _: None), settings.tables)
    try:
        runs[0].batch()
    except PlannedError:
        return catcher.tasks[0]
    raise SystemExit(f"{topic}: nothing was planned")


def knowing_all(services: LocalServices, task: IngestTask) -> IngestTask:
    """Return the task with all writer schemas of its topic, as in a table that has seen them."""
    topic = task.ranges[0].topic
    with closing(ConfluentRegistry(task.context.registry)) as registry:
        found = [registry.by_id(schema_id) for schema_id in _register(services, topic)]
    schemas = WriterSchemas(values={schema.id: schema for schema in found if schema is not None}, keys={})
    return replace(task, context=replace(task.context, schemas=schemas))


def report(asked: argparse.Namespace, found: Mapping[str, Sequence[float]]) -> str:
    return "\n".join(
        [
            f"`python -m bench.mixed --records {asked.records} --rounds {asked.rounds}`, {datetime.now(UTC):%Y-%m-%d},"
            f" on {os.cpu_count()} cores shared with other work (load average {os.getloadavg()[0]:.0f}). An ingest task"
            " fetches, decodes and writes each topic, in turns in one process. CPU microseconds a record; the ratio is"
            " that of a round to the same round of good records. Targets: 1.05 with 1 % of bad records, 1.3 with"
            f" {SCHEMA_IDS} schema ids.",
            "",
            "| topic | least | median | ratio, median (span) |",
            "|---|---|---|---|",
            *_rows(found),
        ]
    )


def _rows(found: Mapping[str, Sequence[float]]) -> Iterator[str]:
    base = next(iter(found.values()))
    for name, micros in found.items():
        ratios = [one / other for one, other in zip(micros, base, strict=True)]
        span = f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})"
        yield f"| {name} | {min(micros):.2f} | {statistics.median(micros):.2f} | {span} |"


if __name__ == "__main__":
    main()
