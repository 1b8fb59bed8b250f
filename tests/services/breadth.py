"""Topics, schemas and tables on the real services: what every test of breadth starts from."""

from __future__ import annotations

import functools
import io
import json
import struct
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import boto3
import fastavro
import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.adapters.registry import ConfluentRegistry
from frazil.cli.clients import outputs_of
from frazil.local.supervisor import LocalServices
from frazil.materialize.clients import Clients
from frazil.materialize.outcome import Outcome, Published
from frazil.materialize.pause.pausing import ACCEPTED_PROPERTY, PAUSED_PROPERTY
from frazil.materialize.rebuild.perform import Rebuild
from frazil.materialize.rebuild.rewind import Target
from frazil.materialize.run import TableRun
from frazil.materialize.state import standing
from frazil.model.plan import NothingToDo
from frazil.model.progress import TableState
from frazil.model.receipt import Receipt
from frazil.model.settings import CatalogSettings, RegistrySettings, Settings
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import SchemaRegistry
from frazil.specs.load import load_settings
from frazil.specs.select import read_together
from tests.fakes.in_process import InProcessRunner
from tests.made_topics import make_topic
from tests.rebuilds import rebuild_of

WAIT_SECONDS = 120.0
REGION = "us-east-1"
QUIET = {"log_level": "0"}
MOST_BATCHES = 100

Headers = Sequence[tuple[str, bytes | None]]
Sent = dict[int, list[tuple[int, bytes | None, bytes | None]]]


class NoSecrets:
    def read(self, name: str) -> str | None:
        raise AssertionError(name)


@functools.cache
def producer_of(services: LocalServices) -> Producer:
    in_order = {"enable.idempotence": True}  # a new topic refuses the first records for a moment
    return Producer({**QUIET, **in_order, "bootstrap.servers": services.bootstrap_servers, "linger.ms": 5})


@functools.cache
def admin_of(services: LocalServices) -> AdminClient:
    return AdminClient({**QUIET, "bootstrap.servers": services.bootstrap_servers})


# One client of each kind for all tests: an HTTP client that is not closed is a warning, and warnings are errors.


@functools.cache
def registry_client(services: LocalServices) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": services.schema_registry_url})


@functools.cache
def registry_of(services: LocalServices) -> ConfluentRegistry:
    return ConfluentRegistry(RegistrySettings(services.schema_registry_url))


@dataclass(slots=True)
class Place:
    """A folder with a configuration, on the real services: tables are described by specs as a user writes them."""

    services: LocalServices
    folder: Path
    catalog: Mapping[str, object] = field(default_factory=lambda: {"type": "jdbc", "warehouse": "warehouse"})
    name: str = field(default_factory=lambda: f"b{uuid.uuid4().hex[:10]}")

    # --- Kafka and the registry

    def topic(self, suffix: str = "", partitions: int = 1, **config: str) -> str:
        """Create a topic; suffixes distinguish several topics of one test."""
        name = f"{self.name}{suffix}"
        make_topic(admin_of(self.services), name, partitions, config)
        return name

    def register(
        self,
        subject: str,
        schema: object,
        *,
        references: Sequence[tuple[str, str]] = (),
        kind: Literal["AVRO", "JSON", "PROTOBUF"] = "AVRO",
    ) -> int:
        """A schema under a subject, whatever was there before; references are names with their subjects."""
        refs = [SchemaReference(name, of, 1) for name, of in references]
        text = schema if isinstance(schema, str) and kind != "AVRO" else json.dumps(schema)
        return registry_client(self.services).register_schema(subject, Schema(text, kind, refs))

    def send(
        self, topic: str, *values: bytes | None, key: bytes | None = None, partition: int = 0, **more: Any
    ) -> None:
        producer = producer_of(self.services)
        for value in values:
            producer.produce(topic, value, key, partition=partition, **more)
        assert producer.flush(WAIT_SECONDS) == 0

    @property
    def registry_section(self) -> dict[str, object]:
        return {"url": self.services.schema_registry_url}

    def opened(self) -> SchemaRegistry:
        return registry_of(self.services)

    # --- tables

    def settings(self, *specs: str) -> Settings:
        """The configuration with exactly these table specs."""
        tables = self.folder / "tables"
        tables.mkdir(parents=True, exist_ok=True)
        for old in tables.glob("*.yaml"):
            old.unlink()
        for number, text in enumerate(specs):
            (tables / f"t{number:02d}.yaml").write_text(text, encoding="utf-8")
        written = {
            "kafka": {"bootstrap.servers": self.services.bootstrap_servers},
            "schema_registry": self.registry_section,
            "catalog": self.catalog,
            "database": self.name,
        }
        (self.folder / "frazil.yaml").write_text(json.dumps(written), encoding="utf-8")
        return load_settings(self.folder / "frazil.yaml", {}, NoSecrets())

    def runs(self, *specs: str, adopt: bool = False, **clients: Any) -> list[TableRun]:
        settings = self.settings(*specs)
        receipts: list[Receipt] = []
        known = Clients(
            lake=IcebergLake(settings.catalog),
            topics=KafkaTopics({**QUIET, **settings.kafka}),
            registry=self.opened(),
            runner=InProcessRunner(),
            kafka={**QUIET, **settings.kafka},
            registry_settings=settings.registry,
            now=lambda: datetime.now(UTC),
            new_id=lambda: uuid.uuid4().hex[:12],
            on_receipt=receipts.append,
            observe=lambda *_: None,
            delta_logs=lambda: DeltaRsLogs(settings.catalog.properties),
            outputs=outputs_of({**QUIET, **settings.kafka}, settings.registry),
        )
        writer, known = uuid.uuid4().hex[:12], replace(known, **clients)
        return [
            TableRun(first, known, writer, adopt=adopt, others=others)
            for first, *others in read_together(settings.tables)
        ]

    def run(self, spec: str, **how: Any) -> TableRun:
        (run,) = self.runs(spec, **how)
        return run

    def rebuild(self, spec: str, target: Target | None = None) -> Rebuild:
        """The rebuild of the tables of a spec, or their rewind, by a process of its own."""
        return rebuild_of(self.run(spec), target)

    def materialize(self, spec: str, **how: Any) -> Table:
        """All that is there, by a process of its own."""
        run = self.run(spec, **how)
        catch_up(run)
        return Table(run)


