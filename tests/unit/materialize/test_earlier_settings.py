"""What tombstones, bad records and placeholders became is proven by the settings of their time."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from change_streams import ChangeStream
from test_change_events import UNAVAILABLE, order, postgres
from test_explained_losses import losing, missing, text
from test_letters_against_kafka import TEXT, letters, published, verified
from test_specs_of_earlier_records import MONEY, findings
from values_of_tables import SPEC
from whole_batches import World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.model.change_events import ChangeEvents
from frazil.model.settings import CatalogSettings
from frazil.model.spec import TableSpec

BY_KEY: dict[str, Any] = {"key": "string", "write": "upsert"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", TEXT)
    return made


def changed(world: World, before: TableSpec, now: TableSpec, *values: Any) -> TableSpec:
    """Publish records by a spec, and one more by the next."""
    published(world, before, *values)
    return published(world, now, text(9))


@pytest.mark.parametrize("now", ["dead_letter", "skip"])
def test_a_tombstone_that_deleted_a_row_is_a_delete(world: World, now: Any) -> None:
    world.keys |= dict.fromkeys(range(2), b"a") | {2: b"b"}
    before = letters(on_tombstone="delete", **BY_KEY)

    wanted = changed(world, before, letters(on_tombstone=now, **BY_KEY), text(0), None)

    assert findings(world, wanted) == []
    assert verified(world, wanted).counts.deletes == 1


def test_a_tombstone_that_was_skipped_left_the_row_of_its_key(world: World) -> None:
    world.keys |= dict.fromkeys(range(2), b"a") | {2: b"b"}
    before = letters(on_tombstone="skip", **BY_KEY)

    wanted = changed(world, before, letters(on_tombstone="delete", **BY_KEY), text(0), None)

    assert findings(world, wanted) == []


@pytest.mark.parametrize("now", ["row", "dead_letter", "skip"])
@pytest.mark.parametrize("before", ["row", "dead_letter", "skip"])
def test_a_tombstone_is_what_the_spec_of_its_time_made_of_it(world: World, before: Any, now: Any) -> None:
    wanted = changed(world, letters(on_tombstone=before), letters(on_tombstone=now), text(0), None)

    result = verified(world, wanted)

    assert [str(each) for each in result.findings] == []
    assert not any("missing" in note for note in result.notes), result.notes


@pytest.mark.parametrize("lost", [None, b"bad"])
def test_a_lost_record_was_not_skipped_before_the_spec_skipped_any(world: World, lost: bytes | None) -> None:
    losing(world, [1], letters(), text(0), lost, text(2))
    skipping = letters(on_bad_record="skip", on_tombstone="skip")

    wanted = published(world, skipping, None, b"bad")

    assert findings(world, wanted) == [missing(1)]


@pytest.mark.parametrize("bad", [None, b"bad"])
def test_a_skipped_record_is_no_lost_one_once_bad_records_are_kept(world: World, bad: bytes | None) -> None:
    skipping = letters(on_bad_record="skip", on_tombstone="skip")

    wanted = changed(world, skipping, letters(on_tombstone="row"), text(0), bad)

    result = verified(world, wanted)
    assert ([str(each) for each in result.findings], result.notes) == ([], ())


def test_a_value_that_an_event_lacked_is_behind_the_placeholder_of_its_time(tmp_path: Path) -> None:
    stream = ChangeStream.at(tmp_path)
    stream.send(1, postgres("c", after=order(1, notes="x", day=1)))
    stream.catch_up()
    stream.send(1, postgres("u", after=order(1, **UNAVAILABLE, day=2)))
    stream.catch_up()
    events = ChangeEvents(placeholder=b"__other__")
    stream.spec = replace(stream.spec, value_settings=replace(stream.spec.value_settings, change_events=events))
    stream.send(2, postgres("c", after=order(2, notes="y", day=1)))
    stream.catch_up()

    assert [str(each) for each in stream.against_kafka().findings] == []


@pytest.mark.parametrize("unapplied", [{"on_tombstone": "row"}, {"on_bad_record": "dead_letter"}])
def test_a_spec_that_no_run_has_applied_yet_judges_nothing(world: World, unapplied: dict[str, Any]) -> None:
    skipping = letters(on_tombstone="skip", on_bad_record="skip")
    published(world, skipping, text(0), None, b"bad")

    result = verified(world, replace(skipping, **unapplied))

    assert ([str(each) for each in result.findings], result.notes) == ([], ())


def test_partitions_that_no_run_has_applied_yet_judge_nothing(world: World) -> None:
    world.registry.register("orders-value", MONEY)
    least = framed(2, MONEY, {"d": Decimal("-9999999.51"), "n": 1})
    plain = published(world, letters(), framed(2, MONEY, {"d": Decimal("1.00"), "n": 1}), least)
    assert findings(world, replace(plain, partition_by=("truncate(50, d)",))) == []


def test_a_message_that_no_run_has_applied_yet_judges_nothing(world: World) -> None:
    messages = 'syntax = "proto3"; package shop; message Refund { int64 n = 1; } message Order { int64 n = 1; }'
    schema_id = int(str(world.registry.register("orders-value", messages, schema_format="PROTOBUF").id))
    plain = letters(value="protobuf")
    published(world, plain, b"\0" + schema_id.to_bytes(4, "big") + b"\0" + b"\x08\x05")

    named = replace(plain, value_settings=replace(SPEC.value_settings, message="shop.Order"))

    assert findings(world, named) == []
