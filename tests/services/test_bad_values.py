"""Values that no column can hold, and rows that other writers change, from Kafka to the table and its proof."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing

import pyarrow as pa
import pytest
from breadth import Place, Table, catch_up, framed, registry_client
from confluent_kafka.schema_registry.error import SchemaRegistryError
from pyiceberg.io.pyarrow import _dataframe_to_data_files

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.adapters.registry import open_registry
from frazil.model.errors import IncompatibleSchemaError, PausedError
from frazil.model.settings import RegistrySettings
from frazil.proof.verification import FindingKind, Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.guid_registry import guid_front

PROPERTIES = {
    "id": {"type": "integer"},
    "day": {"type": "string", "format": "date"},
    "price": {"type": "number"},
    "tags": {"type": "object", "additionalProperties": {"type": "string"}},
    "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
}
SCHEMA = json.dumps({"type": "object", "properties": PROPERTIES})
GOOD = b'{"id": 1, "day": "2026-02-28", "price": 0.5, "tags": {"a": "x"}, "lines": [{"sku": "s"}], "more": 1}'
BAD_JSON = {
    b'{"id": 9223372036854775808}': ("out_of_range", "id"),
    b'{"id": 1, "id": 2}': ("duplicate_key", "id"),
    b'{"price": NaN}': ("bad_json", "price"),
    b'{"price": 1e999}': ("out_of_range", "price"),
    b'{"more": "\xff"}': ("bad_utf8", ""),
    b'{"day": "2026-02-30"}': ("bad_format", "day"),
}
FIELDS = "fields: {id: long, day: date, price: double, lines: [{sku: string}]}"
ORDER = """syntax = "proto3"; package shop;
message Order {
  int64 id = 1; map<string, int32> counts = 2; oneof how { string card = 3; bool cash = 4; } Line line = 5;
}
message Line { string sku = 1; }"""
PAID = b"\x08\x05\x12\x05\n\x01a\x10\x01\x1a\x01v\x2a\x03\n\x01s"
"""id 5, counts {a: 1}, card v, line {sku: s}."""


def verified(table: Table) -> Verification:
    clients = table.of.clients
    kafka = dict(clients.kafka)
    with_kafka = KafkaSide(KafkaTopics(kafka), KafkaReader(kafka), clients.registry)
    return verify_table(clients.lake, table.spec, kafka=with_kafka)


def rewritten(table: Table, change: Callable[[pa.Table], pa.Table]) -> None:
    """Put other rows into the table, in one snapshot that looks like another writer's update."""
    loaded = IcebergLake(table.catalog).catalog.load_table(table.spec.identifier)
    with loaded.transaction() as transaction:
        files = list(_dataframe_to_data_files(loaded.metadata, change(loaded.scan().to_arrow()), loaded.io))
        with transaction.update_snapshot().overwrite() as replacing:
            for task in loaded.scan().plan_files():
                replacing.delete_data_file(task.file)
            for file in files:
                replacing.append_data_file(file)


def with_value(good: pa.Table, column: str, value: object) -> pa.Table:
    """Return the rows with one value in a column of all of them."""
    index = good.schema.get_field_index(column)
    field = good.schema.field(index)
    assert good[column].to_pylist() != [value]
    return good.set_column(index, field, pa.array([value] * good.num_rows, field.type))


def made_of_json(place: Place, topic: str, how: str) -> Table:
    schema_id = place.register(f"{topic}-value", SCHEMA, kind="JSON") if how == "json_schema" else 0
    values = [framed(schema_id, each) if schema_id else each for each in (GOOD, *BAD_JSON)]
    place.send(topic, *values)
    return place.materialize(f"topic: {topic}\nvalue: {how}" + (f"\n{FIELDS}" if how == "json" else ""))


def made_of_protobuf(place: Place, topic: str) -> Table:
    schema_id = place.register(f"{topic}-value", ORDER, kind="PROTOBUF")
    good = framed(schema_id, b"\0" + PAID)
    no_such = (b"\x02\x0e", b"\x04\x00\x00", b"\x02\x0f", b"\x02")
    bad = [index + PAID for index in no_such]
    place.send(topic, good, *(framed(schema_id, each) for each in (*bad, b"\0\x1a\x01\xff")))
    return place.materialize(f"topic: {topic}\nvalue: protobuf")


@pytest.mark.parametrize("how", ["json_schema", "json"])
def test_a_json_value_that_no_column_can_hold_is_a_dead_letter_with_its_reason(place: Place, how: str) -> None:
    table = made_of_json(place, place.topic(), how)

    assert [row["id"] for row in table.rows("id")] == [1]
    found = [(row["reason"], row["path"]) for row in table.dead_letters("reason", "path")]
    assert found == list(BAD_JSON.values())
    assert verified(table).findings == ()


def test_a_message_index_that_does_not_exist_is_a_dead_letter(place: Place) -> None:
    table = made_of_protobuf(place, place.topic())

    assert [row["id"] for row in table.rows("id")] == [5]
    assert [row["reason"] for row in table.dead_letters("reason")] == ["bad_index"] * 4 + ["bad_utf8"]
    assert verified(table).findings == ()


CHANGED: dict[str, dict[str, object]] = {
    "json_schema": {"id": 2, "price": -0.5, "tags": [("a", "y")], "lines": [{"sku": "t"}], "_extra": '{"more":2}'},
    "json": {"id": None, "lines": [{"sku": None}], "_extra": None},
    "protobuf": {"id": 6, "counts": [("a", 2)], "card": None, "cash": True, "line": {"sku": "t"}},
}


