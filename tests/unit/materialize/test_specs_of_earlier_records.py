"""Records that were read under an earlier spec are proven by that one, and by no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from changelogs import Changelog
from grouped_tables import GroupWorld, specs
from rebuilt_tables import of_mode, rebuild
from test_letters_against_kafka import TEXT, letters, published, rewrite, verified
from values_of_tables import SPEC
from whole_batches import LONG, World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.changed_spec.applied_spec import AppliedSpec, applied_spec_of
from frazil.model.settings import CatalogSettings
from frazil.model.spec import TableSpec
from frazil.records import UnreadableHeaders
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.group import verify_together
from tests.fakes.clients_in_memory import a_field, record

GOOD = framed(1, TEXT, {"n": 1, "text": "a"})
CUT_KEY = b"\0\0\0\0\2"
MONEY = record(a_field("d", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}), a_field("n"))
TRUNCATED = ("truncate(50, d)",)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", TEXT)
    made.registry.register("orders-key", LONG)
    return made


def declared(**fields: str) -> TableSpec:
    return letters(value="json", value_settings=replace(SPEC.value_settings, fields=json.dumps(fields)))


def keyed(key: str, **more: Any) -> TableSpec:
    """A spec with or without keys; one without keeps none, as a spec in a file."""
    made = letters(key=key, **more)
    kept = tuple(name for name in made.metadata.keep if name != "key" or key != "none")
    return replace(made, metadata=replace(made.metadata, keep=kept))


def findings(world: World, wanted: TableSpec) -> list[str]:
    return [str(each) for each in verified(world, wanted).findings]


def applied(world: World, wanted: TableSpec) -> AppliedSpec:
    view = world.lake.load(wanted.identifier)
    assert view is not None
    found = applied_spec_of(view.properties, table=wanted.identifier)
    assert found is not None
    return found


def rewrite_rows(world: World, wanted: TableSpec, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Change or drop rows, as another writer could."""
    table = world.lake.catalog.load_table(wanted.identifier)
    held = table.scan().to_arrow()
    changed = [after for row in held.to_pylist() if (after := change(row)) is not None]
    table.overwrite(pa.Table.from_pylist(changed, held.schema))


def corrected(world: World) -> TableSpec:
    """Records 1 and 2 are letters of the field a as a long; record 4 is one of b, and would have been one of a."""
    before, now = declared(a="long", b="int"), declared(a="string", b="int")
    published(world, before, b'{"b": 1}', b'{"a": "x", "b": "no"}', b'{"a": "x", "b": 3}')
    return published(world, now, b'{"b": 4}', b'{"a": "x", "b": "no"}')


def keys_added(world: World) -> TableSpec:
    """Record 0 is a row whose key is not read; record 2 is a letter with a key that cannot be."""
    world.keys |= {0: CUT_KEY, 1: framed(2, LONG, {"n": 5}), 2: CUT_KEY}
    published(world, keyed("none"), GOOD)
    return published(world, keyed("avro"), GOOD, GOOD)


def test_a_letter_has_the_reason_that_the_spec_of_its_time_gives(world: World) -> None:
    wanted = corrected(world)

    result = verified(world, wanted)

    assert [str(each) for each in result.findings] == []
    assert result.notes == (
        "orders-0: equal only by an earlier spec, by which they were read: 1 dead letter; the spec has changed since:"
        " fields",
        "orders-0: the record of 1 dead letter can be decoded now: `frazil dead-letters replay` turns such letters"
        " into rows",
    )


def test_a_letter_has_no_reason_that_neither_spec_gives(world: World) -> None:
    wanted = corrected(world)

    rewrite(world, wanted, lambda letter: {**letter, "reason": "bad_json"} if letter["offset"] == 1 else letter)

    assert findings(world, wanted) == [
        "orders-0@1: dead letter, reason: bad_json, but decoding the record gives wrong_type"
    ]


def test_a_letter_from_after_the_change_has_the_reason_of_the_present_spec(world: World) -> None:
    wanted = corrected(world)

    rewrite(world, wanted, lambda letter: {**letter, "path": "a"} if letter["offset"] == 4 else letter)

    assert findings(world, wanted) == ["orders-0@4: dead letter, path: 'a', but decoding the record gives 'b'"]


def test_a_row_has_a_key_that_was_not_read_at_its_time(world: World) -> None:
    wanted = keys_added(world)

    result = verified(world, wanted)

    assert (result.counts.rows, result.counts.dead_letters) == (2, 1)
    assert [str(each) for each in result.findings] == []
    assert result.notes == (
        "orders-0: equal only by an earlier spec, by which they were read: 1 row; the spec has changed since: key,"
        " metadata.keep",
    )


