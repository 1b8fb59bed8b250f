"""`frazil peek`: records of a topic, decoded before there is a table."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import fastavro
from change_streams import KEY
from values_of_tables import spec

from frazil.cli.peek import lines, summary
from frazil.model.change_events import ChangeEvents
from frazil.model.dead_letter import Reason
from frazil.model.plan import OffsetRange, PartitionFacts, TopicFacts
from frazil.model.spec import FormatSettings, TableSpec
from frazil.peek import FIRST_WINDOW, Peeker, RawRecord, peek
from frazil.records import OptionalFields, Records
from tests.fakes.clients_in_memory import RegistryInMemory, a_field, record
from tests.fakes.connect_samples import avro_payload, avro_schema, json_record
from tests.fakes.debezium_samples import POSTGRES, order, postgres
from tests.fakes.reader_in_memory import ReaderInMemory

ORDER = record(a_field("n"), a_field("a_rather_long_name_of_a_column", "string"))
NOON_MS = 1_769_860_800_000


def framed(schema_id: int, value: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(ORDER)), value)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


@dataclass
class Partitions:
    """Values of partitions by offset; offsets without a value were compacted away. `asked` lists the ranges."""

    values: Mapping[int, Mapping[int, bytes | None]]
    asked: list[tuple[int, int, int]] = field(default_factory=list)

    def read(self, ranges: Sequence[OffsetRange], optional: OptionalFields) -> Iterator[Iterator[Records]]:
        (wanted,) = ranges
        number, end = wanted.partition, wanted.end
        self.asked.append((number, wanted.start, end))
        held = self.values[number]
        records = [(b"k", held[offset]) if offset in held else None for offset in range(end)]
        stamps = range(NOON_MS, NOON_MS + end)
        return ReaderInMemory(records, headers=dict.fromkeys(range(end)), stamps=stamps).read(ranges, optional)


def facts(*ends: int) -> TopicFacts:
    return TopicFacts("orders", None, {n: PartitionFacts(0, end) for n, end in enumerate(ends)})


def registry() -> RegistryInMemory:
    made = RegistryInMemory()
    made.register("orders-value", ORDER)
    return made


GOOD = framed(1, {"n": 7, "a_rather_long_name_of_a_column": "x" * 100})


def test_the_newest_records_of_every_partition_are_decoded_oldest_first() -> None:
    reader = Partitions({0: dict.fromkeys(range(50), GOOD), 1: {}, 2: {9: GOOD}})

    found = peek(reader, registry(), facts(50, 0, 10), 3)

    assert [(each.raw.partition, each.raw.offset) for each in found] == [(2, 9), (0, 48), (0, 49)]
    assert found[0].columns == {"n": 7, "a_rather_long_name_of_a_column": "x" * 100}
    assert (found[0].schema_id, found[0].reject) == (1, None)


def test_change_events_without_a_row_say_what_they_do() -> None:
    made, values = RegistryInMemory(), [postgres("c", after=order(1)), postgres("d"), postgres("t"), postgres("m")]
    made.register("orders-value", avro_schema(POSTGRES))
    held = {n: b"\0\0\0\0\1" + avro_payload(POSTGRES, each) for n, each in enumerate(values)}
    settings = FormatSettings(change_events=ChangeEvents())

    found = peek(Partitions({0: held}), made, facts(4), 4, spec=spec(value_settings=settings))

    assert found[0].columns["__op"] == "c"
    assert [each.columns for each in found[1:]] == [{"(change)": what} for what in ("delete", "truncate", "message")]
    assert any("(change)  delete" in line for line in lines(found[1], width=80))


READ_AS = spec(
    value="connect_json",
    key="connect_json",
    value_settings=FormatSettings(change_events=ChangeEvents()),
    key_settings=FormatSettings(of_change_events=True),
)
EVENT = json_record(POSTGRES, postgres("c", after=order(7)))


def test_values_with_their_schema_in_them_are_decoded_without_a_registry() -> None:
    (good, bad) = peek(Partitions({0: {0: EVENT, 1: b"no event"}}), None, facts(2), 2, spec=READ_AS)

    assert (good.reject, good.columns.get("id"), good.columns.get("__op")) == (None, 7, "c")
    assert bad.reject is not None
    assert bad.reject.detail.startswith("expected a JSON object of schema and payload")


def test_keys_with_their_schema_in_them_are_decoded() -> None:
    decoded = Peeker.of(None, READ_AS).decode(RawRecord("orders", 0, 0, None, json_record(KEY, {"id": 7}), EVENT))

    assert decoded.key == {"id": 7}


def test_a_compacted_partition_is_searched_further_back() -> None:
    reader = Partitions({0: {3: GOOD}})

    found = peek(reader, registry(), facts(10_000), 1)

    assert [each.raw.offset for each in found] == [3]
    assert [start for _, start, _ in reader.asked] == [10_000 - FIRST_WINDOW, 9_800, 8_000, 0]


def test_what_cannot_be_decoded_shows_its_reason() -> None:
    others = registry()
    others.register("else", "<a/>", schema_format=cast(Any, "XML"))
    bad = {0: b"no avro", 1: framed(9, {"n": 1, "a_rather_long_name_of_a_column": ""}), 2: GOOD[:-3], 3: None}
    bad |= {4: b"\0\0\0\0\2{}", 5: b"\0\xff\xff\xff\xff"}

    found = peek(Partitions({0: bad}), others, facts(6), 6)

    reasons = [None if each.reject is None else each.reject.reason.value for each in found]
    assert reasons == [
        "not_framed",
        "unknown_schema_id",
        "bad_length",
        None,
        "wrong_schema_type",
        "unknown_schema_id",
    ]
    shown = list(lines(found[0], width=80))
    assert shown[2] == '  (value)        "no avro"'
    assert shown[3].startswith("  (dead letter)  not_framed: ")


def test_values_are_shortened_to_the_width_and_names_never() -> None:
    (found,) = peek(Partitions({0: {0: GOOD}}), registry(), facts(1), 1)

    shown = list(lines(found, width=80))

    assert shown[0] == "orders-0 offset 0  2026-01-31T12:00:00Z  schema 1"
    assert max(map(len, shown)) == 80
    assert "  a_rather_long_name_of_a_column  xxx" in shown[3]
    assert shown[3].endswith("…")
    assert len(list(lines(found, width=10))[3]) > 32 + 10


def test_a_topic_without_a_spec_gets_one_and_another_is_explained() -> None:
    def next_step(*specs: TableSpec) -> str:
        return summary(facts(1), peek(Partitions({0: {0: GOOD}}), registry(), facts(1), 1), specs)

    assert next_step(spec(topics=("returns",))).endswith("`frazil init orders` writes a table spec)")
    assert next_step(spec()).endswith("`frazil explain lake.orders` shows what a batch would do)")


def test_maps_with_text_keys_are_objects() -> None:
    tags = {"type": "map", "values": ["null", "int"]}
    registry = RegistryInMemory()
    schema = record(a_field("tags", tags))
    registry.register("orders-value", schema)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), {"tags": {"a": 1, "b": None}})
    facts = TopicFacts("orders", None, {0: PartitionFacts(0, 1)})

    (found,) = peek(Partitions({0: {0: b"\0\0\0\0\1" + out.getvalue()}}), registry, facts, 1)

    assert found.columns == {"tags": {"a": 1, "b": None}}


def test_values_without_a_schema_are_shown_as_what_all_of_them_are() -> None:
    def shown(*values: bytes | None) -> list[object]:
        given = Partitions({0: dict(enumerate(values))})
        return [each.columns.get("value") for each in peek(given, None, facts(len(values)), len(values))]

    assert shown(b'{"a": 1}', b"2", None) == ['{"a": 1}', "2", None]
    assert shown(b"a", b"{") == ["a", "{"]
    assert shown(b"a", b"\xff") == [b"a", b"\xff"]


def test_a_spec_says_how_values_are_read() -> None:
    (good, bad) = peek(Partitions({0: {0: b"{}", 1: b"\0\0\0\0\1"}}), None, facts(2), 2, spec=spec(value="json"))

    assert (good.columns, good.schema_id) == ({"value": "{}"}, None)
    assert bad.reject is not None
    assert bad.reject.reason.value == "bad_json"


def test_a_schema_id_without_a_registry_is_named() -> None:
    (found,) = peek(Partitions({0: {0: GOOD}}), None, facts(1), 1)

    assert found.reject is not None
    assert found.reject.detail == "names the schema 1, and no schema registry is configured"


def test_a_specs_settings_say_how_values_are_read() -> None:
    others = registry()
    text = '{"type": "object", "properties": {"at": {"type": "string", "format": "date"}}}'
    schema_id = others.register("dates", text, schema_format="JSON").id
    soon = schema_id.to_bytes(5, "big") + b'{"at":"soon"}'
    settings = FormatSettings(string_formats="text")

    (typed,) = peek(Partitions({0: {0: soon}}), others, facts(1), 1)
    (kept,) = peek(
        Partitions({0: {0: soon}}), others, facts(1), 1, spec=spec(value="json_schema", value_settings=settings)
    )

    assert typed.reject is not None
    assert (typed.reject.reason.value, typed.reject.path) == ("bad_format", "at")
    assert kept.columns == {"at": "soon", "_extra": None}


SHOP = 'syntax = "proto3"; package shop; message Order { int64 n = 1; } message Refund { string why = 1; }'
REFUND = b"\x0a\x01x"


def shop() -> RegistryInMemory:
    made = RegistryInMemory()
    made.register("orders-value", SHOP, schema_format="PROTOBUF")
    return made


def of_shop(indexes: bytes, data: bytes) -> Partitions:
    return Partitions({0: {0: b"\0\0\0\0\1" + indexes + data}})


def test_a_record_is_decoded_as_the_message_that_it_names() -> None:
    (found,) = peek(of_shop(b"\x02\x02", REFUND), shop(), facts(1), 1)
    (unknown,) = peek(of_shop(b"\x02\x08", REFUND), shop(), facts(1), 1)

    assert (found.columns, found.message, found.reject) == ({"why": "x"}, "shop.Refund", None)
    assert unknown.message is None
    assert unknown.reject is not None
    assert unknown.reject.reason is Reason.BAD_INDEX


def test_a_spec_that_reads_another_message_is_named() -> None:
    of_orders = spec(value="protobuf", value_settings=FormatSettings(message="shop.Order"))
    found = peek(of_shop(b"\x02\x02", REFUND), shop(), facts(1), 1, spec=of_orders)

    assert [str(each.reject) for each in found] == ["wrong_message: the record is a shop.Refund, expected a shop.Order"]
    said = f"these values are another Protobuf message than {of_orders.source_file} reads: set its key `message`)"
    assert summary(facts(1), found, [of_orders]).endswith(said)


def test_values_that_a_spec_cannot_read_are_not_blamed_on_the_registry() -> None:
    of_json = spec(value="json")
    found = peek(Partitions({0: {0: b"no json"}}), None, facts(1), 1, spec=of_json)

    said = f"no value can be read as {of_json.source_file} says: `value: json`)"
    assert summary(facts(1), found, [of_json]).endswith(said)
