"""A small world to break: a topic whose every record is known, a catalog, runs over them, and the final reckoning."""

from __future__ import annotations

import functools
import json
import pickle
import struct
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.adapters.registry import ConfluentRegistry
from frazil.cli.clients import outputs_of
from frazil.local.supervisor import LocalServices
from frazil.materialize.clients import Clients, Observer
from frazil.materialize.outcome import Outcome
from frazil.materialize.rebuild.perform import Rebuild
from frazil.materialize.rebuild.rewind import Target
from frazil.materialize.run import TableRun
from frazil.materialize.state import Standing, standing
from frazil.model.plan import NothingToDo
from frazil.model.progress import FOREIGN_NAMES_KEPT, MODULUS, OffsetSums
from frazil.model.settings import CatalogSettings, RegistrySettings
from frazil.model.spec import (
    BadRecordLimit,
    Maintain,
    MetadataColumns,
    OnTombstone,
    StartEarliest,
    SubjectSettings,
    TableSpec,
    Trigger,
    WriteMode,
)
from frazil.outputs.ports import OutputClients
from frazil.ports import DeltaLogs, Lake, SchemaRegistry, TaskRunner, Topics
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.ranges import with_chain
from frazil.verify.table import verify_table
from tests.fakes.in_process import InProcessRunner
from tests.faults.write_modes import WITH_DELETES, Place, Row, Sent, rows_of
from tests.made_topics import make_topic
from tests.rebuilds import rebuild_of

WAIT_SECONDS = 120.0
_QUIET = {"log_level": "0"}
SCHEMA = {"type": "record", "name": "Numbered", "fields": [{"name": "n", "type": "long"}]}
AWS_REGION = "us-east-1"
COLUMNS = ("n", "kafka_partition", "kafka_offset")
INTERVAL = ("valid_from", "valid_to", "is_current")
BATCHES = 60
"""More than any world needs: a run that does not come to an end is a failure, not a wait."""

OWN_KEY, TOMBSTONE = 7, 5
"""In a table that follows keys, every so many records one has a key of its own, and one deletes its key."""


@dataclass(frozen=True, slots=True)
class Setting:
    """All that a process needs to run the world's pipeline, or to rebuild. It travels between processes.

    `others` are the tables that are read together with that of `spec`.
    """

    services: LocalServices
    catalog: CatalogSettings
    spec: TableSpec
    others: tuple[TableSpec, ...] = ()
    rebuilds: bool = False
    target: Target | None = None

    @property
    def kafka(self) -> dict[str, str]:
        return dict(_QUIET) | {"bootstrap.servers": self.services.bootstrap_servers}

    @property
    def registry(self) -> RegistrySettings:
        return RegistrySettings(self.services.schema_registry_url)

    def clients(
        self,
        *,
        lake: Lake | None = None,
        topics: Topics | None = None,
        registry: SchemaRegistry | None = None,
        runner: TaskRunner | None = None,
        observe: Observer | None = None,
        delta_logs: DeltaLogs | None = None,
        outputs: Callable[[], OutputClients] | None = None,
    ) -> Clients:
        return Clients(
            lake=lake or IcebergLake(self.catalog),
            topics=topics or topics_of(self.services),
            registry=registry or registry_of(self.services),
            runner=runner or InProcessRunner(),
            kafka=self.kafka,
            registry_settings=self.registry,
            now=lambda: datetime.now(UTC),
            new_id=_new_id,
            on_receipt=_nobody,
            observe=observe or _nobody,
            delta_logs=lambda: delta_logs or DeltaRsLogs(self.catalog.properties),
            outputs=outputs or outputs_of(self.kafka, self.registry),
        )

    def run(self, clients: Clients | None = None) -> TableRun:
        """Return a run with a new writer id, as a new process has."""
        return TableRun(self.spec, clients or self.clients(), writer=_new_id(), others=self.others)

    def rebuild(self, clients: Clients) -> Rebuild:
        """Return a rebuild, or a rewind to the target, as a new process has."""
        return rebuild_of(self.run(clients), self.target)

    def save(self, path: Path) -> Path:
        path.write_bytes(pickle.dumps(self))
        return path


