"""Protobuf without `message` in the spec: the first message of each schema makes the rows, so it must not change."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from values_of_tables import spec
from whole_batches import World

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.outcome import Again, Published
from frazil.materialize.pause.pausing import PAUSED_PROPERTY, excluded_schemas, pause_of
from frazil.materialize.preview.candidate import plan_schema
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.schemas import NONE_EXCLUDED, UNREGISTERED, RegisteredSchema
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import FormatSettings, TableSpec

SPEC = spec(value="protobuf")
HEAD = 'syntax = "proto3"; package shop; '
ORDER, REFUND = "message Order { int64 n = 1; } ", "message Refund { int64 n = 1; } "
OLD, REFUND_FIRST, REFUND_LAST = HEAD + ORDER, HEAD + REFUND + ORDER, HEAD + ORDER + REFUND


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))


def register(world: World, text: str, subject: str = "orders-value") -> int:
    return world.registry.register(subject, text, schema_format="PROTOBUF").id


def write(world: World, schema_id: int, n: int, path: bytes = b"\x00") -> None:
    """Write the message with this path of the file; a path of one 0 is the first message."""
    world.values.append(struct.pack(">bI", 0, schema_id) + path + b"\x08" + bytes([n]))


def batch(world: World, wanted: TableSpec = SPEC) -> Published:
    table = world.table(wanted)
    outcome = table.batch()
    while isinstance(outcome, Again):
        outcome = table.batch()
    assert isinstance(outcome, Published)
    return outcome


def view_of(world: World) -> TableView:
    view = world.lake.load(SPEC.identifier)
    assert view is not None
    return view


@pytest.mark.parametrize("wanted", [SPEC, replace(SPEC, on_incompatible_schema="dead_letter")])
def test_another_message_in_front_of_the_tables_one_pauses_it(world: World, wanted: TableSpec) -> None:
    """Some records with the schema would be rows if the spec named the message, so none becomes a dead letter."""
    write(world, register(world, OLD), 1)
    batch(world, wanted)
    newest = register(world, REFUND_FIRST)
    write(world, newest, 2)

    (checked,) = world.check(wanted)
    with pytest.raises(IncompatibleSchemaError) as refused:
        world.table(wanted).batch()

    assert "its first message is shop.Refund, and the table has the records of shop.Order" in refused.value.what
    assert refused.value.hint.startswith("set `message: shop.Order` in ")
    assert refused.value.hint.endswith("then run `frazil resume lake.orders`")
    assert checked.what == refused.value.what
    paused = pause_of(view_of(world).properties)
    assert paused is not None
    assert paused.schema_id == newest
    assert excluded_schemas(view_of(world).properties) == NONE_EXCLUDED


def test_the_spec_that_names_the_message_goes_on(world: World) -> None:
    write(world, register(world, OLD), 1)
    batch(world)
    newest = register(world, REFUND_FIRST)
    write(world, newest, 2)
    write(world, newest, 3, path=b"\x02\x02")
    with pytest.raises(IncompatibleSchemaError):
        world.table(SPEC).batch()
    world.lake.set_properties(SPEC.identifier, put={}, remove=[PAUSED_PROPERTY])

    named = replace(SPEC, value_settings=FormatSettings(message="shop.Order"))
    receipt = batch(world, named).receipt

    assert receipt.counts.rows == 1
    assert receipt.dead_letters_by_reason == {"wrong_message": 1}


def test_an_older_schema_with_another_first_message_pauses_the_table_as_well(world: World) -> None:
    older = register(world, OLD)
    register(world, REFUND_FIRST)
    write(world, older, 1)

    with pytest.raises(IncompatibleSchemaError, match=r"its first message is shop\.Order"):
        batch(world)


@pytest.mark.parametrize("newer", [REFUND_LAST, HEAD + "message Renamed { int64 n = 1; }"])
def test_other_changes_of_the_file_are_followed(world: World, newer: str) -> None:
    write(world, register(world, OLD), 1)
    batch(world)
    write(world, register(world, newer), 2)

    assert batch(world).receipt.counts.rows == 1


def test_a_schema_that_was_accepted_before_stays_accepted(world: World) -> None:
    """Earlier releases accepted such a schema, and their tables continue."""
    write(world, register(world, OLD), 1)
    batch(world, replace(SPEC, value_settings=FormatSettings(message="shop.Order")))
    newest = register(world, REFUND_FIRST)
    write(world, newest, 2, path=b"\x02\x02")
    batch(world, replace(SPEC, value_settings=FormatSettings(message="shop.Order")))
    write(world, newest, 3)

    assert batch(world).receipt.counts.rows == 1


def test_plan_schema_says_so_beforehand(world: World) -> None:
    write(world, register(world, OLD), 1)
    batch(world)

    plan = plan_schema(
        world.lake, world.registry, SPEC, RegisteredSchema(UNREGISTERED, "PROTOBUF", REFUND_FIRST), of_key=False
    )

    assert [finding.problem[:35] for finding in plan.findings] == ["its first message is shop.Refund, a"]


def test_keys_have_a_setting_of_their_own(world: World) -> None:
    keyed = spec(key="protobuf", value="string")
    register(world, OLD, "orders-key")
    world.values.append(b"a")
    batch(world, keyed)
    register(world, REFUND_FIRST, "orders-key")

    with pytest.raises(IncompatibleSchemaError) as refused:
        world.table(keyed).batch()

    assert refused.value.hint.startswith("set `key_message: shop.Order` in ")
