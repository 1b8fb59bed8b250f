"""Identities by columns, as the schemas of a topic change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from values_of_tables import SPEC
from whole_batches import World, drained, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.pause.pausing import pause_of
from frazil.model.errors import IncompatibleSchemaError, SpecError
from frazil.model.settings import CatalogSettings
from frazil.model.spec import TableSpec
from frazil.modes.identity import FIRST
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record

BY_ID = replace(SPEC, write="deduplicate", identity=("id",), on_tombstone="dead_letter")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(IcebergLake(CatalogSettings("jdbc", str(tmp_path))))


def write(world: World, schema: str, *values: dict[str, Any]) -> None:
    registered = world.registry.register("orders-value", schema).id
    assert isinstance(registered, int)
    world.values += [framed(registered, schema, value) for value in values]


def rows(world: World, spec: TableSpec, *columns: str) -> list[tuple[Any, ...]]:
    view = world.lake.load(spec.identifier)
    assert view is not None
    batches = world.lake.read(view, columns=columns, equal={})
    return sorted(tuple(row[name] for name in columns) for batch in batches for row in batch.to_pylist())


def test_an_identity_survives_a_wider_type_and_another_name(world: World) -> None:
    write(world, record(a_field("id", "int")), {"id": 1}, {"id": 2})
    drained(world, BY_ID)
    write(world, record(a_field("id", "long")), {"id": 2}, {"id": 3})
    drained(world, BY_ID)
    renamed = record({"name": "number", "type": "long", "aliases": ["id"]})
    write(world, renamed, {"number": 3}, {"number": 4})
    drained(world, BY_ID)

    for spec in (BY_ID, replace(BY_ID, identity=("number",))):
        write(world, renamed, {"number": 1})
        drained(world, spec)
        assert rows(world, spec, "number", "kafka_offset") == [(1, 0), (2, 1), (3, 3), (4, 5)]
        assert verify_table(world.lake, spec).findings == ()


def test_rows_may_be_sorted_by_the_hash_of_their_identity(world: World) -> None:
    spec = replace(BY_ID, sort_by=(FIRST,))
    write(world, record(a_field("id", "int")), *({"id": number % 20} for number in range(30)))
    drained(world, spec)
    write(world, record(a_field("id", "int")), {"id": 3}, {"id": 20})
    drained(world, spec)

    assert rows(world, spec, "id") == [(number,) for number in range(21)]
    view = world.lake.load(spec.identifier)
    assert view is not None and view.sort_fields == (FIRST,)
    for batch in world.lake.read(view, columns=(FIRST,), equal={}):
        halves = batch.column(0).to_pylist()
        assert halves == sorted(halves)
    assert verify_table(world.lake, spec).findings == ()


def test_a_part_of_a_struct_may_be_the_identity(world: World) -> None:
    inner = {"type": "record", "name": "Event", "fields": [a_field("id", "string"), a_field("n")]}
    schema = record(a_field("event", ["null", inner]))
    write(world, schema, *({"event": event} for event in ({"id": "a", "n": 1}, None, {"id": "a", "n": 2})))
    spec = replace(BY_ID, identity=("event.id",))
    drained(world, spec)

    verification = verify_table(world.lake, spec)
    assert verification.findings == ()
    counts = verification.counts
    assert (counts.rows, counts.duplicates, counts.dead_letters) == (1, 1, 1)


@pytest.mark.parametrize("on_incompatible", ["pause", "dead_letter", "new_column"])
def test_an_incompatible_change_of_the_identity_always_pauses(world: World, on_incompatible: Any) -> None:
    spec = replace(BY_ID, on_incompatible_schema=on_incompatible)
    write(world, record(a_field("id", "long")), {"id": 1})
    drained(world, spec)
    write(world, record(a_field("id", "string")), {"id": "1"})

    with pytest.raises(IncompatibleSchemaError, match="id"):
        drained(world, spec)
    view = world.lake.load(spec.identifier)
    assert view is not None
    assert pause_of(view.properties) is not None
    assert rows(world, spec, "kafka_offset") == [(0,)]


@pytest.mark.parametrize("on_incompatible", ["pause", "dead_letter", "new_column"])
@pytest.mark.parametrize("partitioned", ["region", "bucket(4, region)"])
def test_an_incompatible_change_of_a_partition_column_always_pauses(
    world: World, partitioned: str, on_incompatible: Any
) -> None:
    spec = replace(BY_ID, on_incompatible_schema=on_incompatible, partition_by=(partitioned,))
    write(world, record(a_field("id"), a_field("region", "long")), {"id": 1, "region": 1})
    drained(world, spec)
    write(world, record(a_field("id"), a_field("region", "string")), {"id": 2, "region": "1"})

    with pytest.raises(IncompatibleSchemaError, match="region") as caught:
        drained(world, spec)
    assert "id, region: which record is the row of its key, or its partition, depends on it" in str(caught.value.hint)
    view = world.lake.load(spec.identifier)
    assert view is not None
    assert pause_of(view.properties) is not None
    assert rows(world, spec, "kafka_offset") == [(0,)]


def test_an_append_table_may_make_dead_letters_of_another_partition_type(world: World) -> None:
    spec = replace(SPEC, on_incompatible_schema="dead_letter", partition_by=("region",))
    write(world, record(a_field("region", "long")), {"region": 1})
    drained(world, spec)
    write(world, record(a_field("region", "string")), {"region": "1"})
    drained(world, spec)

    assert rows(world, spec, "kafka_offset") == [(0,)]
    assert verify_table(world.lake, spec).counts.dead_letters == 1


def test_a_float_is_no_identity(world: World) -> None:
    write(world, record(a_field("id", "double")), {"id": 1.0})

    with pytest.raises(SpecError, match="id: is double, and cannot be a part of the identity"):
        drained(world, BY_ID)
