"""`frazil explain` shows what the next batch does, and does nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from values_of_tables import NOW, SPEC, spec, topic

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize import run as run_module
from frazil.materialize.clients import Clients
from frazil.materialize.pause.pausing import PAUSED_PROPERTY, pause_property
from frazil.materialize.plan import plan_batch
from frazil.materialize.preview.explain import Explanation, explain, lines
from frazil.materialize.run import TableRun
from frazil.materialize.schema.notices import left_out
from frazil.model.changes import AddColumn
from frazil.model.errors import BrokerError, IncompatibleSchemaError, PausedError
from frazil.model.plan import BatchPlan, Halt, NothingToDo, Plan
from frazil.model.schemas import SchemaFinding
from frazil.model.settings import CatalogSettings, RegistrySettings
from frazil.model.spec import SubjectNaming, SubjectSettings, Trigger
from tests.fakes.clients_in_memory import RegistryInMemory, TopicsInMemory, a_field, record


class NoTasks:
    """The batch ends where its plan would be carried out."""

    parallelism = 1

    def __init__(self, cores: int = 1) -> None:
        self.cores = cores

    def start(self) -> None:
        self.parallelism = self.cores

    def run(self, tasks: Any, *, name: str) -> list[Any]:
        raise BrokerError(f"{name}: {len(tasks)} tasks", hint="")

    def stop(self) -> None: ...


class FailingTasks(NoTasks):
    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure

    def run(self, tasks: Any, *, name: str) -> list[Any]:
        raise self.failure


@dataclass
class World:
    lake: IcebergLake
    registry: RegistryInMemory
    topics: TopicsInMemory
    planned: list[Plan] = field(default_factory=list)

    def run(self) -> TableRun:
        clients = Clients(
            lake=self.lake,
            topics=self.topics,
            registry=self.registry,
            runner=NoTasks(),
            kafka={},
            registry_settings=RegistrySettings("http://127.0.0.1:1"),
            now=lambda: NOW,
            new_id=lambda: "id",
            on_receipt=lambda receipt: None,
            observe=lambda when, step: None,
            delta_logs=lambda: cast(Any, None),
        )
        return TableRun(SPEC, clients, writer="w")

    def explained(self) -> Explanation:
        before = self.lake.load(SPEC.identifier)
        explanation = explain(self.run())
        assert self.lake.load(SPEC.identifier) == before, "nothing is done"
        return explanation

    def next_plan(self) -> BatchPlan:
        with pytest.raises(BrokerError, match="tasks"):
            self.run().batch()
        plan = self.planned[-1]
        assert isinstance(plan, BatchPlan)
        return plan


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    registry = RegistryInMemory()
    registry.register("orders-value", record(a_field("n")))
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse")))
    made = World(lake, registry, TopicsInMemory({"orders": topic({0: (2, 9), 1: (0, 3_000)})}))

    def spy(*args: Any, **kwargs: Any) -> Plan:
        made.planned.append(plan_batch(*args, **kwargs))
        return made.planned[-1]

    monkeypatch.setattr(run_module, "plan_batch", spy)
    return made


def test_a_table_that_is_not_there_shows_its_columns_and_the_ranges_of_its_first_batch(world: World) -> None:
    explained = world.explained()

    assert [column.name for column in explained.new_columns][:1] == ["n"]
    assert isinstance(explained.plan, BatchPlan)
    said = list(lines(explained))
    assert "    orders-0: [2, 9)" in said
    assert "    orders-1: [0, 993), 2,007 left for the next batch" in said
    assert said[-1] == "  on the new table's first snapshot; writer schemas [1]"
    assert explained.plan.ranges == world.next_plan().ranges


def test_the_error_that_halts_a_table_is_named_and_told_once() -> None:
    halted = Explanation("lake.orders", Halt("lake.orders", PausedError("lake.orders is paused: why", hint="resume")))

    assert list(lines(halted)) == ["lake.orders", "  halt: PausedError"]


def test_a_finding_of_several_schemas_is_shown_once() -> None:
    finding = SchemaFinding("n", "has another type")
    explained = Explanation(
        "lake.orders", Halt("lake.orders", PausedError("paused", hint="resume")), findings=(finding, finding)
    )

    assert list(lines(explained)).count("  refused: n: has another type") == 1


def by_record(world: World, naming: SubjectNaming) -> list[str]:
    """What `explain` says where each record names its own subject. Others have the topic's name in front as well."""
    prefix = "orders-" if naming == "topic-record" else ""
    world.registry.subjects.clear()
    world.registry.register(f"{prefix}shop.Order", record(a_field("n"), name="shop.Order"))
    world.registry.register(f"{prefix}shop.Return", record(a_field("why", "string"), name="shop.Return"))
    world.registry.register("orders-late-value", record(a_field("other")))
    run = world.run()
    run.spec = spec(value_subject=SubjectSettings(naming))
    return list(lines(explain(run)))


def test_a_new_table_whose_records_name_their_subjects_shows_what_the_registry_has_for_the_topic(world: World) -> None:
    said = by_record(world, "topic-record")

    assert said[1:3] == ["  new table: n: long", "  new table: why: string"]
    assert not any("other" in line for line in said)
    (note,) = [line for line in said if "note:" in line]
    assert "orders-shop.Order, orders-shop.Return when a batch reads the records" in note


