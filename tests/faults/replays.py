"""A world with dead letters that can be replayed: their schema is excluded from the table, and included again."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from confluent_kafka import Message

from frazil.materialize.pause.pausing import DEAD_LETTER_SCHEMAS_PROPERTY, excluded_schemas_property
from frazil.materialize.replay.request import ReplayRequest, ReplayResult
from frazil.model.schemas import ExcludedSchemas
from tests.faults.world import SCHEMA, WAIT_SECONDS, World, framed, plain_producer, register

MORE = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}

Noted = Callable[[object, Message], None]


def request(id: str = "r1", **chosen: object) -> ReplayRequest:  # noqa: A002 - the name of the field
    return ReplayRequest(id, by="tester", at="2026-11-23T12:00:00Z", **chosen)  # type: ignore[arg-type]


def with_excluded(world: World) -> int:
    """Make the table, register another schema, and exclude it; return its id.

    No record deletes a key, because a letter that may be older than a delete stays.
    """
    world.with_tombstones = False
    world.run().create()
    schema_id = register(world.setting.services, f"{world.topic}-value", MORE)
    excluded = excluded_schemas_property(ExcludedSchemas(frozenset({schema_id})))
    world.lake.set_properties(world.spec.identifier, put=excluded)
    return schema_id


def include(world: World) -> None:
    world.lake.set_properties(world.spec.identifier, put={}, remove=(DEAD_LETTER_SCHEMAS_PROPERTY,))


def produce_excluded(world: World, schema_id: int, count: int = 4, *, partitions: Sequence[int] = (0, 1)) -> None:
    """Records with the excluded schema, each with a note.

    In a table that follows keys, every second one has the key of a row before it.
    """
    producer = plain_producer(world.setting.services)
    for index in range(count):
        place = partitions[index % len(partitions)]
        if world.spec.write != "append" and index % 2:
            key = f"shared-{world.next_number}"
            world.send(producer, place, key=key)
        else:
            key = f"key-{world.next_number}"
        number, world.next_number = world.next_number, world.next_number + 1
        noted = world.noting(world.bad, number, key)

        def delivered(error: object, message: Message, noted: Noted = noted) -> None:
            noted(error, message)
            world.excluded.add((int(message.partition() or 0), int(message.offset() or 0)))

        value = framed(schema_id, number) + struct.pack(">b", 2) + struct.pack(">b", 8) + b"note"
        producer.produce(world.topic, value, key.encode(), partition=place, on_delivery=delivered)
    assert producer.flush(WAIT_SECONDS) == 0


def replay(world: World, wanted: ReplayRequest | None = None) -> ReplayResult:
    """Perform a replay in a new process, so to speak."""
    return world.run().replay(wanted or request())
