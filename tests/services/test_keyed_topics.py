"""Tables that follow keys over several topics, on the real services: the newest record of a key, and its history."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from breadth import QUIET, Place, Table

from frazil.adapters.kafka.reader import KafkaReader
from frazil.model.progress import Counts
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table

STORE, SHOP = "-store", "-shop"
SPEC = """
topics: [{topics}]
table: {table}
value: json
fields: {{city: string}}
write: {write}
order_by: kafka_timestamp
"""


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def send(place: Place, suffix: str, key: str, city: str | None, second: int) -> None:
    value = None if city is None else json.dumps({"city": city}).encode()
    place.send(f"{place.name}{suffix}", value, key=key.encode(), timestamp=second * 1000)


def prove(table: Table) -> None:
    clients = table.of.clients
    with closing(KafkaReader({**QUIET, **clients.kafka})) as reader:
        kafka = KafkaSide(clients.topics, reader, clients.registry)
        verification = verify_table(clients.lake, table.spec, kafka=kafka)
    assert (verification.findings, verification.notes) == ((), ())


def rows(table: Table, *columns: str) -> list[dict[str, Any]]:
    return sorted(table.rows("kafka_key", "city", *columns), key=lambda row: [str(each) for each in row.values()])


def test_a_customer_has_the_newest_record_of_both_topics_and_every_version(place: Place) -> None:
    store, shop = (place.topic(suffix, partitions=2) for suffix in (STORE, SHOP))
    send(place, STORE, "1", "Paris", 10)
    send(place, STORE, "2", "Rome", 10)
    send(place, SHOP, "1", "Oslo", 20)
    send(place, SHOP, "3", None, 30)
    given = {write: SPEC.format(topics=store, table=write, write=write) for write in ("upsert", "history")}
    for spec in given.values():
        place.materialize(spec)
    send(place, STORE, "3", "Bern", 25)
    send(place, SHOP, "2", "Milan", 5)
    send(place, SHOP, "1", None, 20)

    both = {write: spec.replace(store, f"{store}, {shop}", 1) for write, spec in given.items()}
    newest, history = (place.materialize(both[write]) for write in ("upsert", "history"))

    assert rows(newest, "kafka_topic") == [{"kafka_key": "2", "city": "Rome", "kafka_topic": None}]
    totals = {source.topic: [each.counts for each in source.partitions.values()] for source in newest.state.sources}
    assert sum(totals[shop], Counts()) == Counts(read=4, rows=1, deletes=2, duplicates=1)
    assert [(row["city"], row["valid_from"], row["valid_to"]) for row in rows(history, "valid_from", "valid_to")] == [
        ("Oslo", at(20), at(20)),
        ("Paris", at(10), at(20)),
        ("Milan", at(5), at(10)),
        ("Rome", at(10), None),
        ("Bern", at(25), at(30)),
    ]
    prove(newest)
    prove(history)