def test_a_new_table_whose_subjects_do_not_tell_their_topic_says_when_its_columns_are_known(world: World) -> None:
    said = by_record(world, "record")

    assert not any(line.startswith("  new table: n") for line in said)
    assert any("its columns are known when a batch reads the first schema" in line for line in said)


def test_the_plan_of_a_table_that_is_there_is_the_next_batch_s(world: World) -> None:
    world.run().create()

    assert world.explained().plan == world.next_plan()


def test_a_new_column_is_shown_and_the_plan_knows_its_writer(world: World) -> None:
    world.run().create()
    world.registry.register("orders-value", record(a_field("n"), a_field("channel", ["null", "string"])))

    explained = world.explained()

    assert [type(change) for change in explained.changes] == [AddColumn]
    assert "  add column channel: string" in list(lines(explained))
    assert explained.plan == world.next_plan()


def test_a_schema_that_does_not_fit_is_shown_with_every_finding(world: World) -> None:
    world.run().create()
    world.registry.register("orders-value", record(a_field("n", "string")))

    assert any(line.startswith("  refused: n: ") for line in lines(world.explained()))


def test_a_paused_table_shows_why_it_halts(world: World) -> None:
    world.run().create()
    why = pause_property(by="ann", why="a look first", at=NOW)
    world.lake.set_properties(SPEC.identifier, put={PAUSED_PROPERTY: why})

    explained = world.explained()

    assert isinstance(explained.plan, Halt)
    assert type(explained.plan.error) is PausedError
    assert "a look first" in explained.plan.error.what


def test_a_table_that_is_caught_up_shows_that_there_is_nothing_to_do(world: World) -> None:
    world.topics.facts = {"orders": topic({0: (9, 9)})}
    world.run().create()

    explained = world.explained()

    assert isinstance(explained.plan, NothingToDo)
    assert list(lines(explained))[-1] == "  nothing to do: read to the end of every partition, rows made of 0 records"


def test_the_first_batch_has_as_many_tasks_as_the_cluster_has_cores(world: World) -> None:
    world.topics.facts = {"orders": topic(dict.fromkeys(range(4), (0, 100000)))}
    large = spec(trigger=Trigger(SPEC.trigger.every, rows=200_000, bytes=10**9))
    run = replace(world.run(), spec=large)
    run.clients = replace(run.clients, runner=NoTasks(cores=3))

    with pytest.raises(BrokerError, match="3 tasks"):
        run.batch()


NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
NOTES = [
    "  note: odd: the logical type money is ignored: not valid on int, or unknown",
    "  note: at: timestamp-nanos: digits below the microsecond are cut, and counted",
    "  note: none: left out: the type holds no data",
]


def odd(*more: Any) -> str:
    odd_one = {"type": "int", "logicalType": "money"}
    return record(a_field("n"), a_field("odd", odd_one), a_field("none", "null"), a_field("at", NANOS), *more)


def test_what_a_new_table_holds_less_exactly_is_noted(world: World) -> None:
    world.registry.register("orders-value", odd())

    said = list(lines(world.explained()))

    assert [line for line in said if "note:" in line] == NOTES
    assert not any("new table: none" in line for line in said)


def test_the_notes_of_a_table_that_is_there_tell_how_the_newest_schema_differs(world: World) -> None:
    world.run().create()
    world.registry.register("orders-value", odd(a_field("gone", ["null", "string"]), a_field("renamed")))
    with pytest.raises(BrokerError, match="tasks"):
        world.run().batch()
    newest = record(
        a_field("n", "int"), a_field("odd", "int"), a_field("none", "int"), a_field("new", "long", "renamed")
    )
    world.registry.register("orders-value", newest)

    said = list(lines(world.explained()))

    assert [line for line in said if "note:" in line] == [
        "  note: n: int in the newest schema: the column stays long, and values are widened",
        "  note: at: not in the newest schema: null in new rows",
        "  note: gone: not in the newest schema: null in new rows",
    ]


def test_the_fields_without_a_column_are_remembered_until_they_get_one(world: World) -> None:
    world.registry.register("orders-value", odd(a_field("r", {"type": "record", "name": "E", "fields": []})))
    world.run().create()
    assert _left_out(world) == ("none", "r")

    world.registry.register("orders-value", record(a_field("none", "int"), a_field("more", ["null"])))
    with pytest.raises(BrokerError, match="tasks"):
        world.run().batch()

    assert _left_out(world) == ("more", "r")


def _left_out(world: World) -> tuple[str, ...]:
    view = world.lake.load(SPEC.identifier)
    assert view is not None
    return left_out(view.properties)


def test_a_schema_without_any_data_is_a_table_of_what_is_about_the_record(world: World) -> None:
    world.registry.register("orders-value", record())

    explained = world.explained()

    assert {column.name.partition("_")[0] for column in explained.new_columns} == {"kafka"}
    world.run().create()


def test_a_schema_that_does_not_fit_pauses_the_table_when_a_task_meets_it(world: World) -> None:
    """A task may meet one that the driver did not compare: the table's schema changed meanwhile."""
    world.run().create()
    run = world.run()
    refused = IncompatibleSchemaError("lake.orders: n has no column", hint="")
    run.clients = replace(run.clients, runner=FailingTasks(refused))

    with pytest.raises(IncompatibleSchemaError):
        run.batch()

    view = world.lake.load(SPEC.identifier)
    assert view is not None
    assert json.loads(view.properties[PAUSED_PROPERTY])["why"] == refused.what