@dataclass(slots=True)
class World:
    """A topic and a table.

    `rows`, `tombstones` and `bad` map the position of each produced record to its number; `keys` and `millis` have its
    key and its timestamp.
    """

    setting: Setting
    schema_id: int
    rows: dict[Place, int] = field(default_factory=dict)
    tombstones: dict[Place, int] = field(default_factory=dict)
    bad: dict[Place, int] = field(default_factory=dict)
    keys: dict[Place, str] = field(default_factory=dict)
    millis: dict[Place, int] = field(default_factory=dict)
    with_tombstones: bool = True
    """Whether records delete keys, if the table's mode has deletes."""

    excluded: set[Place] = field(default_factory=set)
    replays: set[Place] = field(default_factory=set)
    inserted: list[int] = field(default_factory=list)
    deleted: set[int] = field(default_factory=set)
    next_number: int = 0
    lake: IcebergLake = field(init=False)
    """One for all looks and runs in this process: opening a catalog costs more than a batch."""

    def __post_init__(self) -> None:
        self.lake = IcebergLake(self.setting.catalog)

    @property
    def spec(self) -> TableSpec:
        return self.setting.spec

    @property
    def topic(self) -> str:
        return self.spec.topics[0]

    def run(self, observe: Observer | None = None, **clients: object) -> TableRun:
        """A new driver in this process."""
        return self.setting.run(self.setting.clients(observe=observe, **{"lake": self.lake, **clients}))  # type: ignore[arg-type]

    def produce(
        self,
        count: int = 6,
        *,
        partitions: Sequence[int] = (0, 1),
        producer: Producer | None = None,
        keys: int | None = None,
    ) -> None:
        """Records over the partitions in turn; every third cannot become a row. `keys` is how many keys they share."""
        producer = producer or plain_producer(self.setting.services)
        for index in range(count):
            key = None if keys is None else f"shared-{index % keys}"
            bad, partition = index % 3 == 1, partitions[index % len(partitions)]
            self.send(producer, partition, bad=bad, key=key, tombstone=not bad and self._deletes())
        assert producer.flush(WAIT_SECONDS) == 0

    def send(
        self,
        producer: Producer,
        partition: int,
        *,
        bad: bool = False,
        counts: bool = True,
        key: str | None = None,
        tombstone: bool = False,
    ) -> None:
        """One record. `counts` is false for a record that must never become visible (its transaction is aborted)."""
        number, self.next_number = self.next_number, self.next_number + 1
        value = b"not framed" if bad else None if tombstone else framed(self.schema_id, number)
        known = self.bad if bad else self.tombstones if tombstone else self.rows
        key = key or self._key(number, partition)
        noted = self.noting(known if counts else {}, number, key)
        producer.produce(self.topic, value, key.encode(), partition=partition, on_delivery=noted)

    def noting(self, known: dict[Place, int], number: int, key: str) -> Callable[[object, Message], None]:
        """Return what notes the place of a record that was delivered."""

        def delivered(error: object, message: Message) -> None:
            assert error is None, error
            place = int(message.partition() or 0), int(message.offset() or 0)
            known[place] = number
            self.keys[place], self.millis[place] = key, int(message.timestamp()[1])

        return delivered

    def _key(self, number: int, partition: int) -> str:
        """Return the key of a record: of a table that follows keys, one of two in its partition, or one of its own."""
        if self.spec.write == "append" or number % OWN_KEY == 0:
            return f"key-{number}"
        return f"key-of-{partition}-{number // 3 % 2}"

    def _deletes(self) -> bool:
        return self.with_tombstones and self.spec.write in WITH_DELETES and self.next_number % TOMBSTONE == 3

    @property
    def sent(self) -> list[Sent]:
        """The records that are no dead letters."""
        return [
            Sent(place, self.keys[place], number, self.millis[place], replayed=place in self.replays)
            for known in (self.rows, dict.fromkeys(self.tombstones))
            for place, number in known.items()
        ]

    def known(self) -> dict[str, dict[Place, Any]]:
        """Return what is known of the topic's records now."""
        return {name: dict(getattr(self, name)) for name in ("rows", "tombstones", "bad", "keys", "millis")}

    def know(self, known: Mapping[str, dict[Place, Any]]) -> None:
        """Forget what was produced since."""
        for name, places in known.items():
            setattr(self, name, places)

    def replayed(self, *places: Place) -> None:
        """These dead letters are no more; without any, all with a number that a row can have."""
        for place in places or tuple(self.excluded):
            if place in self.bad:
                self.rows[place] = self.bad.pop(place)
                self.replays.add(place)

    def catch_up(self, run: TableRun | None = None) -> TableRun:
        """Run batch after batch until nothing is left."""
        run = run or self.run()
        until_caught_up(run)
        return run

    def insert(self) -> None:
        """A user's INSERT."""
        number, self.next_number = self.next_number, self.next_number + 1
        table = self.table()
        table.append(one_row(number))
        self.inserted.append(number)

    def delete(self) -> None:
        """A user's DELETE of one row that is there."""
        table = self.table()
        found = table.scan(selected_fields=("n",)).to_arrow()["n"].to_pylist()
        there = [n for n in found if n not in self.inserted and self._stays_deleted(n)]
        if there:
            table.delete(EqualTo("n", there[0]))
            self.deleted.add(there[0])

    def _stays_deleted(self, number: int) -> bool:
        """Return whether no other record becomes a row because this row is gone."""
        return self.spec.write != "deduplicate" or number % OWN_KEY == 0

    def set_property(self) -> None:
        """A user's ALTER TABLE … SET TBLPROPERTIES."""
        with self.table().transaction() as transaction:
            transaction.set_properties({f"user.{_new_id()}": "set"})

    def expire(self, *identifiers: str) -> None:
        """All snapshots that no branch and no tag points to expire, of both tables unless others are named."""
        for identifier in identifiers or (self.spec.identifier, self.spec.dead_letters_identifier):
            if self.lake.catalog.table_exists(identifier):
                self.table(identifier).maintenance.expire_snapshots().older_than(datetime.now() + timedelta(1)).commit()

    def roll_back(self) -> None:
        """The table goes back to the snapshot before its last batch."""
        here = self.standing()
        if here.carrier.parent_id is not None:
            self.table().manage_snapshots().rollback_to_snapshot(here.carrier.parent_id).commit()

    def table(self, identifier: str | None = None) -> Table:
        return self.lake.catalog.load_table(identifier or self.spec.identifier)

    def standing(self) -> Standing:
        view = self.lake.load(self.spec.identifier)
        assert view is not None
        return standing(view, pipeline=self.spec.pipeline)

    def scanned(self, identifier: str, *columns: str) -> list[tuple[object, ...]]:
        table = self.lake.catalog.load_table(identifier)
        found = table.scan(selected_fields=columns).to_arrow().to_pylist()
        return sorted((tuple(row[c] for c in columns) for row in found), key=repr)


