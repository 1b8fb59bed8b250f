"""A table that is made to follow another spec while a batch or a replay of the former one is under way."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from values_of_tables import SPEC, spec
from whole_batches import World, drained, once

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.outcome import Again
from frazil.materialize.replay.request import ReplayRequest
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit, TableSpec


def declared(**fields: str) -> TableSpec:
    settings = replace(SPEC.value_settings, fields=json.dumps(fields))
    return spec(value="json", bad_record_limit=BadRecordLimit.off(), value_settings=settings)


FORMER, PRESENT = declared(a="int", b="int"), declared(a="long", b="int")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A row without a value of `a`, whose column may therefore get another type."""
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.values += [b'{"b": 1}']
    drained(made, FORMER)
    return made


def stored(world: World) -> dict[int, int | None]:
    rows = world.lake.catalog.load_table(SPEC.identifier).scan().to_arrow().to_pylist()
    return {row["kafka_offset"]: row["a"] for row in rows}


@pytest.mark.parametrize("when", [("before", "ingest"), ("before", "stage"), ("before", "publish")], ids=" ".join)
def test_a_batch_of_the_former_spec_is_read_again(world: World, when: tuple[str, str]) -> None:
    """Its files have the former column, so the row would lack its value."""
    world.values += [b'{"a": 5, "b": 2}']
    former = world.table(FORMER)
    former.clients = replace(former.clients, observe=once(when, world.table(PRESENT).create))

    assert isinstance(former.batch(), Again)

    drained(world, PRESENT)
    assert stored(world) == {0: None, 1: 5}


def test_a_replay_of_the_former_spec_begins_again(world: World) -> None:
    world.values += [b'{"a": "no date", "b": 2}', b'{"a": 5, "b": 3}']
    drained(world, declared(a="date", b="int"))
    drained(world, FORMER)
    former = world.table(FORMER)
    observe = once(("before", "replay_publish"), world.table(PRESENT).create)
    former.clients = replace(former.clients, observe=observe, new_id=lambda: uuid.uuid4().hex)

    former.replay(ReplayRequest("r", by="t", at="2026-03-01T12:00:00Z"))

    assert stored(world)[2] == 5
