"""Whole batches over a topic in memory, with real tasks in this process and a real catalog."""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, cast

import fastavro
from values_of_tables import NOW, topic

from frazil.adapters.embedded_schemas import WithEmbedded
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.probe import probe
from frazil.adapters.iceberg.rewrite_files import rewrite_files
from frazil.adapters.iceberg.update_rows import update_rows
from frazil.materialize.clients import Clients, Observer
from frazil.materialize.ingest.task import ingest
from frazil.materialize.outcome import Published
from frazil.materialize.preview.preflight import problems
from frazil.materialize.run import TableRun
from frazil.model.errors import FrazilError
from frazil.model.ingested import IngestTask, TaskResult, WrittenFile
from frazil.model.plan import NothingToDo, OffsetRange
from frazil.model.probe import FoundRows, ProbeTask
from frazil.model.rewrites import RewriteTask, Rewritten
from frazil.model.settings import RegistrySettings
from frazil.model.spec import TableSpec
from frazil.model.updates import UpdateTask
from frazil.ports import DeltaLogs, TaskRunner
from frazil.records import HeaderList, OptionalFields, Records
from tests.fakes.clients_in_memory import RegistryInMemory, TopicsInMemory, a_field, record

LONG = record(a_field("n"))


def framed(schema_id: int, text: str, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _parsed(text), value)
    return struct.pack(">bI", 0, schema_id) + out.getvalue()


@cache
def _parsed(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))


@dataclass
class World:
    """A topic of one partition, read by real tasks in this process into a real catalog."""

    lake: IcebergLake
    registry: RegistryInMemory = field(default_factory=RegistryInMemory)
    values: list[bytes] = field(default_factory=list)
    keys: dict[int, bytes] = field(default_factory=dict)
    """By offset; other records have no key."""
    headers: dict[int, HeaderList] = field(default_factory=dict)
    """By offset."""
    times: dict[int, int] = field(default_factory=dict)
    """Timestamps by offset, in milliseconds."""
    gone: set[int] = field(default_factory=set)
    """Offsets that compaction left empty."""
    earliest: int = 0
    parallelism: int = 1
    names: tuple[str, ...] = ("orders",)
    """Topics that have the same records."""
    delta_logs: Callable[[], DeltaLogs] = lambda: cast(Any, None)

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def read(self, ranges: Sequence[OffsetRange], columns: OptionalFields) -> Iterator[Iterator[Records]]:
        del columns
        return map(self._chunks, ranges)

    def _chunks(self, wanted: OffsetRange) -> Iterator[Records]:
        offsets = [n for n in range(wanted.start, wanted.end) if n not in self.gone]
        headers = [self.headers.get(n) for n in offsets]
        values = [self.values[n] for n in offsets]
        keys = [self.keys.get(n) for n in offsets]
        times = [self.times.get(n, 1_000) for n in offsets]
        yield Records.of(offsets, times, keys, values, headers, wanted.end, 0)

    def run(self, tasks: Sequence[IngestTask], *, name: str) -> list[TaskResult]:
        del name
        return [ingest(task, reader=cast(Any, self), registry=WithEmbedded(cast(Any, self.registry))) for task in tasks]

    def find(self, tasks: Sequence[ProbeTask], *, name: str) -> list[FoundRows]:
        del name
        return [found for task in tasks for found in probe(task)]

    def update(self, tasks: Sequence[UpdateTask], *, name: str) -> list[WrittenFile]:
        del name
        return [file for task in tasks for file in update_rows(task)]

    def rewrite(self, tasks: Sequence[RewriteTask], *, name: str) -> list[Rewritten]:
        del name
        return [rewrite_files(task) for task in tasks]

    @property
    def topics(self) -> TopicsInMemory:
        facts = topic({0: (self.earliest, len(self.values))})
        return TopicsInMemory({name: replace(facts, topic=name, topic_id=f"id-{name}") for name in self.names})

    def table(self, wanted: TableSpec) -> TableRun:
        """A new process."""
        clients = Clients(
            lake=self.lake,
            topics=self.topics,
            registry=WithEmbedded(cast(Any, self.registry)),
            runner=cast(TaskRunner, self),
            kafka={},
            registry_settings=RegistrySettings("http://127.0.0.1:1"),
            now=lambda: NOW,
            new_id=lambda: uuid.uuid4().hex,
            on_receipt=lambda receipt: None,
            observe=lambda when, step: None,
            delta_logs=self.delta_logs,
        )
        return TableRun(wanted, clients, writer="w")

    def check(self, wanted: TableSpec) -> list[FrazilError]:
        return list(problems([wanted], lake=self.lake, topics=self.topics, registry=self.registry))


def drained(world: World, wanted: TableSpec, *, after_batch: Callable[[], None] = lambda: None) -> list[str]:
    """Read all in a new process. Returns the changes of the table."""
    changes: list[str] = []
    table = world.table(wanted)
    for _ in range(10):
        outcome = table.batch()
        if isinstance(outcome, NothingToDo):
            return changes
        changes += outcome.receipt.schema_changes if isinstance(outcome, Published) else ()
        after_batch()
    raise AssertionError("the topic does not end")


def once(moment: tuple[str, str], act: Callable[[], object]) -> Observer:
    """Act at a moment of a batch, the first time that it comes."""
    waiting = [moment]

    def observe(when: str, step: str) -> None:
        if (when, step) in waiting:
            waiting.clear()
            act()

    return observe
