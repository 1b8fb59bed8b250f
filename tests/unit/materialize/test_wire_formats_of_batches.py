"""Whole batches of records that name their schemas by a UUID: hostile data, masks, encrypted letters and replays."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from policed_tables import REDACT, masked
from values_of_tables import spec
from whole_batches import World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.outcome import Published
from frazil.materialize.replay.request import ReplayRequest
from frazil.model.plan import NothingToDo, OffsetRange
from frazil.model.schemas import RegisteredSchema
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit, TableSpec
from frazil.records import HeaderList, Records
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record

ORDER = record(a_field("n"), a_field("mail", "string"))
KNOWN, LATE = UUID(int=2**120 + 7), UUID(int=5)
NO_LIMIT = BadRecordLimit.off()


@dataclass
class WorldWithHeaders(World):
    """A topic whose records have headers, by offset."""

    headers: dict[int, HeaderList] = field(default_factory=dict)

    def _chunks(self, wanted: OffsetRange) -> Iterator[Records]:
        offsets = range(wanted.start, wanted.end)
        values = [self.values[n] for n in offsets]
        heads = [self.headers.get(n) for n in offsets]
        yield Records.of(offsets, [1_000] * len(offsets), [None] * len(offsets), values, heads, wanted.end, 0)


@pytest.fixture
def world(tmp_path: Path) -> WorldWithHeaders:
    made = WorldWithHeaders(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    register(made, KNOWN)
    made.registry.subjects = dict.fromkeys(("orders", "orders-value"), cast(Any, KNOWN))
    return made


def register(world: World, schema_id: UUID) -> None:
    world.registry.schemas[cast(Any, schema_id)] = RegisteredSchema(schema_id, "AVRO", ORDER)
    world.registry.missing.clear()


def data(n: int) -> bytes:
    return framed(0, ORDER, {"n": n, "mail": "LEAKED"})[5:]


def read(world: World, wanted: TableSpec) -> tuple[list[int], dict[str, int]]:
    """Read all in a new process. Returns the values of the rows, and the dead letters by reason."""
    run, dead = world.table(wanted), dict[str, int]()
    while not isinstance(outcome := run.batch(), NothingToDo):
        assert isinstance(outcome, Published)
        for reason, count in outcome.receipt.dead_letters_by_reason.items():
            dead[reason] = dead.get(reason, 0) + count
    return numbers(world, wanted), dead


def numbers(world: World, wanted: TableSpec) -> list[int]:
    rows = world.lake.catalog.load_table(wanted.identifier).scan().to_arrow().sort_by("kafka_offset")
    return cast("list[int]", rows.column("n").to_pylist())


def is_proven(world: World, wanted: TableSpec) -> bool:
    return verify_table(world.lake, wanted, kafka=KafkaSide(world.topics, cast(Any, world), world.registry)).clean


def in_glue(content: bytes, *, compression: int = 0, version: UUID = KNOWN) -> bytes:
    return bytes([3, compression]) + version.bytes + content


def test_hostile_data_of_glue_is_accounted_for_record_by_record(world: WorldWithHeaders) -> None:
    bomb, good = zlib.compress(bytes(8 << 20)), zlib.compress(data(2))
    world.values += [
        in_glue(data(1)),
        in_glue(bomb, compression=5),
        in_glue(good, compression=5),
        in_glue(good[:-1], compression=5),
        in_glue(good + b"x", compression=5),
        in_glue(zlib.compress(bomb), compression=5),
        in_glue(data(3), compression=7),
        in_glue(data(4), version=LATE),
        b"\3",
        in_glue(data(5)),
    ]
    wanted = spec(wire_format="glue", bad_record_limit=NO_LIMIT)

    rows, dead = read(world, wanted)

    assert rows == [1, 2, 5]
    assert sum(dead.values()) == 7
    assert (dead["too_large"], dead["bad_compression"], dead["not_framed"], dead["unknown_schema_id"]) == (1, 2, 2, 1)
    assert is_proven(world, wanted)


def test_masked_records_with_a_guid_in_a_header_are_replayed_once_their_schema_is_registered(
    world: WorldWithHeaders,
) -> None:
    def header(schema_id: UUID) -> tuple[str, bytes]:
        return "__value_schema_id", b"\1" + schema_id.bytes

    world.values += [data(1), data(2), data(3), b"\0\0\0\0\1" + data(4)]
    world.headers = {
        0: [header(LATE), header(KNOWN)],
        1: [("other", None), header(LATE)],
        2: [("__value_schema_id", None)],
    }
    wanted = masked({"mail": REDACT}, wire_format="confluent_headers", bad_record_limit=NO_LIMIT)

    assert read(world, wanted) == ([1], {"unknown_schema_id": 1, "not_framed": 2})
    register(world, LATE)
    run = world.table(wanted)
    run.clients = replace(run.clients, new_id=lambda: "replay")
    result = run.replay(ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z"))

    assert (result.replayed, dict(result.stayed)) == (1, {"not_framed": 2})
    assert numbers(world, wanted) == [1, 2]
    assert is_proven(world, wanted)
    table = world.lake.catalog.load_table(wanted.identifier).scan().to_arrow()
    assert set(table.column("mail").to_pylist()) == {"[redacted]"}


MESSAGES = 'syntax = "proto3"; message A { int64 n = 1; } message B { int64 n = 1; }'
OBJECT = '{"type": "object", "properties": {"n": {"type": "integer"}}}'


@pytest.mark.parametrize(
    ("kind", "text", "content", "index", "expected"),
    [
        ("PROTOBUF", MESSAGES, b"\x08\x07", b"\0", ([7], {})),
        ("PROTOBUF", MESSAGES, b"\x08\x07", b"\2\2", ([], {"wrong_message": 1})),
        ("JSON", OBJECT, b'{"n": 7}', b"", ([7], {})),
    ],
    ids=["first message", "second message", "object"],
)
def test_a_guid_in_a_header_names_schemas_of_other_formats(
    world: WorldWithHeaders, kind: Any, text: str, content: bytes, index: bytes, expected: object
) -> None:
    """In Protobuf, the index of the message follows the GUID in the header."""
    world.registry.schemas[cast(Any, KNOWN)] = RegisteredSchema(KNOWN, kind, text)
    world.values.append(content)
    world.headers = {0: [("__value_schema_id", b"\1" + KNOWN.bytes + index)]}
    value: Any = "protobuf" if kind == "PROTOBUF" else "json_schema"
    wanted = spec(wire_format="confluent_headers", bad_record_limit=NO_LIMIT, value=value)

    assert read(world, wanted) == expected
    assert is_proven(world, wanted)
