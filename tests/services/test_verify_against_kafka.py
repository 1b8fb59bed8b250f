"""Record by record against a real broker: what the table's own sums cannot show, this shows."""

from __future__ import annotations

import functools
import io
import json
import struct
import time
import urllib.request
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.io.pyarrow import _dataframe_to_data_files

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.adapters.kafka.written_offsets import WrittenOffsets
from frazil.adapters.registry import ConfluentRegistry
from frazil.formats.placement import place_by_name
from frazil.local.supervisor import LocalServices
from frazil.materialize.clients import Clients
from frazil.materialize.ingest import placing
from frazil.materialize.pause.pausing import excluded_schemas_property
from frazil.materialize.run import TableRun
from frazil.model.plan import NothingToDo
from frazil.model.schemas import ExcludedSchemas
from frazil.model.settings import CatalogSettings, RegistrySettings
from frazil.model.spec import TableSpec
from frazil.proof.chain import GapCauses
from frazil.proof.verification import Check, Discrepancy, FindingKind, Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.gap_causes import with_causes
from frazil.verify.ranges import with_chain
from frazil.verify.table import verify_table
from tests.fakes.in_process import InProcessRunner
from tests.table.small_lake import altered, spec_of, without

GIFT = {"type": "record", "name": "Gift", "fields": [{"name": "sku", "type": "string"}]}
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "price", "type": "double"},
        {"name": "items", "type": {"type": "array", "items": {"type": "map", "values": "string"}}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "gifts", "type": ["null", {"type": "array", "items": GIFT}], "default": None},
    ],
}
PARSED = fastavro.parse_schema(SCHEMA)


@dataclass(slots=True)
class Orders:
    """A topic of two partitions with its table."""

    services: LocalServices
    folder: Path
    spec: TableSpec
    schema_id: int

    @property
    def topic(self) -> str:
        return self.spec.topics[0]

    @property
    def kafka(self) -> dict[str, str]:
        return {"bootstrap.servers": self.services.bootstrap_servers, "log_level": "0"}

    @property
    def lake(self) -> IcebergLake:
        return IcebergLake(CatalogSettings("jdbc", str(self.folder)))

    def produce(self, count: int, *, partition: int = 0, **settings: str) -> None:
        """Orders numbered from 0, of which every tenth cannot become a row and every eleventh is a tombstone."""
        producer = Producer({**self.kafka, **settings})
        if settings:
            producer.init_transactions()
            producer.begin_transaction()
        for number in range(count):
            value = None if number % 11 == 10 else b"not framed" if number % 10 == 9 else self.framed(number)
            key = str(number) if partition == 0 else f"{number} of {partition}"
            producer.produce(self.topic, value, key.encode(), partition=partition)
        producer.flush()
        if settings:
            producer.abort_transaction()

    def framed(self, number: int) -> bytes:
        body = io.BytesIO()
        price = float("nan") if number % 7 == 0 else -0.0 if number % 7 == 1 else number / 3
        order = {"number": number, "price": price, "items": [{"sku": "a"}, {"sku": str(number)}], "note": None}
        order["gifts"] = [None, [], [{"sku": "g"}]][number % 3]
        fastavro.schemaless_writer(body, PARSED, order)
        return struct.pack(">bI", 0, self.schema_id) + body.getvalue()

    def materialize(self) -> None:
        registry = RegistrySettings(self.services.schema_registry_url)
        clients = Clients(
            self.lake,
            KafkaTopics(self.kafka),
            registry_of(self.services),
            InProcessRunner(),
            self.kafka,
            registry,
            lambda: datetime.now(UTC),
            lambda: uuid.uuid4().hex[:12],
            lambda receipt: None,
            lambda when, step: None,
            lambda: DeltaRsLogs(self.lake.storage),
        )
        run = TableRun(self.spec, clients, uuid.uuid4().hex[:8])
        while not isinstance(run.batch(), NothingToDo):
            pass

    def verify(self, spec: TableSpec | None = None) -> Verification:
        side = KafkaSide(KafkaTopics(self.kafka), KafkaReader(self.kafka), registry_of(self.services))
        return verify_table(self.lake, spec or self.spec, kafka=side)

    def replace_rows(self, change: Callable[[pa.Table], pa.Table], *, table: str | None = None) -> None:
        """Put other rows into the table, in one snapshot that looks like another writer's update."""
        loaded = self.lake.catalog.load_table(table or self.spec.identifier)
        with loaded.transaction() as transaction:
            files = list(_dataframe_to_data_files(loaded.metadata, change(loaded.scan().to_arrow()), loaded.io))
            with transaction.update_snapshot().overwrite() as replacing:
                for task in loaded.scan().plan_files():
                    replacing.delete_data_file(task.file)
                for file in files:
                    replacing.append_data_file(file)


@pytest.fixture
def orders(services: LocalServices, tmp_path: Path) -> Orders:
    topic = f"orders_{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": services.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    schema_id = _register(services, f"{topic}-value")
    spec = spec_of(topic, on_tombstone="skip", partition_by=("day(kafka_timestamp)",))
    found = Orders(services, tmp_path / "warehouse", spec, schema_id)
    found.produce(100)
    found.produce(20, partition=1)
    found.materialize()
    return found


