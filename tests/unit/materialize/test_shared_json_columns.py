"""Fields of JSON Schemas whose names become the same column do not share it, in one schema or in several."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from values_of_tables import spec
from whole_batches import World

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.outcome import Published
from frazil.materialize.schema.succession import Accepted, shared_columns
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.settings import CatalogSettings
from frazil.model.spec import MetadataColumns, TableSpec

WANTED = spec(value="json_schema", metadata=MetadataColumns(keep=("partition", "offset", "timestamp")))

WITHIN: dict[str, Any] = {
    "": lambda inner: inner,
    "at.": lambda inner: {"type": "object", "properties": {"at": inner}},
    "at[].": lambda inner: {"type": "object", "properties": {"at": {"type": "array", "items": inner}}},
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))


def write(world: World, *names: str, at: str = "", subject: str = "orders-value") -> None:
    """Register a schema with these fields, and write a record by it."""
    inner = {"type": "object", "properties": {key: {"type": "string"} for key in names}}
    schema = {"title": "T", **WITHIN[at](inner)}
    schema_id = world.registry.register(subject, json.dumps(schema), schema_format="JSON").id
    world.values.append(b"\0" + schema_id.to_bytes(4, "big") + b"{}")


def resume(world: World) -> None:
    world.lake.set_properties(WANTED.identifier, put={}, remove=("frazil.paused",))


def batch(world: World, wanted: TableSpec = WANTED) -> object:
    return world.table(wanted).batch()


@pytest.mark.parametrize("at", WITHIN)
@pytest.mark.parametrize(("first", "later"), [("e-mail", "e_mail"), ("e_mail", "e-mail"), ("e-mail", "e.mail")])
def test_a_field_does_not_get_the_column_of_another_field_of_an_earlier_schema(
    world: World, first: str, later: str, at: str
) -> None:
    write(world, "n", first, at=at)
    assert isinstance(batch(world), Published)
    write(world, "n", "other", at=at)
    assert isinstance(batch(world), Published)
    write(world, "n", later, at=at)

    with pytest.raises(IncompatibleSchemaError) as refused:
        batch(world)

    (finding,) = refused.value.findings
    assert str(finding) == (
        f"{at}e_mail: is the column of {first}, in schema 1, and would be that of {later}: rename the new field"
    )
    resume(world)
    with pytest.raises(IncompatibleSchemaError, match=f"is the column of {first}"):
        batch(world)


def test_the_same_field_in_a_later_schema_keeps_its_column(world: World) -> None:
    for names in (["e-mail"], ["e-mail", "n"], ["n"], ["e-mail"]):
        write(world, *names)
        assert isinstance(batch(world), Published)


def test_a_field_of_keys_does_not_get_the_column_of_another_field(world: World) -> None:
    wanted = spec(value="json_schema", key="json_schema")
    write(world, "n")
    value = world.values.pop()
    for offset, name in enumerate(("e-mail", "e_mail")):
        write(world, name, subject="orders-key")
        world.keys[offset] = world.values.pop()
        world.values.append(value)
        if offset == 0:
            assert isinstance(batch(world, wanted), Published)

    with pytest.raises(IncompatibleSchemaError, match=r"kafka_key\.e_mail: is the column of e-mail"):
        batch(world, wanted)


def test_a_field_that_shares_its_column_already_does_not_pause_the_table_at_each_new_schema(world: World) -> None:
    for names in (["e-mail"], ["e_mail"], ["e_mail", "n"], ["e.mail"]):
        write(world, *names)
    first, second, later, other = (world.registry.by_id(n) for n in (1, 2, 3, 4))
    assert first is not None and second is not None and later is not None and other is not None
    accepted = Accepted.of([first, second], [first.id, second.id])

    assert shared_columns(WANTED, later, accepted, of_key=False) == ()
    assert [each.path for each in shared_columns(WANTED, other, accepted, of_key=False)] == ["e_mail"]