def one_row(number: int) -> pa.Table:
    return pa.table({"n": [number]}, schema=pa.schema([("n", pa.int64())]))


def until_caught_up(run: TableRun) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for _ in range(BATCHES):
        outcomes.append(run.batch())
        if isinstance(outcomes[-1], NothingToDo):
            return outcomes
    raise AssertionError(f"not caught up after {BATCHES} batches: {outcomes[-1]}")


def assert_exactly_once(world: World, kafka: KafkaSide | None = None, *, against_kafka: bool = True) -> None:
    """Check that the table has what its mode makes of each record, each bad one is a dead letter, and the state agrees.

    A table that follows keys is compared with the topic, unless the topic is another one now.
    """
    spec = world.spec
    found = world.scanned(spec.identifier, *COLUMNS, *(INTERVAL if spec.write == "history" else ()))
    dead = unmarked(world)
    rows, duplicates = rows_of(spec.write, world.sent)

    assert _surplus(found, _expected_rows(world, rows)) == ([], []), "rows (missing, unexpected)"
    assert _surplus(dead, list(world.bad)) == ([], []), "dead letters (missing, unexpected)"
    _assert_counts_agree(world, rows, duplicates)
    if spec.write != "append" and against_kafka:
        kafka = kafka or kafka_side(world)
    proof = with_chain(world.lake, spec, verify_table(world.lake, spec, kafka=kafka))
    assert proof.clean, [str(finding) for finding in proof.findings]
    more = proof.foreign.rows_added - proof.foreign.rows_removed
    assert more == len(world.inserted) - len(world.deleted), proof.foreign
    assert len(proof.foreign.names) >= min(len(world.inserted) + len(world.deleted), FOREIGN_NAMES_KEPT)


