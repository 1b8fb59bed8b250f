"""What the proof against Kafka says of dead letters: their bytes, their reasons, and those that it cannot decrypt."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from policed_tables import HASH, HASH_KEY, masked
from values_of_tables import spec
from whole_batches import LONG, World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.outcome import Published
from frazil.model.policies import Policy
from frazil.model.secret import NamedKey
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit, MetadataColumns, TableSpec
from frazil.proof.verification import Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record

TEXT = record(a_field("n"), a_field("text", "string"))
CUT = framed(1, TEXT, {"n": 7, "text": "four"})[:-2]
"""It ends inside `text`."""

NO_LIMIT = BadRecordLimit.off()


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", TEXT)
    return made


def published(world: World, wanted: TableSpec, *values: Any) -> TableSpec:
    world.values += list(values)
    assert isinstance(world.table(wanted).batch(), Published)
    return wanted


def verified(world: World, wanted: TableSpec) -> Verification:
    return verify_table(world.lake, wanted, kafka=KafkaSide(world.topics, cast(Any, world), world.registry))


def found(world: World, wanted: TableSpec) -> list[str]:
    return [str(finding) for finding in verified(world, wanted).findings]


def rewrite(world: World, wanted: TableSpec, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change each dead letter, as another writer could."""
    table = world.lake.catalog.load_table(wanted.dead_letters_identifier)
    held = table.scan().to_arrow()
    table.overwrite(pa.Table.from_pylist([change(letter) for letter in held.to_pylist()], held.schema))


def letters(**more: Any) -> TableSpec:
    return spec(bad_record_limit=NO_LIMIT, **more)


def test_letters_of_every_derivable_kind_are_equal_to_what_decoding_gives(world: World) -> None:
    world.registry.register("x", "{}", schema_format="JSON")
    wanted = letters(on_tombstone="dead_letter")
    world.keys[4] = b"\xff"
    good = framed(1, TEXT, {"n": 1, "text": "a"})

    published(world, wanted, good, CUT, b"no frame", b"\0\0\0\0\x02{}", good, None, b"\0\0\0\0\x63x")

    result = verified(world, wanted)
    assert (result.counts.dead_letters, result.counts.rows) == (6, 1)
    assert [str(each) for each in result.findings] == []
    assert result.notes == ()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"reason": "bad_varint"}, "dead letter, reason: bad_varint, but decoding the record gives bad_length"),
        ({"reason": "gone"}, "dead letter, reason: gone, but decoding the record gives bad_length"),
        ({"path": "n"}, "dead letter, path: 'n', but decoding the record gives 'text'"),
        ({"schema_id": 2}, "dead letter, schema_id: 2, 1 in Kafka"),
        ({"schema_id": None}, "dead letter, schema_id: None, 1 in Kafka"),
        ({"value": CUT[:-1]}, "dead letter, value: "),
    ],
)
def test_an_altered_letter_is_named(world: World, change: dict[str, Any], what: str) -> None:
    wanted = published(world, letters(), framed(1, TEXT, {"n": 1, "text": "a"}), CUT)

    rewrite(world, wanted, lambda letter: {**letter, **change})

    (finding,) = found(world, wanted)
    assert finding.startswith(f"orders-0@1: {what}")


def test_letters_whose_schema_is_registered_later_can_be_decoded_now(world: World) -> None:
    wanted = published(world, letters(), framed(2, LONG, {"n": 1}))
    world.registry.register("orders-value", LONG)

    result = verified(world, wanted)

    assert result.clean
    assert result.notes == (
        "orders-0: the record of 1 dead letter can be decoded now: `frazil dead-letters replay` turns such letters"
        " into rows",
    )


def test_of_a_table_that_follows_keys_some_need_a_rebuild(world: World) -> None:
    world.keys[0] = b"k"
    wanted = published(world, letters(write="upsert"), framed(2, LONG, {"n": 1}))
    world.registry.register("orders-value", LONG)

    (note,) = verified(world, wanted).notes

    assert note.endswith("turns such letters into rows; `frazil rebuild lake.orders` applies those that it leaves")


def test_a_letter_of_a_schema_that_is_registered_later_is_still_compared(world: World) -> None:
    wanted = published(world, letters(), framed(2, TEXT, {"n": 1, "text": "abcd"})[:-1])
    world.registry.register("orders-value", json.dumps({**json.loads(TEXT), "doc": "new"}))

    assert verified(world, wanted).notes == ()
    assert found(world, wanted) == []


