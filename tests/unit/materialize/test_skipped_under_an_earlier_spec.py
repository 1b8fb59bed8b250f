"""With `on_bad_record: skip`, a record that was never read is not taken for one that was skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_letters_against_kafka import TEXT, published
from test_specs_of_earlier_records import CUT_KEY, GOOD, declared, findings, keyed
from whole_batches import LONG, World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.model.settings import CatalogSettings
from frazil.model.spec import TableSpec

SKIP: dict[str, Any] = {"on_bad_record": "skip"}
UPSERT: dict[str, Any] = {"write": "upsert", "identity": ("n",), "on_tombstone": "dead_letter"}
MISSING = "orders-0: missing: 1 record in Kafka (not a row, a dead letter or skipped): offset 1"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", TEXT)
    made.registry.register("orders-key", LONG)
    made.keys |= dict.fromkeys(range(9), framed(2, LONG, {"n": 5}))
    return made


def losing(world: World, lost: int, wanted: TableSpec, *values: Any) -> TableSpec:
    """Publish records but one, which ingest never sees."""
    world.gone = {lost}
    published(world, wanted, *values)
    world.gone = set()
    return wanted


def skipping(fields: dict[str, str]) -> TableSpec:
    return replace(declared(**fields), on_bad_record="skip")


def test_a_lost_record_with_a_key_that_was_not_read_is_missing(world: World) -> None:
    world.keys[1] = CUT_KEY
    losing(world, 1, keyed("none", **SKIP), GOOD, GOOD, GOOD)

    wanted = published(world, keyed("avro", **SKIP), GOOD)

    assert findings(world, wanted) == [MISSING]


def test_a_lost_record_of_a_field_that_has_another_type_since_is_missing(world: World) -> None:
    losing(world, 1, skipping({"a": "long", "b": "int"}), b'{"b": 1}', b'{"a": 5, "b": 1}', b'{"b": 2}')

    wanted = published(world, skipping({"a": "string", "b": "int"}), b'{"b": 2}')

    assert findings(world, wanted) == [MISSING]


def test_a_row_is_stale_if_the_newest_record_of_its_identity_was_lost(world: World) -> None:
    world.keys[1] = CUT_KEY
    newer = framed(1, TEXT, {"n": 1, "text": "b"})
    losing(world, 1, keyed("none", **SKIP, **UPSERT), GOOD, newer)

    wanted = published(world, keyed("avro", **SKIP, **UPSERT), framed(1, TEXT, {"n": 2, "text": "c"}))

    assert findings(world, wanted) == [
        "orders-0@1: the row of the record's key is from offset 0, and the record is newer"
    ]


def test_a_record_that_was_skipped_at_its_time_may_be_good_under_a_later_spec_of_the_past(world: World) -> None:
    published(world, keyed("avro", **SKIP), GOOD)
    world.keys[1] = CUT_KEY
    published(world, keyed("avro", **SKIP), GOOD)
    published(world, keyed("none", **SKIP), GOOD)

    wanted = published(world, keyed("avro", **SKIP), GOOD)

    assert findings(world, wanted) == []
