"""A table with an output topic, whose every record is known, on a catalog of its own and a cluster in memory."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import fastavro
from values_of_tables import spec
from whole_batches import World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.snapshot_rows import SnapshotRows
from frazil.materialize.preview.preflight import problems
from frazil.materialize.run import TableRun
from frazil.model.errors import FrazilError
from frazil.model.outputs import OutputSpec
from frazil.model.plan import NothingToDo
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.outputs.ports import OutputClients
from tests.fakes.clients_in_memory import a_field, record
from tests.fakes.output_topics_in_memory import OutputTopicsInMemory, SchemasInMemory

TOPIC = "orders.clean"
ROWS_OF_A_BATCH = 3
ORDER = record(a_field("n"), a_field("symbol", "string"))


@dataclass
class OutputWorld:
    """Orders with the numbers 0, 1, 2 … in a topic, the table of these and its output."""

    source: World
    spec: TableSpec
    cluster: OutputTopicsInMemory = field(default_factory=lambda: OutputTopicsInMemory({TOPIC: 4}))
    schemas: SchemasInMemory = field(default_factory=SchemasInMemory)

    @classmethod
    def at(cls, folder: Path, *outputs: OutputSpec, **changes: Any) -> OutputWorld:
        source = World(IcebergLake(CatalogSettings("jdbc", str(folder / "warehouse"))))
        source.registry.register("orders-value", ORDER)
        made = outputs or (OutputSpec(TOPIC, TOPIC, key=("kafka_key",)),)
        trigger = replace(spec().trigger, rows=ROWS_OF_A_BATCH)
        return cls(source, spec(outputs=made, trigger=trigger, **changes))

    def produce(self, count: int) -> None:
        for _ in range(count):
            number = len(self.source.values)
            self.source.keys[number] = f"key-{number}".encode()
            self.source.values.append(framed(1, ORDER, {"n": number, "symbol": f"S{number % 3}"}))

    def write(self, *records: tuple[str, int | None]) -> None:
        """Produce records of these keys, each with this number, or without a value."""
        for key, number in records:
            self.source.keys[len(self.source.values)] = key.encode()
            value = None if number is None else framed(1, ORDER, {"n": number, "symbol": key})
            self.source.values.append(value)  # type: ignore[arg-type]

    def run(self) -> TableRun:
        """A new process."""
        made = self.source.table(self.spec)
        outputs = OutputClients(self.cluster, self.schemas, SnapshotRows())
        made.clients = replace(made.clients, outputs=lambda: outputs)
        return made

    def drain(self, run: TableRun | None = None) -> TableRun:
        run = self.refreshed(run or self.run())
        for _ in range(30):
            if isinstance(run.batch(), NothingToDo):
                return run
        raise AssertionError("the topic does not end")

    def refreshed(self, run: TableRun) -> TableRun:
        """Let a process see the topic as it is now."""
        run.clients = replace(run.clients, topics=self.source.topics)
        return run

    def check(self) -> list[FrazilError]:
        """What `frazil check` reports."""
        outputs = OutputClients(self.cluster, self.schemas, SnapshotRows())
        world = self.source
        found = problems(
            [self.spec], lake=world.lake, topics=world.topics, registry=world.registry, outputs=lambda: outputs
        )
        return list(found)

    @property
    def view(self) -> TableView:
        found = self.source.lake.load(self.spec.identifier)
        assert found is not None
        return found

    def decoded(self, payload: bytes) -> dict[str, Any]:
        schema = json.loads(self.schemas.schema(int.from_bytes(payload[1:5], "big")))
        value: Any = fastavro.schemaless_reader(io.BytesIO(payload[5:]), schema, None)
        assert payload[0] == 0
        return dict(value)

    def sent(self, topic: str = TOPIC) -> list[tuple[bytes | None, dict[str, Any] | None]]:
        """Key and decoded value of each record that a reader of committed records sees."""
        records = self.cluster.committed.get(topic, [])
        return [(key, None if value is None else self.decoded(value)) for key, value in records]

    def numbers(self, topic: str = TOPIC) -> list[int]:
        return [value["n"] for _, value in self.sent(topic) if value is not None]