@pytest.mark.parametrize("how", CHANGED)
def test_verify_finds_what_another_writer_does_to_a_row(place: Place, how: str) -> None:
    """Double rows need no Kafka; missing records and changed values do."""
    topic = place.topic()
    table = made_of_protobuf(place, topic) if how == "protobuf" else made_of_json(place, topic, how)
    good = table.arrow()
    damaged = {
        "double": (FindingKind.DOUBLED_ROWS, pa.concat_tables([good, good])),
        "other": (FindingKind.MISSING_RECORD, with_value(good, "kafka_offset", 1_000)),
        **{n: (FindingKind.DIFFERENT_ROW, with_value(good, n, value)) for n, value in CHANGED[how].items()},
    }

    found = {}
    for name, (kind, rows) in damaged.items():
        rewritten(table, lambda _, rows=rows: rows)  # type: ignore[misc]
        found[name] = (kind, {each.kind for each in verified(table).findings})
    rewritten(table, lambda _: good)

    assert {name: kinds for name, (kind, kinds) in found.items() if kind not in kinds} == {}
    assert verified(table).findings == ()


def test_a_reference_that_a_schema_needs_cannot_be_deleted_and_its_table_goes_on(place: Place) -> None:
    topic, part = place.topic(), f"{place.name}-part"
    place.register(part, 'syntax = "proto3"; message Part { string sku = 1; }', kind="PROTOBUF")
    text = 'syntax = "proto3"; import "part.proto"; message Whole { Part part = 1; }'
    schema_id = place.register(f"{topic}-value", text, references=[("part.proto", part)], kind="PROTOBUF")
    place.send(topic, framed(schema_id, b"\0\n\x03\n\x01s"))

    with pytest.raises(SchemaRegistryError):
        registry_client(place.services).delete_subject(part)
    table = place.materialize(f"topic: {topic}\nvalue: protobuf")

    assert table.rows("part") == [{"part": {"sku": "s"}}]
    assert verified(table).findings == ()


def test_a_reference_to_a_deleted_subject_stops_the_table_and_loses_no_record(place: Place) -> None:
    topic, part = place.topic(), f"{place.name}-part"
    place.register(part, 'syntax = "proto3"; message Part { string sku = 1; }', kind="PROTOBUF")
    text = 'syntax = "proto3"; import "part.proto"; message Whole { Part part = 1; }'
    schema_id = place.register(f"{topic}-value", text, references=[("part.proto", part)], kind="PROTOBUF")
    place.send(topic, framed(schema_id, b"\0\n\x03\n\x01s"))
    spec = f"topic: {topic}\nvalue: protobuf"

    with guid_front(place.services.schema_registry_url, deleted={part}) as url:
        settings = RegistrySettings(url)
        with (
            closing(open_registry(settings)) as without_part,
            pytest.raises(
                IncompatibleSchemaError, match=f"it refers to version 1 of {part}, which the schema registry"
            ),
        ):
            place.run(spec, registry=without_part, registry_settings=settings).batch()
    restored = place.materialize(spec)

    assert (restored.rows("part"), restored.dead_letters()) == ([{"part": {"sku": "s"}}], [])


BROKEN = """syntax = "proto3"; package shop; import "shop/gone.proto";
message Order { int64 id = 1; Gone gone = 2; }"""
"""The registry does not compile what it registers."""
UNRESOLVED = "the descriptor does not compile: couldn't resolve name 'Gone'; it imports shop/gone.proto, which its"


def test_a_descriptor_that_does_not_compile_pauses_the_table_with_its_finding(place: Place) -> None:
    topic = place.topic()
    place.send(topic, framed(place.register(f"{topic}-value", ORDER, kind="PROTOBUF"), b"\0" + PAID))
    run = place.run(f"topic: {topic}\nvalue: protobuf")
    run.batch()
    broken_id = place.register(f"{topic}-value", BROKEN, kind="PROTOBUF")
    place.send(topic, framed(broken_id, b"\0\x08\x06"))

    with pytest.raises(IncompatibleSchemaError) as refused:
        run.batch()
    with pytest.raises(PausedError):
        run.batch()

    table = Table(run)
    assert f"the writer schema {broken_id} is not a safe change for the table, 1 finding" in refused.value.what
    assert UNRESOLVED in refused.value.what
    assert f"--dead-letter-schema {broken_id}" in refused.value.hint
    assert table.paused is not None and UNRESOLVED in str(table.paused)
    assert ([row["id"] for row in table.rows("id")], table.dead_letters()) == ([5], [])


def test_records_of_a_descriptor_that_does_not_compile_can_become_dead_letters(place: Place) -> None:
    topic = place.topic()
    good_id = place.register(f"{topic}-value", ORDER, kind="PROTOBUF")
    run = place.run(f"topic: {topic}\nvalue: protobuf\non_incompatible_schema: dead_letter")
    place.send(topic, framed(good_id, b"\0" + PAID))
    run.batch()
    broken_id = place.register(f"{topic}-value", BROKEN, kind="PROTOBUF")
    place.send(topic, framed(broken_id, b"\0\x08\x06"), framed(good_id, b"\0" + PAID))

    catch_up(run)

    table = Table(run)
    assert [row["id"] for row in table.rows("id")] == [5, 5]
    assert table.dead_letters("offset", "reason", "schema_id", "value") == [
        {"offset": 1, "reason": "refused_schema", "schema_id": broken_id, "value": framed(broken_id, b"\0\x08\x06")}
    ]
    assert verified(table).findings == ()
