"""Many versions of one subject: what a driver and its tasks ask a registry for, and how many batches they need."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from values_of_tables import spec
from whole_batches import World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.ingest import decoders
from frazil.materialize.replay.request import ReplayRequest
from frazil.materialize.run import Again, Published
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.plan import NothingToDo
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record
from tests.sampling import examples

VERSIONS = examples(120, 1_000)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))


def produce(world: World, text: str, **value: object) -> int:
    """Register the subject's next version, and add a record with it."""
    schema = world.registry.register("orders-value", text)
    assert isinstance(schema.id, int)
    world.values.append(framed(schema.id, text, {"n": len(world.values), **value}))
    return schema.id


def version(number: int) -> str:
    return json.dumps({**json.loads(record(a_field("n"))), "doc": f"version {number}"})


def outcomes(world: World) -> list[str]:
    """Run batches in one process until there is nothing to do."""
    table, found = world.table(spec()), []
    while not isinstance(outcome := table.batch(), NothingToDo):
        found.append(type(outcome).__name__)
    return found


def ns(world: World) -> list[int]:
    view = world.lake.load("lake.orders")
    assert view is not None
    return sorted(view.current.scan().to_arrow()["n"].to_pylist())


def test_new_versions_are_learnt_together_and_not_in_a_batch_each(world: World) -> None:
    for number in range(VERSIONS):
        produce(world, version(number))

    assert outcomes(world) == [Again.__name__, Published.__name__]
    assert ns(world) == list(range(VERSIONS))
    about_schemas = Counter(each for each in world.registry.asked if isinstance(each, int))
    assert max(about_schemas.values()) <= 3, "a schema is asked for a few times, however many versions there are"


def test_a_batch_opens_each_known_schema_once_and_asks_the_registry_for_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(VERSIONS):
        produce(world, version(number))
    outcomes(world)
    world.values += world.values
    opened: list[object] = []
    open_decoder = decoders.open_decoder
    monkeypatch.setattr(
        decoders, "open_decoder", lambda schema, *more: opened.append(schema.id) or open_decoder(schema, *more)
    )

    assert outcomes(world) == [Published.__name__]
    assert sorted(opened) == list(range(1, VERSIONS + 1))


def test_verify_learns_schemas_together_and_asks_for_each_a_few_times(world: World) -> None:
    for number in range(VERSIONS):
        produce(world, version(number))
    outcomes(world)
    world.registry.asked.clear()
    side = KafkaSide(world.topics, cast(Any, world), world.registry)

    proof = verify_table(world.lake, spec(), kafka=side)

    assert (proof.findings, proof.notes) == ((), ())
    assert len(world.registry.asked) <= 5 * VERSIONS, "the schemas are learnt one by one"


@pytest.mark.parametrize("with_one_that_does_not_fit", [False, True])
def test_a_replay_learns_late_schemas_together(world: World, with_one_that_does_not_fit: bool) -> None:
    wanted = spec(bad_record_limit=BadRecordLimit.off())
    produce(world, version(0))
    late = [record(a_field("n"), a_field(f"f{number}", ["null", "string"])) for number in range(20)]
    if with_one_that_does_not_fit:
        late[10] = record(a_field("n"), a_field("f3", ["null", "long"]))
    for schema_id, text in enumerate(late, start=2):
        world.values.append(framed(schema_id, text, {"n": schema_id, json.loads(text)["fields"][1]["name"]: None}))
    assert isinstance(world.table(wanted).batch(), Published)
    for text in late:
        world.registry.register("others-value", text)
    world.registry.missing.clear()
    decoded: list[str] = []
    run = world.table(wanted)
    run.clients = replace(run.clients, observe=lambda when, step: decoded.append(f"{when} {step}"))

    result = run.replay(ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z"))

    assert result.replayed == 20 - with_one_that_does_not_fit
    assert decoded.count("before replay_decode") <= (25 if with_one_that_does_not_fit else 3)


def test_a_schema_behind_that_does_not_fit_holds_no_record_before_it(world: World) -> None:
    wide = record(a_field("n"), a_field("note", ["null", "string"]))
    for text, more in ((version(0), {}), (wide, {"note": "a"}), (version(1), {})):
        produce(world, text, **more)
    text = record(a_field("n", "string"))
    produce(world, text, n="refused")
    produce(world, version(2))
    table = world.table(spec())
    world.registry.subjects["orders-value"] = 1

    with pytest.raises(IncompatibleSchemaError):
        [table.batch() for _ in range(9)]

    assert ns(world) == [0, 1, 2]
