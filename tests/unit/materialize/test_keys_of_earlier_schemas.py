"""Keys that nothing read at their time may have schemas that the key column of the table cannot hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_letters_against_kafka import TEXT, published, verified
from test_specs_of_earlier_records import GOOD, findings, keyed, rewrite_rows
from whole_batches import LONG, World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.model.settings import CatalogSettings
from tests.fakes.clients_in_memory import a_field, record

OTHERS = {
    "more": (record(a_field("n"), a_field("why", "string")), {"n": 1, "why": "x"}),
    "other type": (record(a_field("n", "string")), {"n": "x"}),
}
MODES: dict[str, dict[str, Any]] = {
    "append": {},
    "upsert": {"write": "upsert", "identity": ("n",), "on_tombstone": "dead_letter"},
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", TEXT)
    made.registry.register("orders-key", LONG)
    return made


def other_key(world: World, kind: str) -> bytes:
    text, value = OTHERS[kind]
    return framed(int(str(world.registry.register("other-key", text).id)), text, value)


def text(n: int) -> bytes:
    return framed(1, TEXT, {"n": n, "text": "a"})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", OTHERS)
def test_a_row_of_the_time_when_keys_were_not_read_may_have_such_a_key(world: World, mode: str, kind: str) -> None:
    world.keys |= dict.fromkeys(range(3), other_key(world, kind)) | {3: framed(2, LONG, {"n": 5})}
    published(world, keyed("none", **MODES[mode]), GOOD, text(3), GOOD)

    wanted = published(world, keyed("avro", **MODES[mode]), text(2))

    assert findings(world, wanted) == []
    assert any("equal only by an earlier spec" in note for note in verified(world, wanted).notes)


@pytest.mark.parametrize("kind", OTHERS)
def test_such_a_row_is_compared_in_its_other_columns(world: World, kind: str) -> None:
    world.keys |= {0: other_key(world, kind), 1: framed(2, LONG, {"n": 5})}
    published(world, keyed("none"), GOOD)
    wanted = published(world, keyed("avro"), text(2))

    rewrite_rows(world, wanted, lambda row: {**row, "n": 9} if row["kafka_offset"] == 0 else row)

    assert findings(world, wanted) == ["orders-0@0: column n: 9 in the table, 1 in Kafka"]


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("how", ["dead_letter", "skip"])
def test_a_lost_record_with_such_a_key_is_missing(world: World, kind: str, how: str) -> None:
    world.keys |= {0: framed(2, LONG, {"n": 5}), 1: other_key(world, kind), 2: framed(2, LONG, {"n": 5})}
    world.gone = {1}
    published(world, keyed("none", on_bad_record=how), text(0), text(1))
    world.gone = set()

    wanted = published(world, keyed("avro", on_bad_record=how), text(2))

    assert findings(world, wanted) == [
        "orders-0: missing: 1 record in Kafka (not a row, a dead letter or skipped): offset 1"
    ]


@pytest.mark.parametrize("kind", OTHERS)
def test_a_dead_letter_with_such_a_key_has_the_reason_of_its_time(world: World, kind: str) -> None:
    world.keys |= {0: other_key(world, kind), 1: framed(2, LONG, {"n": 5})}
    published(world, keyed("none"), GOOD[:-1])

    wanted = published(world, keyed("avro"), text(2))

    assert findings(world, wanted) == []