def test_tombstones_that_a_bad_key_refused_are_right_under_either_setting(world: World) -> None:
    world.keys[1] = b"\xff"
    wanted = published(world, letters(on_tombstone="row"), framed(1, TEXT, {"n": 1, "text": "a"}), None)

    assert found(world, wanted) == []
    assert found(world, replace(wanted, on_tombstone="dead_letter")) == []


@pytest.mark.parametrize("policies", [{}, {"text": HASH}], ids=["plain", "encrypted"])
def test_a_letter_of_a_key_whose_schema_is_registered_later_is_right_whatever_its_bytes(
    world: World, policies: dict[str, Policy]
) -> None:
    """A schema that was unknown when the key was read has no path in it; now its bytes are found to be cut off."""
    with_key = MetadataColumns(keep=("partition", "offset", "timestamp", "key"))
    policies = {**policies, "kafka_key.k": HASH} if policies else {}
    make = masked if policies else lambda _, **more: spec(**more)
    wanted = make(policies, key="avro", metadata=with_key, bad_record_limit=NO_LIMIT)
    world.registry.register("orders-key", record(a_field("k"), name="K"))
    later = record(a_field("k"), a_field("m", ["null", "int"]), name="K")
    whole = framed(3, later, {"k": 5, "m": None})
    world.keys.update({0: whole[:-1], 1: framed(2, record(a_field("k"), name="K"), {"k": 70})[:-1]})
    published(world, wanted, *[framed(1, TEXT, {"n": 1, "text": "a"})] * 2)
    assert found(world, wanted) == []

    world.registry.register("orders-key", later)
    world.registry.missing.clear()

    assert found(world, wanted) == []
    other_key = replace(wanted, dead_letter_key=NamedKey("d2", HASH_KEY.secret)) if policies else wanted
    assert found(world, other_key) == []
    rewrite(world, wanted, lambda letter: {**letter, "path": "kafka_key.x"})
    assert [each.partition(":")[0] for each in found(world, wanted)] == ["orders-0@1"]
    assert "orders-0@1" in str(found(world, other_key))


def test_a_letter_of_a_key_is_right_under_another_prefix(world: World) -> None:
    world.registry.register("orders-key", LONG)
    world.keys[0] = b"\0\0\0\0\2"
    wanted = published(world, letters(key="avro"), framed(1, TEXT, {"n": 1, "text": "a"}))
    renamed = replace(wanted, metadata=replace(wanted.metadata, prefix="k_"))
    world.keys[1] = framed(2, LONG, {"n": 5})
    published(world, renamed, framed(1, TEXT, {"n": 2, "text": "b"}))

    assert verified(world, renamed).findings == ()
    rewrite(world, renamed, lambda letter: {**letter, "path": "kafka_value"})
    assert "path: 'kafka_value'" in found(world, renamed)[0]


def test_letters_under_another_key_are_noted_and_the_others_compared(world: World) -> None:
    wanted = published(world, masked({"text": HASH}, bad_record_limit=NO_LIMIT), CUT)
    later = replace(wanted, dead_letter_key=NamedKey("d2", HASH_KEY.secret))
    published(world, later, b"no frame")

    assert verified(world, later).clean
    assert verified(world, later).notes == (
        "orders-0: not compared are key, value and headers of 1 dead letter under the key d1: the configured"
        " dead_letter_key is d2",
    )
    assert verified(world, replace(wanted, dead_letter_key=None)).notes[-1].endswith("no dead_letter_key is configured")

    rewrite(world, later, lambda letter: {**letter, "reason": "bad_index"} if letter["offset"] == 0 else letter)
    assert found(world, later) == [
        "orders-0@0: dead letter, reason: bad_index, but decoding the record gives bad_length"
    ]


def test_a_letter_that_was_altered_under_its_encryption_is_a_finding(world: World) -> None:
    wanted = published(world, masked({"text": HASH}, bad_record_limit=NO_LIMIT), CUT, b"no frame")

    rewrite(world, wanted, lambda letter: {**letter, "value": letter["value"][:-1] + b"\0"})

    assert [each.partition(":")[0] for each in found(world, wanted)] == ["orders-0@0", "orders-0@1"]
    assert (
        "the column `value` of the dead letter orders-0@0 cannot be decrypted with the dead_letter_key d1"
        in found(world, wanted)[0]
    )
