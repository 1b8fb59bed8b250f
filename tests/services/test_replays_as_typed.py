"""`frazil dead-letters replay` as it is typed, for change events and for several tables of the same records."""

from __future__ import annotations

import json
import struct as binary
import time
from collections.abc import Iterator
from contextlib import contextmanager

from breadth import Place, catch_up, encode
from test_replay_commands import SCHEMA, WITH_NOTE, command

from frazil.adapters.embedded_schemas import WithEmbedded
from frazil.materialize.pause.pausing import excluded_schemas_property
from frazil.materialize.run import TableRun
from frazil.model.schemas import ExcludedSchemas
from tests.fakes.connect_samples import INT, STRING, Schema, avro_payload, avro_schema, json_record, optional, struct
from tests.fakes.debezium_samples import CUSTOMER, MYSQL, MYSQL_SOURCE, envelope, mysql

KEY = struct("crm.crm.customers.Key", id=INT)
WITH_PHONE = envelope(
    "crm.crm.customers", struct("crm.crm.customers.Value", **CUSTOMER, phone=optional(STRING)), MYSQL_SOURCE
)


@contextmanager
def excluded(run: TableRun, schema_id: int) -> Iterator[None]:
    """Make dead letters of the records with a schema, as `frazil resume --dead-letter-schema` does."""
    lake, table = run.clients.lake, run.spec.identifier
    put = excluded_schemas_property(ExcludedSchemas(frozenset({schema_id})))
    lake.set_properties(table, put=put)
    yield
    catch_up(run)
    lake.set_properties(table, put={}, remove=list(put))


def test_dead_letters_of_change_events_win_or_lose(place: Place) -> None:
    topic = place.topic()
    spec = f"topic: {topic}\ntable: customers\nkey: connect_json\nvalue: avro\nwrite: upsert\ncdc: debezium\n"
    ids = {
        id(schema): place.register(f"{topic}-value", json.loads(avro_schema(schema))) for schema in (MYSQL, WITH_PHONE)
    }

    def send(key: int, op: str, email: str, schema: Schema = MYSQL) -> None:
        event = mysql(op, after={"id": key, "email": email})
        framed = binary.pack(">bI", 0, ids[id(schema)]) + avro_payload(schema, event)
        place.send(topic, framed, key=json_record(KEY, {"id": key}))

    run = place.run(f"{spec}bad_record_limit: off", registry=WithEmbedded(place.opened()))
    send(1, "c", "first@example.com")
    send(2, "c", "first@example.com")
    catch_up(run)
    with excluded(run, ids[id(WITH_PHONE)]):
        send(1, "u", "late@example.com", WITH_PHONE)
        send(2, "u", "late@example.com", WITH_PHONE)
        send(1, "u", "newest@example.com")

    replayed = command(place, "dead-letters", "replay", "customers", "--wait", "0")
    proof = command(place, "verify", "customers", "--against-kafka")
    rows = command(place, "query", f"SELECT id, email FROM {place.name}.customers ORDER BY id")

    assert replayed.startswith(f"{place.name}.customers: 2 dead letters became 1 row and 1 duplicate\n")
    assert "2 more were replayed" in proof
    assert [line.split() for line in rows.splitlines()[2:]] == [["1", "newest@example.com"], ["2", "late@example.com"]]


SHAPES = """
topic: {topic}
table: {topic}
bad_record_limit: off
shapes:
  - {{table: {topic}_log}}
  - {{table: {topic}_now, write: upsert, order_by: kafka_timestamp}}
"""


def test_dead_letters_of_shapes_come_into_all_tables(place: Place) -> None:
    topic = place.topic()
    ours, theirs = (place.register(f"{topic}-value", schema) for schema in (SCHEMA, WITH_NOTE))
    run, now = place.run(SHAPES.format(topic=topic)), int(time.time() * 1000)
    place.send(topic, *encode(SCHEMA, ours, {"n": 1}), key=b"a", timestamp=now)
    catch_up(run)
    with excluded(run, theirs):
        later = encode(WITH_NOTE, theirs, {"n": 2, "note": "x"}, {"n": 3, "note": "x"})
        for key, value in zip((b"a", b"b"), later, strict=True):
            place.send(topic, value, key=key, timestamp=now - 5)

    replayed = command(place, "dead-letters", "replay", topic, "--wait", "0")
    proof = command(place, "verify", topic, "--against-kafka")
    rows = command(place, "query", f"SELECT kafka_key, n FROM {place.name}.{topic}_now ORDER BY kafka_key")

    assert replayed.splitlines()[:3] == [
        f"{place.name}.{topic}: 2 dead letters became rows",
        f"  2 of {place.name}.{topic}_log",
        f"  1 of {place.name}.{topic}_now",
    ]
    assert f"taken by {topic}_log 3, {topic}_now 3; each table agrees" in proof
    assert [line.split() for line in rows.splitlines()[2:]] == [["a", "1"], ["b", "3"]]
