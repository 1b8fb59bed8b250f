"""Up to where an earlier spec has read: after a rollback, in a group, between replays, and after many changes."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from grouped_tables import GroupWorld, specs
from shaped_tables import Shapes
from shaped_tables import specs as shapes
from test_letters_against_kafka import TEXT, published
from test_specs_of_earlier_records import CUT_KEY, GOOD, applied, declared, findings, keyed
from values_of_tables import SPEC
from whole_batches import LONG, World, drained, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.changed_spec.earlier_keys import MOST
from frazil.materialize.replay.request import ReplayRequest
from frazil.materialize.state import standing
from frazil.model.routes import HeaderCondition, Route
from frazil.model.settings import CatalogSettings
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.earlier_specs import earlier_specs
from frazil.verify.group import verify_together


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", TEXT)
    made.registry.register("orders-key", LONG)
    made.keys |= dict.fromkeys(range(20), framed(2, LONG, {"n": 5}))
    return made


def test_after_a_rollback_records_are_of_the_spec_that_read_them_again(world: World) -> None:
    """The former spec has skipped record 3, and the one that reads it again would not, but loses it."""
    avro, none = keyed("avro", on_bad_record="skip"), keyed("none", on_bad_record="skip")
    world.keys[3] = CUT_KEY
    published(world, avro, GOOD, GOOD)
    table = world.lake.catalog.load_table(avro.identifier)
    first = table.current_snapshot()
    assert first is not None
    published(world, avro, GOOD, GOOD)
    published(world, none, GOOD, GOOD)
    published(world, avro, GOOD)
    world.lake.catalog.load_table(table.name()).manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    world.gone = {3}
    drained(world, none)
    world.gone = set()

    wanted = published(world, avro, GOOD)

    assert findings(world, wanted) == [
        "orders-0: missing: 1 record in Kafka (not a row, a dead letter or skipped): offset 3"
    ]


def test_a_topic_that_a_table_has_not_read_has_no_earlier_spec(world: World) -> None:
    published(world, keyed("none"), GOOD)
    wanted = published(world, keyed("avro"), GOOD)
    view = world.lake.load(wanted.identifier)
    assert view is not None
    tables = [(wanted, standing(view, pipeline=wanted.pipeline))]

    assert [each.until for each in earlier_specs(tables, ("orders", 0))] == [1]
    assert earlier_specs(tables, ("another", 0)) == []


def test_a_table_of_a_group_that_has_letters_alone_keeps_its_earlier_spec(tmp_path: Path) -> None:
    group = GroupWorld.at(tmp_path)
    routes = [Route(name, None, headers=(HeaderCondition("k", name[0]),)) for name in ("orders", "refunds")]
    before, now = (
        specs(*routes, value="json", value_settings=replace(SPEC.value_settings, fields=json.dumps(fields)))
        for fields in ({"a": "long", "b": "int"}, {"a": "string", "b": "int"})
    )
    group.values += [b'{"b": 1}', b'{"a": "x", "b": "no"}']
    group.headers |= {0: [("k", b"o")], 1: [("k", b"r")], 2: [("k", b"o")]}
    group.catch_up(group.driver(*before))
    group.values.append(b'{"b": 1}')
    group.catch_up(group.driver(*now))

    results = verify_together(group.lake, now, kafka=KafkaSide(group.topics, cast(Any, group), group.registry))

    assert [str(finding) for each in results for finding in each.findings] == []


def test_shapes_that_have_letters_alone_keep_their_earlier_spec(tmp_path: Path) -> None:
    made = Shapes.at(tmp_path)
    for fields, sent in (
        ({"a": "long", "b": "int"}, ("k", '{"a": "x", "b": "no"}', 1000, 0)),
        ({"a": "string", "b": "int"}, ("l", '{"a": "q", "b": 1}', 2000, 0)),
    ):
        settings = replace(made.tables[0].value_settings, fields=json.dumps(fields))
        made.tables = tuple(replace(each, value_settings=settings) for each in shapes())
        made.send(sent)
        made.catch_up()

    side = KafkaSide(made.world.topics, cast(Any, made.world), made.world.registry)
    results = verify_together(made.world.lake, made.tables, kafka=side)

    assert [str(finding) for each in results for finding in each.findings] == []


def test_a_row_of_a_replay_is_of_the_spec_of_the_replay(world: World) -> None:
    world.keys[1] = CUT_KEY
    published(world, keyed("avro"), GOOD, GOOD)
    run = world.table(keyed("none"))
    run.batch()
    run.clients = replace(run.clients, new_id=lambda: uuid.uuid4().hex)
    assert run.replay(ReplayRequest("r", by="t", at="2026-03-01T12:00:00Z")).replayed == 1

    wanted = published(world, keyed("avro"), GOOD)

    assert findings(world, wanted) == []
    assert [each.keys["key"] for each in applied(world, wanted).earlier] == ["avro", "none"]


def test_the_newest_changes_are_kept(world: World) -> None:
    names = [f"f{number}" for number in range(MOST + 3)]
    for number in range(1, len(names) + 1):
        wanted = published(world, declared(**dict.fromkeys(names[:number], "int")), b"{}")

    earlier = applied(world, wanted).earlier

    assert [len(json.loads(each.keys["fields"])) for each in earlier] == [*range(len(names) - MOST, len(names))]