def unmarked(world: World) -> list[tuple[object, ...]]:
    """The places of the dead letters that no replay made rows of. A mark takes one letter away, not its duplicates."""
    names = ("partition", "offset", "replayed_epoch")
    found = world.scanned(world.spec.dead_letters_identifier, *names)
    left = Counter(place[:2] for place in found if place[2] is None)
    left.subtract(place[:2] for place in found if place[2] is not None)
    return list((+left).elements())


def kafka_side(world: World) -> KafkaSide:
    """For a proof record by record."""
    services = world.setting.services
    return KafkaSide(topics_of(services), KafkaReader(world.setting.kafka), registry_of(services))


def _expected_rows(world: World, rows: Sequence[Row]) -> list[tuple[object, ...]]:
    history = world.spec.write == "history"
    ours = [
        (each.sent.number, *each.sent.place, *(_interval(each) if history else ()))
        for each in rows
        if each.sent.number not in world.deleted
    ]
    nothing = (None,) * (5 if history else 2)
    return [*ours, *((n, *nothing) for n in world.inserted if n not in world.deleted)]


def _interval(row: Row) -> tuple[datetime | None, datetime | None, bool]:
    return _time(row.begin), _time(row.end), row.end is None


def _time(millis: int | None) -> datetime | None:
    return None if millis is None else datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=millis)


def _surplus(found: Sequence[object], expected: Sequence[object]) -> tuple[list[object], list[object]]:
    missing, extra = Counter(expected), Counter(found)
    missing.subtract(found)
    extra.subtract(expected)
    return sorted((+missing).elements(), key=repr), sorted((+extra).elements(), key=repr)


def _assert_counts_agree(world: World, rows: Sequence[Row], duplicates: int) -> None:
    state = world.standing().state
    total = state.total()
    assert total.balanced
    assert (total.rows, total.duplicates) == (len(world.rows) - duplicates, duplicates)
    assert (total.deletes, total.dead_letters) == (len(world.tombstones), len(world.bad))
    if world.deleted and world.spec.write == "upsert":
        return  # the sums still have a row that was deleted by others, but not one that was replaced before
    for number, progress in state.sources[0].partitions.items():
        offsets = [offset for partition, offset in (row.sent.place for row in rows) if partition == number]
        assert progress.live_rows == len(offsets)
        assert progress.sums == OffsetSums(sum(offsets) % MODULUS, sum(o * o for o in offsets) % MODULUS)


# --- making a world -------------------------------------------------------------------------------------------------


def new_world(services: LocalServices, catalog: CatalogSettings, *, partitions: int = 2, **topic: str) -> World:
    """A topic with a schema and nothing in it, and no table yet. `topic` is its configuration."""
    name = f"faults_{_new_id()}"
    make_topic(admin_of(services), name, partitions, {key.replace("_", "."): value for key, value in topic.items()})
    schema_id = register(services, f"{name}-value", SCHEMA)
    return World(Setting(services, catalog, _spec(name)), schema_id)