def kafka_check(verification: Verification) -> Check:
    (check,) = [each for each in verification.checks if each.name == "kafka"]
    return check


def of_kind(verification: Verification, kind: FindingKind) -> list[Discrepancy]:
    return [finding for finding in verification.findings if finding.kind is kind]


def test_every_record_is_accounted_for_and_the_same(orders: Orders) -> None:
    verification = orders.verify()

    assert verification.findings == ()
    assert verification.notes == ()
    assert kafka_check(verification).says.startswith(
        "120 records in Kafka: 98 are rows, equal in every column; 12 are dead letters, equal in key,"
        " value, headers, timestamp, schema and reason; 10 were skipped"
    )


def test_two_batches_and_a_window_across_them_are_clean(orders: Orders) -> None:
    orders.produce(100)
    orders.materialize()

    assert orders.verify().findings == ()


def test_a_table_that_follows_keys_is_compared_key_by_key(orders: Orders) -> None:
    orders.spec = replace(orders.spec, table="keyed", write="upsert", on_tombstone="delete", partition_by=())
    orders.materialize()
    orders.produce(50)
    orders.materialize()

    verification = orders.verify()
    orders.replace_rows(altered("kafka_offset", {148: 48}))

    assert verification.findings == ()
    assert kafka_check(verification).says.startswith("170 records in Kafka: 98 are rows")
    assert verification.notes == ()
    (stale,) = of_kind(orders.verify(), FindingKind.STALE_ROW)
    assert str(stale).startswith(f"{orders.topic}-0@148: the row of the record's key is from offset 48")


def test_altered_value_is_named_with_its_record_and_column(orders: Orders) -> None:
    orders.replace_rows(altered("number", {42: 43}))

    verification = orders.verify()

    assert [str(finding) for finding in verification.findings] == [
        f"{orders.topic}-0@42: column number: 43 in the table, 42 in Kafka"
    ]


@pytest.mark.parametrize(("was", "now"), [("nan", 1.0), ("-0.0", 0.0)])
def test_altered_float_is_found_bit_by_bit(orders: Orders, was: str, now: float) -> None:
    def change(table: pa.Table) -> pa.Table:
        prices = [now if str(price) == was else price for price in table["price"].to_pylist()]
        return table.set_column(1, table.schema.field(1), pa.array(prices))

    orders.replace_rows(change)

    found = of_kind(orders.verify(), FindingKind.DIFFERENT_ROW)
    assert found
    assert all(f"column price: {now!r} in the table, {was} in Kafka" in finding.what for finding in found)


def test_altered_value_deep_inside_is_found(orders: Orders) -> None:
    def change(table: pa.Table) -> pa.Table:
        items = table["items"].to_pylist()
        items[3][1] = [("sku", "other")]
        index = table.schema.get_field_index("items")
        return table.set_column(index, table.schema.field(index), pa.array(items, table.schema.field(index).type))

    orders.replace_rows(change)

    (found,) = of_kind(orders.verify(), FindingKind.DIFFERENT_ROW)
    assert "column items" in found.what


def test_row_that_nobody_deleted_openly_is_a_missing_record(orders: Orders) -> None:
    orders.replace_rows(_swapped)

    verification = orders.verify()

    (missing,) = of_kind(verification, FindingKind.MISSING_RECORD)
    assert (missing.where, missing.offsets) == (f"{orders.topic}-0", (42,))


def test_foreign_delete_is_listed_and_clean(orders: Orders) -> None:
    orders.lake.catalog.load_table(orders.spec.identifier).delete("number = 42")

    verification = orders.verify()

    assert verification.findings == ()
    assert any("offset 42; removals by other writers explain the number" in note for note in verification.notes)


def test_altered_dead_letter_is_named(orders: Orders) -> None:
    orders.replace_rows(altered("value", {b"not framed": b"not famed"}), table=orders.spec.dead_letters_identifier)

    found = of_kind(orders.verify(), FindingKind.DIFFERENT_DEAD_LETTER)

    assert len(found) == 12
    assert found[0].where == f"{orders.topic}-0@9"
    assert "b'not famed', b'not framed' in Kafka" in found[0].what


def test_aborted_records_are_no_records(orders: Orders) -> None:
    orders.produce(5, **{"transactional.id": uuid.uuid4().hex})
    orders.produce(3)
    orders.materialize()

    assert orders.verify().findings == ()


def test_aborted_records_and_their_marker_are_the_cause_of_gaps(orders: Orders) -> None:
    orders.produce(5, **{"transactional.id": "t"})
    orders.produce(3)
    orders.materialize()

    with WrittenOffsets(orders.kafka) as written:
        (found,) = with_causes([with_chain(orders.lake, orders.spec, orders.verify())], written)

    assert found.clean
    assert found.chain is not None
    causes = [link.causes for link in found.chain.partitions[0].links]
    assert causes[0] is None
    assert causes[-1] == GapCauses(aborted=5, markers=1)
    assert str(causes[-1]) == "5 records of aborted transactions, 1 transaction marker"


