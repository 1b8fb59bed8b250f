"""Keys of tables that follow them get wider and are masked; their rows are moved, and old snapshots expire."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from changelogs import UPSERT, Changelog
from policed_tables import HASH_KEY, LETTER_KEY
from whole_batches import World, drained, framed

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.maintain.background import Background
from frazil.maintain.expiring import Expiring
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.policed import policed
from frazil.model.policies import Policies, Policy
from frazil.model.settings import CatalogSettings
from frazil.model.spec import KeepSnapshots, TableSpec
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record


def sent(world: World, key: bytes | None, value: bytes | None) -> None:
    if key is not None:
        world.keys[len(world.values)] = key
    world.values.append(value)  # type: ignore[arg-type]


def rows(world: World, spec: TableSpec, *columns: str) -> list[tuple[object, ...]]:
    view = world.lake.load(spec.identifier)
    assert view is not None
    found = (row for part in world.lake.read(view, columns=columns, equal={}) for row in part.to_pylist())
    assert verify_table(world.lake, spec).findings == ()
    return sorted(tuple(row[name] for name in columns) for row in found)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(IcebergLake(CatalogSettings("jdbc", str(tmp_path))))


def test_a_key_that_becomes_wider_is_the_same_key(world: World) -> None:
    spec = replace(UPSERT, key="avro", value="string")
    narrow, wide = (record(a_field("id", of), name="Key") for of in ("int", "long"))
    first = world.registry.register("orders-key", narrow)
    for number in (1, 2):
        sent(world, framed(first.id, narrow, {"id": number}), b"old")
    drained(world, spec)
    second = world.registry.register("orders-key", wide)
    sent(world, framed(second.id, wide, {"id": 1}), b"new")
    sent(world, framed(first.id, narrow, {"id": 2}), None)
    drained(world, spec)

    assert rows(world, spec, "value") == [("new",)]


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        ("upsert", {("a", "new", None)}),
        ("deduplicate", {("a", "old", None), ("b", "old", None)}),
        ("history", {("a", "old", False), ("a", "new", True), ("b", "old", False), ("b", "new", False)}),
    ],
)
def test_a_hashed_key_finds_its_row(world: World, write: Any, expected: set[tuple[str, str, bool | None]]) -> None:
    policies = Policies((("kafka_key", Policy("hash")),), hash_key=HASH_KEY.id)
    plain = replace(UPSERT, value="string", write=write, on_tombstone="skip" if write == "deduplicate" else "delete")
    spec = policed(plain, policies, hash_key=HASH_KEY, dead_letter_key=LETTER_KEY)
    for value in (b"old", b"new"):
        sent(world, b"a", value)
        sent(world, b"b", value)
        drained(world, spec)
    sent(world, b"b", None)
    drained(world, spec)

    current = ("is_current",) if write == "history" else ()
    found = rows(world, spec, "kafka_offset", "kafka_key", "value", *current)
    plain_keys = {world.keys[int(str(offset))].decode() for offset, *_ in found}
    hashed = {key for _, key, *_ in found}
    assert (len(hashed), hashed & plain_keys, {len(str(key)) for key in hashed}) == (len(plain_keys), set(), {32})
    assert {
        (world.keys[int(str(offset))].decode(), value, *(more or (None,))) for offset, _, value, *more in found
    } == expected


def test_values_get_columns_while_their_keys_stay(world: World) -> None:
    spec = replace(UPSERT, value="avro")
    one, two = record(a_field("n")), record(a_field("n"), a_field("m", ["null", "long"]))
    first = world.registry.register("orders-value", one)
    for key in (b"a", b"b"):
        sent(world, key, framed(first.id, one, {"n": 1}))
    drained(world, spec)
    second = world.registry.register("orders-value", two)
    sent(world, b"a", framed(second.id, two, {"n": 2, "m": 3}))
    drained(world, spec)

    assert rows(world, spec, "kafka_key", "n", "m") == [("a", 2, 3), ("b", 1, None)]


def test_rows_are_found_where_another_engine_has_moved_them(tmp_path: Path) -> None:
    changelog = Changelog.at(tmp_path)
    changelog.send(*((key, 1) for key in "abcdef"))
    changelog.catch_up()
    changelog.send(("a", 2), ("b", None))
    changelog.catch_up()

    changelog.replace_rows(lambda table: table.sort_by([("kafka_key", "descending")]))
    changelog.send(("c", 2), ("d", None), ("b", 1))
    changelog.catch_up()

    changelog.check()


@pytest.mark.parametrize("column", ["kafka_partition", "kafka_offset"])
def test_a_table_whose_rows_lost_the_place_of_their_record_gets_no_second_row_of_a_key(
    tmp_path: Path, column: str
) -> None:
    changelog = Changelog.at(tmp_path)
    changelog.send(("a", 1), ("b", 1))
    changelog.catch_up()
    with changelog.view.current.update_schema() as update:
        update.delete_column(column)
    changelog.send(("a", 2))

    with pytest.raises(IncompatibleSchemaError, match=f"{column}: was dropped by another tool"):
        changelog.catch_up()


def test_files_of_deletes_leave_with_the_last_snapshot_that_has_them(tmp_path: Path) -> None:
    changelog = Changelog.at(tmp_path)
    keys = "abcdefgh"
    changelog.send(*((key, 1) for key in keys))
    changelog.catch_up()
    for key in keys[1:]:
        changelog.send((key, 2))
        changelog.catch_up()

    background = Background()
    expiring = Expiring(KeepSnapshots(count=1, daily=0), CHECKPOINT_TAG)
    later = datetime.now(UTC) + timedelta(hours=1)
    expiring.between_batches(changelog.world.lake, lambda: DeltaRsLogs({}), changelog.view, background, now=later)
    background.finish(60)

    changelog.check()
    assert len(changelog.view.snapshots) < len(keys)
    there = list(tmp_path.rglob("*-deletes.parquet"))
    assert len(there) == sum(len(file.deletes) for file in changelog.files())
