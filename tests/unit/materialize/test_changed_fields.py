"""Declared fields that are corrected: while no row has a value that was read otherwise, the table follows."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from values_of_tables import spec
from whole_batches import World

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.outcome import Published
from frazil.materialize.pause.by_operator import resume
from frazil.materialize.replay.request import ReplayRequest
from frazil.materialize.run import TableRun
from frazil.model.errors import BadRecordLimitError, SpecChangeError
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit, FormatSettings, TableSpec
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table

REQUEST = ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))


def declared(**fields: object) -> TableSpec:
    settings = FormatSettings(fields=json.dumps(fields) if fields else "")
    return spec(value="json", value_settings=settings, bad_record_limit=BadRecordLimit.off())


def run(world: World, table: TableSpec) -> TableRun:
    made = world.table(table)
    made.clients = replace(made.clients, new_id=lambda: uuid.uuid4().hex)
    return made


def read(world: World, table: TableSpec, *values: bytes) -> None:
    world.values += values
    assert isinstance(run(world, table).batch(), Published)


def rows(world: World, table: TableSpec) -> list[dict[str, Any]]:
    found = world.lake.catalog.load_table(table.identifier).scan().to_arrow()
    names = [name for name in found.column_names if not name.startswith("kafka_")]
    return cast("list[dict[str, Any]]", found.sort_by("kafka_offset").select(names).to_pylist())


def findings(world: World, table: TableSpec) -> list[str]:
    kafka = KafkaSide(world.topics, cast(Any, world), world.registry)
    return [str(finding) for finding in verify_table(world.lake, table, kafka=kafka).findings]


def test_a_table_of_dead_letters_alone_takes_any_fields(world: World) -> None:
    read(world, declared(id="long", gone="int"), b'{"id": "a"}', b'{"id": "b", "m": {"x": 1}}')
    corrected = declared(id="string", m={"x": "int"})

    assert run(world, corrected).replay(REQUEST).replayed == 2

    assert rows(world, corrected) == [
        {"id": "a", "m": None, "_extra": None},
        {"id": "b", "m": {"x": 1}, "_extra": None},
    ]
    assert findings(world, corrected) == []


def test_fields_can_be_declared_and_taken_back_before_there_are_rows(world: World) -> None:
    read(world, declared(id="long"), b"[]")
    read(world, declared(), b'{"id": 1}')

    assert rows(world, declared()) == [{"value": '{"id": 1}'}]
    with pytest.raises(SpecChangeError, match="existing rows were read with value as a column of its own"):
        run(world, declared(id="long")).batch()


def test_a_table_that_its_first_batch_paused_takes_other_fields(world: World) -> None:
    limited = replace(declared(id="long"), bad_record_limit=BadRecordLimit(share=0, at_least=1))
    world.values += [b'{"id": "a"}']
    with pytest.raises(BadRecordLimitError) as paused:
        run(world, limited).batch()
    said = f"or `fields` in {limited.source_file} (a field can change while it is null in every row)"
    assert said in str(paused.value.hint)
    resume(world.lake, limited)

    read(world, declared(id="string"))

    assert rows(world, declared(id="string")) == [{"id": "a", "_extra": None}]


def test_a_field_that_is_null_in_every_row_is_read_as_another_type(world: World) -> None:
    first = declared(id="long", price="long")
    read(world, first, b'{"id": 1}', b'{"id": 2, "price": null}', b'{"id": 3, "price": 1.5}')
    corrected = declared(id="long", price="decimal(9, 2)")

    assert run(world, corrected).replay(REQUEST).replayed == 1

    assert [str(row["price"]) for row in rows(world, corrected)] == ["None", "None", "1.50"]
    assert findings(world, corrected) == []


def test_a_field_is_added_while_no_row_has_undeclared_fields(world: World) -> None:
    read(world, declared(id="long"), b'{"id": 1}')
    more = declared(id="long", channel="string")
    read(world, more, b'{"id": 2, "channel": "web", "else": 0}')

    assert [row["channel"] for row in rows(world, more)] == [None, "web"]
    assert findings(world, more) == []
    with pytest.raises(SpecChangeError, match="existing rows may have another among their undeclared fields"):
        run(world, declared(id="long", channel="string", another="int")).batch()


@pytest.mark.parametrize(("price", "is_followed"), [(None, True), (2, False)])
def test_files_whose_manifests_have_no_statistics_are_opened(
    world: World, price: int | None, is_followed: bool
) -> None:
    read(world, declared(id="long", price="long"), b'{"id": 1}')
    table = world.lake.catalog.load_table("lake.orders")
    table.transaction().set_properties({"write.metadata.metrics.default": "none"}).commit_transaction()
    types = {"id": pa.int64(), "price": pa.int64()}
    world.lake.catalog.load_table("lake.orders").append(pa.table({"id": [2], "price": [price]}, pa.schema(types)))

    corrected = run(world, declared(id="long", price="string"))

    if is_followed:
        corrected.create()
    else:
        with pytest.raises(SpecChangeError, match="existing rows have values of the field price"):
            corrected.create()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"id": "string", "list": ["int"], "none": "long"}, "existing rows have values of the field id"),
        ({"id": "long", "list": ["long"], "none": "long"}, "the field list has fields or elements of its own"),
        ({"id": "long", "list": ["int"]}, "existing rows were read with none as a column of its own"),
    ],
)
def test_what_would_read_existing_rows_otherwise_is_refused(world: World, fields: Any, problem: str) -> None:
    read(world, declared(id="long", list=["int"], none="long"), b'{"id": 1, "list": []}')

    with pytest.raises(SpecChangeError, match=problem) as refused:
        run(world, declared(**fields)).batch()

    assert "run `frazil rebuild lake.orders`" in str(refused.value.hint)