def with_trigger(world: World, *, rows: int) -> World:
    trigger = replace(world.spec.trigger, rows=rows)
    return replace(world, setting=replace(world.setting, spec=replace(world.spec, trigger=trigger)))


def with_mode(world: World, write: WriteMode) -> World:
    """Return the world with a table of this mode. If it is not `append`, records share keys."""
    tombstones: OnTombstone = "delete" if write in WITH_DELETES else "row"
    spec = replace(world.spec, write=write, on_tombstone=tombstones)
    return replace(world, setting=replace(world.setting, spec=spec))


def jdbc_catalog(folder: Path) -> CatalogSettings:
    return CatalogSettings(type="jdbc", warehouse=str(folder))


def glue_catalog(services: LocalServices) -> CatalogSettings:
    """A bucket of its own on the local AWS."""
    bucket = f"faults-{_new_id()}"
    identity = {"access-key-id": "local", "secret-access-key": "local", "region": AWS_REGION}
    properties = {f"{part}.{key}": value for part in ("glue", "s3") for key, value in identity.items()}
    properties |= {f"{part}.endpoint": services.aws_endpoint_url for part in ("glue", "s3")}
    boto3.client(
        "s3",
        endpoint_url=services.aws_endpoint_url,
        region_name=AWS_REGION,
        aws_access_key_id="local",
        aws_secret_access_key="local",
    ).create_bucket(Bucket=bucket)
    return CatalogSettings(type="glue", warehouse=f"s3://{bucket}/lake", properties=properties)


def register(services: LocalServices, subject: str, schema: object) -> int:
    body = json.dumps({"schemaType": "AVRO", "schema": json.dumps(schema)}).encode()
    request = urllib.request.Request(
        f"{services.schema_registry_url}/subjects/{subject}/versions",
        data=body,
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
        return int(json.load(answer)["id"])


# One client of each kind for all worlds of a process: each costs threads, sockets and a tenth of a second.


@functools.cache
def admin_of(services: LocalServices) -> AdminClient:
    return AdminClient({**_QUIET, "bootstrap.servers": services.bootstrap_servers})


@functools.cache
def plain_producer(services: LocalServices) -> Producer:
    return producer_of(services)


@functools.cache
def topics_of(services: LocalServices) -> KafkaTopics:
    return KafkaTopics({**_QUIET, "bootstrap.servers": services.bootstrap_servers})


@functools.cache
def registry_of(services: LocalServices) -> ConfluentRegistry:
    return ConfluentRegistry(RegistrySettings(services.schema_registry_url))


def producer_of(services: LocalServices, **settings: object) -> Producer:
    return Producer({**_QUIET, "bootstrap.servers": services.bootstrap_servers, "linger.ms": 0, **settings})


def framed(schema_id: int, number: int, more: bytes = b"") -> bytes:
    return struct.pack(">bI", 0, schema_id) + _zigzag(number) + more


def _zigzag(number: int) -> bytes:
    left, encoded = number << 1, bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*encoded, left])


def _spec(topic: str) -> TableSpec:
    return TableSpec(
        source_file="tables/faults.yaml",
        database=topic,
        table="numbered",
        topics=(topic,),
        key="string",
        value="avro",
        write="append",
        partition_by=(),
        readers=("duckdb",),
        on_bad_record="dead_letter",
        bad_record_limit=BadRecordLimit.off(),
        on_tombstone="row",
        on_incompatible_schema="pause",
        trigger=Trigger(every=timedelta(seconds=60), rows=1000, bytes=10**9),
        maintain=Maintain(target_file_bytes=512 << 20),
        start=StartEarliest(),
        metadata=MetadataColumns(),
        value_subject=SubjectSettings(),
        key_subject=SubjectSettings(),
    )


def _new_id() -> str:
    return uuid.uuid4().hex[:12]


def _nobody(*_: object) -> None:
    return
