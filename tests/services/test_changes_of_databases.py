"""Change events of Debezium on a real broker, from the first look to the proof."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from breadth import WAIT_SECONDS, Place, Table, admin_of, catch_up, framed, producer_of
from confluent_kafka.admin import NewPartitions

from frazil.adapters.embedded_schemas import WithEmbedded
from frazil.cli import app
from tests.fakes.connect_samples import INT, STRING, json_record, json_schema, json_schema_payload, struct
from tests.fakes.debezium_samples import MONGODB, MYSQL, POSTGRES, UNAVAILABLE, Event, mongodb, mysql, order, postgres

KEY = struct("crm.crm.customers.Key", id=INT)
BY_POSITION = """
topic: {topic}
table: customers
key: connect_json
value: connect_json
write: upsert
cdc: debezium
cdc_order: source
cdc_connector: mysql
"""


def frazil(place: Place, *arguments: str) -> int:
    return app.run([*arguments, "--config", str(place.folder / "frazil.yaml")])


def send(place: Place, topic: str, op: str, email: str, pos: int, partition: int = 0) -> None:
    row: dict[str, Any] = {"id": 1, "email": email}
    image = {"before": row} if op == "d" else {"after": row}
    value = json_record(MYSQL, mysql(op, pos=pos, **image))
    place.send(topic, value, key=json_record(KEY, {"id": 1}), partition=partition)


def test_the_position_in_the_log_orders_changes_in_partitions_that_were_added(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = place.topic()
    spec = BY_POSITION.format(topic=topic)
    send(place, topic, "c", "first@example.com", 100)
    registry = WithEmbedded(place.opened())
    place.materialize(spec, registry=registry)
    added = admin_of(place.services).create_partitions([NewPartitions(topic, 2)])
    added[topic].result(WAIT_SECONDS)
    producer_of(place.services).list_topics(topic, timeout=WAIT_SECONDS)  # the producer learns of the partition
    send(place, topic, "u", "newest@example.com", 300, partition=1)
    place.materialize(spec, registry=registry)
    send(place, topic, "u", "late@example.com", 200)
    run = place.run(spec, registry=registry)
    catch_up(run)

    (row,) = Table(run).rows("email", "__position_file", "__position_pos", "kafka_partition")
    assert row == {
        "email": "newest@example.com",
        "__position_file": 3,
        "__position_pos": 300,
        "kafka_partition": 1,
    }
    send(place, topic, "d", "newest@example.com", 400, partition=1)
    catch_up(run)
    send(place, topic, "u", "late@example.com", 399)
    catch_up(run)
    assert Table(run).rows() == []
    for command in (["check"], ["verify", "--against-kafka"], ["explain"], ["status"]):
        assert frazil(place, *command) == 0, capsys.readouterr()
    said = capsys.readouterr().out
    assert "newest by __position_file, __position_pos, __position_row" in said
    assert "5 read = 2 rows + 1 delete + 2 duplicates" in said


WITHOUT_SCHEMAS = """
topic: {topic}
table: customers
key: json
value: json
fields: {{id: long, email: string, since: io.debezium.time.Date}}
write: upsert
cdc: debezium
"""


def test_change_events_without_schemas_are_the_present_rows(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    topic = place.topic()
    spec = WITHOUT_SCHEMAS.format(topic=topic)

    def put(op: str, key: int, **row: object) -> None:
        image = {"before" if op == "d" else "after": {"id": key, **row}}
        event = {**mysql(op), **image}
        place.send(topic, json.dumps(event).encode(), key=json.dumps({"id": key}).encode())

    put("r", 1, email="ada@example.com", since=19_700)
    put("r", 2, email="bob@example.com", since=None)
    put("r", 3, email="eve@example.com", since=None)
    place.materialize(spec)
    put("u", 2, email="bob@example.org", since=19_701, phone="1")
    put("d", 3)
    place.send(topic, None, key=b'{"id": 3}')
    table = place.materialize(spec)

    assert [tuple(row.values()) for row in table.rows("id", "email", "since", "_extra", "__op")] == [
        (1, "ada@example.com", date(2023, 12, 9), None, "r"),
        (2, "bob@example.org", date(2023, 12, 10), '{"phone":"1"}', "u"),
    ]
    for command in (["check"], ["verify", "--against-kafka"], ["explain"], ["status"]):
        assert frazil(place, *command) == 0, capsys.readouterr()
    assert "6 read = 4 rows + 2 deletes" in capsys.readouterr().out


IN_JSON_SCHEMA = """
topic: {topic}
table: orders
key: json_schema
value: json_schema
write: upsert
cdc: debezium
cdc_keep: [source.lsn]
"""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # commands end with their process
def test_change_events_of_the_json_schema_converter_are_the_present_rows(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, key, registry = place.topic(), struct("shop.public.orders.Key", id=INT), place.opened()
    spec = IN_JSON_SCHEMA.format(topic=topic)
    key_id, value_id = (
        place.register(f"{topic}-{part}", json.loads(json_schema(schema)), kind="JSON")
        for part, schema in (("key", key), ("value", POSTGRES))
    )

    def put(number: int, event: Event | None) -> None:
        value = None if event is None else framed(value_id, json_schema_payload(POSTGRES, event))
        place.send(topic, value, key=framed(key_id, json_schema_payload(key, {"id": number})))

    for number in (1, 2, 3):
        put(number, postgres("r", after=order(number, day=19_700, notes="first", total=Decimal("1.50"))))
    place.materialize(spec, registry=registry)
    put(2, postgres("u", after=order(2, day=None, **UNAVAILABLE), lsn=7))
    put(3, postgres("d", before=order(3)))
    put(3, None)
    table = place.materialize(spec, registry=registry)

    assert [tuple(row.values()) for row in table.rows("id", "day", "notes", "total", "__op", "__source_lsn")] == [
        (1, date(2023, 12, 9), "first", Decimal("1.50"), "r", 1),
        (2, None, "first", None, "u", 7),
    ]
    for command in (["check"], ["verify", "--against-kafka"], ["explain"], ["status"]):
        assert frazil(place, *command) == 0, capsys.readouterr()
    assert "6 read = 4 rows + 2 deletes" in capsys.readouterr().out


DOCUMENTS = """
topic: {topic}
table: users
key: connect_json
value: connect_json
write: upsert
cdc: debezium
"""


def test_documents_of_mongodb_are_queried_as_json(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    topic, registry = place.topic(), WithEmbedded(place.opened())
    spec, key = DOCUMENTS.format(topic=topic), struct("app.app.users.Key", id=STRING)

    def put(number: int, event: Event | None) -> None:
        value = None if event is None else json_record(MONGODB, event)
        place.send(topic, value, key=json_record(key, {"id": str(number)}))

    for number, name in ((1, "Anne"), (2, "Bob"), (3, "Eve")):
        put(number, mongodb("c", after=json.dumps({"_id": number, "name": name})))
    place.materialize(spec, registry=registry)
    put(1, mongodb("u", update={"updatedFields": '{"name": "Anne Marie"}', "removedFields": None}))
    put(2, mongodb("u", after='{"_id": 2, "name": "Robert"}'))
    put(3, mongodb("d"))
    put(3, None)
    table = place.materialize(spec, registry=registry)

    assert [tuple(row.values()) for row in table.rows("document", "__op")] == [
        ('{"_id": 1, "name": "Anne"}', "c"),
        ('{"_id": 2, "name": "Robert"}', "u"),
    ]
    for command in (["check"], ["verify", "--against-kafka"], ["explain"], ["status"]):
        assert frazil(place, *command) == 0, capsys.readouterr()
    assert "7 read = 4 rows + 2 deletes + 0 duplicates + 1 dead letter" in capsys.readouterr().out
    query = f"SELECT document->>'$.name' AS name FROM {place.name}.users ORDER BY name"
    assert frazil(place, "query", query) == 0, capsys.readouterr()
    assert capsys.readouterr().out.split()[-2:] == ["Anne", "Robert"]