def catch_up(run: TableRun) -> list[Outcome]:
    outcomes: list[Outcome] = []
    while not isinstance(outcome := run.batch(), NothingToDo):
        outcomes.append(outcome)
        assert len(outcomes) < MOST_BATCHES, outcome
    return outcomes


def receipts(outcomes: Sequence[Outcome]) -> list[Receipt]:
    return [each.receipt for each in outcomes if isinstance(each, Published)]


@dataclass(frozen=True, slots=True)
class Table:
    """What a run has made, as a reader sees it."""

    of: TableRun

    @property
    def spec(self) -> TableSpec:
        return self.of.spec

    @property
    def catalog(self) -> CatalogSettings:
        return self.of.clients.lake._settings  # type: ignore[attr-defined, no-any-return]

    @property
    def view(self) -> TableView:
        view = IcebergLake(self.catalog).load(self.spec.identifier)
        assert view is not None
        return view

    @property
    def state(self) -> TableState:
        return standing(self.view, pipeline=self.spec.pipeline).state

    @property
    def types(self) -> dict[str, str]:
        return {column.name: str(column.type) for column in self.view.columns}

    def arrow(self) -> pa.Table:
        return self.view.current.scan().to_arrow()

    def rows(self, *columns: str) -> list[dict[str, Any]]:
        """In the order of partition and offset; all columns, or some."""
        found = self.arrow().to_pylist()
        found.sort(key=lambda row: (row["kafka_partition"], row["kafka_offset"]))
        return [{name: row[name] for name in columns} if columns else row for row in found]

    def dead_letters(self, *columns: str) -> list[dict[str, Any]]:
        view = self.of.clients.lake.load(self.spec.dead_letters_identifier)
        assert view is not None
        found = view.current.scan().to_arrow().to_pylist()
        found.sort(key=lambda row: (row["partition"], row["offset"]))
        return [{name: row[name] for name in columns} if columns else row for row in found]

    @property
    def paused(self) -> dict[str, Any] | None:
        said = self.view.properties.get(PAUSED_PROPERTY)
        return None if said is None else json.loads(said)

    def resume(self) -> None:
        """What `frazil resume` does: the pause goes, and what it accepted stays."""
        said = self.paused
        assert said is not None
        put = {ACCEPTED_PROPERTY: json.dumps(said["accept"])} if "accept" in said else {}
        self.of.clients.lake.set_properties(self.spec.identifier, put=put, remove=[PAUSED_PROPERTY])


def framed(schema_id: int, body: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + body


def encode(schema: Any, schema_id: int, *records: Any, uses: Sequence[Any] = ()) -> list[bytes]:
    """Records as a producer sends them. `uses` are the schemas that this one refers to."""
    named: dict[str, Any] = {}
    for each in uses:
        fastavro.parse_schema(each, named_schemas=named)
    parsed = fastavro.parse_schema(schema, named_schemas=named)
    return [framed(schema_id, _body(parsed, record)) for record in records]


def _body(parsed: Any, record: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, record, strict_allow_default=True)
    return out.getvalue()


def record_of(*fields: tuple[Any, ...], name: str = "R") -> dict[str, Any]:
    """A record schema: fields as (name, type) or (name, type, alias, …)."""
    made = [{"name": f[0], "type": f[1], **({"aliases": list(f[2:])} if f[2:] else {})} for f in fields]
    return {"type": "record", "name": name, "fields": made}


def aws_identity(services: LocalServices) -> dict[str, str]:
    identity = {"access-key-id": "local", "secret-access-key": "local", "region": REGION}
    properties = {f"{part}.{key}": value for part in ("glue", "s3") for key, value in identity.items()}
    return {**properties, **{f"{part}.endpoint": services.aws_endpoint_url for part in ("glue", "s3")}}


def bucket_of(place: Place) -> Any:
    """Return the bucket of a place with a catalog from `glue_catalog`."""
    made = {"region_name": REGION, "aws_access_key_id": "local", "aws_secret_access_key": "local"}
    s3 = boto3.resource("s3", endpoint_url=place.services.aws_endpoint_url, **made)
    return s3.Bucket(str(place.catalog["warehouse"]).split("/")[2])


def glue_catalog(services: LocalServices) -> dict[str, object]:
    """A bucket of its own on the local AWS."""
    bucket = f"breadth-{uuid.uuid4().hex[:10]}"
    client = boto3.client(
        "s3",
        endpoint_url=services.aws_endpoint_url,
        region_name=REGION,
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )
    client.create_bucket(Bucket=bucket)
    return {"type": "glue", "warehouse": f"s3://{bucket}/lake", **aws_identity(services)}