def test_such_a_row_is_compared_in_its_other_columns(world: World) -> None:
    wanted = keys_added(world)

    rewrite_rows(world, wanted, lambda row: {**row, "n": 9} if row["kafka_offset"] == 0 else row)

    assert findings(world, wanted) == ["orders-0@0: column n: 9 in the table, 1 in Kafka"]


def test_a_row_with_such_a_key_from_after_the_change_is_named(world: World) -> None:
    wanted = keys_added(world)
    world.keys[1] = CUT_KEY

    assert any(each.startswith("orders-0@1: a row in the table, but") for each in findings(world, wanted))


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_row_is_missing_whether_it_would_be_a_letter_now_or_not(world: World, lost: int) -> None:
    wanted = keys_added(world)
    table = world.lake.catalog.load_table(wanted.identifier)

    table.delete(f"kafka_offset = {lost}")

    named = verified(world, wanted)
    assert any(f"offset {lost}" in note for note in named.notes if "missing: 1 record in Kafka" in note)


def test_a_lost_letter_is_missing(world: World) -> None:
    wanted = corrected(world)

    world.lake.catalog.load_table(wanted.dead_letters_identifier).delete("offset = 1")

    assert any("missing: 1 record in Kafka" in each and "offset 1" in each for each in findings(world, wanted))


def test_a_letter_without_a_partition_stays_one_when_the_partitioning_changes(world: World) -> None:
    world.registry.register("orders-value", MONEY)
    least = framed(3, MONEY, {"d": Decimal("-9999999.51"), "n": 1})
    published(world, letters(partition_by=TRUNCATED), framed(3, MONEY, {"d": Decimal("1.00"), "n": 1}), least)

    wanted = published(world, letters(), least)

    result = verified(world, wanted)
    assert (result.counts.rows, result.counts.dead_letters) == (2, 1)
    assert [str(each) for each in result.findings] == []
    assert result.notes == (
        "orders-0: the record of 1 dead letter can be decoded now: `frazil dead-letters replay` turns such letters"
        " into rows",
    )


def test_a_row_has_headers_that_were_not_kept_at_its_time(world: World) -> None:
    """Nothing read them, so it did not matter that they cannot be read."""
    world.headers[0] = UnreadableHeaders("a header key is not UTF-8: 0xff")
    wanted = letters()
    published(world, wanted, GOOD)

    kept = (*wanted.metadata.keep, "headers")
    wanted = published(world, replace(wanted, metadata=replace(wanted.metadata, keep=kept)), GOOD)

    assert findings(world, wanted) == []


def test_a_key_of_an_identity_in_the_value_may_be_read_later(world: World) -> None:
    upsert: dict[str, Any] = {"write": "upsert", "identity": ("n",)}
    world.keys |= {0: CUT_KEY, 1: CUT_KEY, 2: framed(2, LONG, {"n": 5})}
    published(world, keyed("none", **upsert), GOOD, GOOD)

    wanted = published(world, keyed("avro", **upsert), framed(1, TEXT, {"n": 2, "text": "b"}))

    assert findings(world, wanted) == []
    assert verified(world, wanted).counts.rows == 3


def test_a_spec_under_which_nothing_was_read_is_not_kept(world: World) -> None:
    published(world, declared(a="long"), b"{}")
    for fields in ({"a": "int"}, {"a": "string"}):
        world.table(declared(**fields)).batch()

    (earlier,) = applied(world, declared(a="string")).earlier

    assert earlier.keys == {"fields": '{"a": "long"}'}
    published(world, declared(a="long"), b"{}")
    assert applied(world, declared(a="long")).earlier == ()


def test_a_row_is_of_the_message_of_its_time(world: World) -> None:
    text = 'syntax = "proto3"; package shop; message Refund { int64 n = 1; } message Order { int64 n = 1; }'
    schema_id = world.registry.register("orders-value", text, schema_format="PROTOBUF").id
    refund, order = (b"\0" + schema_id.to_bytes(4, "big") + path + b"\x08\x05" for path in (b"\0", b"\x02\x02"))
    published(world, letters(value="protobuf"), refund, order)
    named = letters(value="protobuf", value_settings=replace(SPEC.value_settings, message="shop.Order"))

    wanted = published(world, named, refund, order)

    assert findings(world, wanted) == []
    assert "1 row; the spec has changed since: message" in verified(world, wanted).notes[0]
    rewrite(world, wanted, lambda letter: {**letter, "reason": "bad_index"} if letter["offset"] == 2 else letter)
    assert len(findings(world, wanted)) == 1


