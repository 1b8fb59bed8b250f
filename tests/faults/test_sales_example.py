"""The example of sales channels, killed on the way: its table and its topic are compared with the truth row by row."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from frazil.local.produce import produce
from frazil.local.sales_channel import NAMES, truth
from frazil.local.supervisor import LocalServices
from frazil.verify.table import verify_table
from tests.faults.sales_setting import setting_of
from tests.faults.test_killed import drivers
from tests.faults.world import World, admin_of, kafka_side
from tests.made_topics import committed, make_topic
from tests.sales_example import Row, SalesExample, clean_events

ROWS, SEED, PARTITIONS = 900, 4, 3
COLUMNS = ("event_id", "event_time", "channel", "product", "order", "customer")
PERSONAL = re.compile(rf"@example\.com|\+99 555|({'|'.join(NAMES)}) \d")


def sent_to(example: SalesExample) -> list[tuple[str, Row]]:
    """The key and the value of each committed record of the output topic."""
    context = SerializationContext(example.output_topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": example.services.schema_registry_url}) as registry:
        decode = AvroDeserializer(registry)
        found = [
            (record.key(), record.value())
            for record in committed(example.services.bootstrap_servers, example.output_topic)
        ]
        return [(bytes(key or b"").decode(), decode(bytes(value or b""), context)) for key, value in found]


def test_killed_on_the_way_each_event_is_there_once_without_personal_data(
    services: LocalServices, tmp_path: Path
) -> None:
    example, known = SalesExample.copied(tmp_path / "example", services), truth(ROWS, seed=SEED)
    make_topic(admin_of(services), example.output_topic, PARTITIONS, {})
    made = produce("sales_channel", ROWS, services=services, topic=example.topic, partitions=PARTITIONS, seed=SEED)
    world = World(setting_of(example), made.schema_id)

    with drivers(world, tmp_path) as start:
        for moment in ("before publish", "in transaction"):
            assert start.run("group", moment) == "killed", moment
        assert start.run("none") == "done"

    expected, sent = clean_events(known), list(sent_to(example))
    rows = world.table().scan(selected_fields=COLUMNS).to_arrow().to_pylist()
    assert ({row["event_id"]: row for row in rows}, len(rows)) == (expected, len(expected))
    assert (dict(sent), len(sent)) == (expected, len(expected))
    counts = world.standing().state.total()
    assert (counts.duplicates, counts.dead_letters) == (known.again, known.malformed)
    assert verify_table(world.lake, world.spec, kafka=kafka_side(world)).clean
    assert_no_personal_data(example.folder)


def assert_no_personal_data(folder: Path) -> None:
    """Look into all data files, also those of killed runs and of duplicates."""
    files = [*folder.rglob("*.parquet")]
    assert len(files) > 2
    for file in files:
        assert not PERSONAL.search(str(pq.read_table(file).to_pylist())), file