def test_row_at_an_offset_where_kafka_has_no_record_is_found(orders: Orders) -> None:
    orders.produce(5, **{"transactional.id": uuid.uuid4().hex})
    orders.produce(3)
    orders.materialize()
    orders.replace_rows(altered("kafka_offset", {42: 102}))

    verification = orders.verify()

    assert [f.offsets for f in of_kind(verification, FindingKind.MISSING_RECORD)] == [(42,)]
    assert [f.offsets for f in of_kind(verification, FindingKind.NOT_IN_KAFKA)] == [(102,)]


def test_what_retention_took_is_covered_by_the_table_alone(orders: Orders) -> None:
    admin = AdminClient(orders.kafka)
    for future in admin.delete_records([TopicPartition(orders.topic, 0, 50)]).values():
        future.result(30)

    verification = orders.verify()

    assert verification.findings == ()
    assert kafka_check(verification).says.startswith("70 records in Kafka: ")
    (note,) = verification.notes
    assert note.startswith(f"{orders.topic}-0: Kafka no longer has offsets [0, 50) of [0, 100)")


def test_records_are_skipped_by_the_setting_of_their_time(orders: Orders) -> None:
    rows = replace(orders.spec, on_tombstone="row")
    assert orders.verify(rows).findings == ()

    orders.spec = rows
    orders.produce(3)
    orders.materialize()

    verification = orders.verify()
    assert verification.findings == ()
    assert kafka_check(verification).says.endswith("10 were skipped according to the spec")


def test_rows_of_a_schema_that_was_excluded_since_are_the_same_records(orders: Orders) -> None:
    excluded = excluded_schemas_property(ExcludedSchemas(frozenset({orders.schema_id})))
    orders.lake.set_properties(orders.spec.identifier, put=excluded)
    orders.produce(9)
    orders.materialize()

    verification = orders.verify()

    assert verification.findings == ()
    assert kafka_check(verification).says.startswith("129 records in Kafka: 98 are rows, equal in every column; 21 are")


def test_topic_made_anew_is_found(orders: Orders) -> None:
    _made_anew(orders)

    (changed,) = of_kind(orders.verify(), FindingKind.SOURCE_CHANGED)

    assert changed.what.startswith("the topic was re-created")


@functools.cache
def registry_of(services: LocalServices) -> ConfluentRegistry:
    """One for all tests: the client leaves its sockets open."""
    return ConfluentRegistry(RegistrySettings(services.schema_registry_url))


def _register(services: LocalServices, subject: str) -> int:
    request = urllib.request.Request(
        f"{services.schema_registry_url}/subjects/{subject}/versions",
        data=json.dumps({"schema": json.dumps(SCHEMA)}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(json.load(answer)["id"])


def _made_anew(orders: Orders) -> None:
    admin, topics = AdminClient(orders.kafka), KafkaTopics(orders.kafka)
    admin.delete_topics([orders.topic])[orders.topic].result(30)
    _until(lambda: topics.describe(orders.topic) is None)
    admin.create_topics([NewTopic(orders.topic, 2, 1)])[orders.topic].result(30)
    _until(lambda: topics.describe(orders.topic) is not None)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _swapped(table: pa.Table) -> pa.Table:
    """Without number 42, and with number 44 twice: as many rows as before."""
    kept = without("number", 42)(table)
    return pa.concat_tables([kept, table.filter(pa.compute.equal(table["number"], 44)).slice(0, 1)])


def test_fields_that_ingest_puts_nowhere_are_found(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process did that used names which others had changed meanwhile."""

    def mistaken(given: pa.Schema, target: pa.Schema, former_names: object) -> dict[str, str]:
        return {at: source for at, source in place_by_name(given, target, {}).items() if at != "number"}

    with monkeypatch.context() as mistake:
        mistake.setattr(placing, "place_by_name", mistaken)
        mistake.setattr(placing, "homeless", lambda *_: ())
        orders.produce(4)
        orders.materialize()

    found = of_kind(orders.verify(), FindingKind.DIFFERENT_ROW)

    assert [finding.offsets for finding in found] == [(100,), (101,), (102,), (103,)]
    assert [finding.what for finding in found][:2] == [
        f"column number: None in the table, {number} in Kafka" for number in (0, 1)
    ]


def test_a_column_that_others_dropped_is_made_again_and_the_rows_before_are_not_proven(orders: Orders) -> None:
    loaded = orders.lake.catalog.load_table(orders.spec.identifier)
    with loaded.update_schema() as update:
        update.delete_column("price")

    (lost,) = of_kind(orders.verify(), FindingKind.NO_COLUMN)
    assert (lost.where, lost.what) == (f"schema {orders.schema_id}", "the table has no column for price")

    orders.produce(3, partition=1)
    orders.materialize()

    verification = orders.verify()
    assert of_kind(verification, FindingKind.NO_COLUMN) == []
    differing = {finding.where for finding in of_kind(verification, FindingKind.DIFFERENT_ROW)}
    assert differing
    assert f"{orders.topic}-1@20" not in differing