def test_a_rebuilt_table_has_no_earlier_spec(tmp_path: Path) -> None:
    log = Changelog.at(tmp_path)
    of_mode("typed", log)
    log.spec = replace(log.spec, value_settings=replace(SPEC.value_settings, fields=json.dumps({"n": "string"})))
    log.send(("a", 1))
    log.catch_up()
    log.spec = replace(log.spec, value_settings=replace(SPEC.value_settings, fields=json.dumps({"n": "int"})))
    log.send(("a", 2))
    log.catch_up()
    assert len(applied(log.world, log.spec).earlier) == 1
    assert log.against_kafka().findings == ()

    rebuild(log).perform()

    assert applied(log.world, log.spec).earlier == ()
    assert log.against_kafka().findings == ()
    assert log.against_kafka().counts.dead_letters == 0


def test_the_tables_of_a_group_have_rows_with_keys_that_were_not_read(tmp_path: Path) -> None:
    group = GroupWorld.at(tmp_path)
    group.registry.register("events-key", LONG)
    key = framed(4, LONG, {"n": 5})
    before, now = (specs(key=each, metadata=keyed(each).metadata) for each in ("none", "avro"))
    group.keys |= {0: CUT_KEY, 1: CUT_KEY, 2: CUT_KEY, 3: key, 4: key, 5: key, 6: CUT_KEY}
    group.send("order", "refund", "other")
    group.catch_up(group.driver(*before))
    group.send("order", "refund", "other", "order")
    group.catch_up(group.driver(*now))

    def named() -> list[str]:
        side = KafkaSide(group.topics, cast(Any, group), group.registry)
        results = verify_together(group.lake, now, kafka=side)
        return [str(finding) for each in results for finding in each.findings]

    assert named() == []
    group.keys[3] = CUT_KEY
    assert any("orders" in each and "bad_key" in each for each in named())


@pytest.mark.parametrize("steps", [("both",), ("key", "fields"), ("fields", "key")])
def test_a_row_with_such_a_key_is_right_though_a_column_has_another_type_since(
    world: World, steps: tuple[str, ...]
) -> None:
    """The earlier fields cannot be placed onto the present columns: the empty column was dropped."""
    world.keys |= {0: b"\xff"} | dict.fromkeys(range(1, 5), b"k")
    key, of_a = "none", "long"
    published(world, with_key_and_fields(key, of_a), b'{"b": 1}', b'{"b": 2}')
    for step in steps:
        key = "string" if step != "fields" else key
        of_a = "string" if step != "key" else of_a
        published(world, with_key_and_fields(key, of_a), b'{"b": 3}')

    assert findings(world, with_key_and_fields("string", "string")) == []


def test_a_wrong_row_is_named_though_the_earlier_fields_cannot_be_placed(world: World) -> None:
    published(world, declared(a="long", b="int"), b'{"b": 1}')
    wanted = published(world, declared(a="string", b="int"), b'{"b": 2}')

    rewrite_rows(world, wanted, lambda row: {**row, "b": 9} if row["kafka_offset"] == 0 else row)

    assert findings(world, wanted) == ["orders-0@0: column b: 9 in the table, 1 in Kafka"]


def with_key_and_fields(key: str, of_a: str) -> TableSpec:
    fields = json.dumps({"a": of_a, "b": "int"})
    return keyed(key, value="json", value_settings=replace(SPEC.value_settings, fields=fields))


def test_a_column_that_only_rows_of_an_earlier_message_had_is_lost(world: World) -> None:
    refund, order = "message Refund { int64 n = 1; string why = 2; }", "message Order { int64 n = 1; }"
    text = f'syntax = "proto3"; package shop; {refund} {order}'
    schema_id = int(str(world.registry.register("orders-value", text, schema_format="PROTOBUF").id))
    frame = b"\0" + schema_id.to_bytes(4, "big")
    published(world, letters(value="protobuf"), frame + b"\0" + b"\x08\x05\x12\x01a")
    named = letters(value="protobuf", value_settings=replace(SPEC.value_settings, message="shop.Order"))
    published(world, named, frame + b"\x02\x02" + b"\x08\x05")
    assert findings(world, named) == []

    with world.lake.catalog.load_table(named.identifier).update_schema() as update:
        update.delete_column("why")

    assert findings(world, named) == [f"schema {schema_id}: the table has no column for why"]
