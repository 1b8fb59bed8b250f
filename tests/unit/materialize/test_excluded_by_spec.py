"""`on_incompatible_schema: dead_letter`: whole batches over a topic in memory."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyiceberg.types import LongType, StringType
from values_of_tables import spec
from whole_batches import LONG, World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize import run
from frazil.materialize.changed_spec.applied_spec import applied_spec_of
from frazil.materialize.pause.excluding import change_excluded
from frazil.materialize.pause.excluding_by_run import exclude_refused
from frazil.materialize.pause.pausing import PAUSED_PROPERTY, excluded_schemas
from frazil.materialize.preview.explain import explain, lines
from frazil.materialize.preview.next_refusal import next_refusal
from frazil.materialize.run import Again, Published
from frazil.model.errors import CommitRejectedError, IncompatibleSchemaError, RebuildError
from frazil.model.plan import NothingToDo
from frazil.model.schemas import NONE_EXCLUDED, ExcludedSchemas
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import OnIncompatibleSchema, TableSpec
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record
from tests.rebuilds import rebuild_of

TEXT = record(a_field("n", "string"))
FLAG = record(a_field("n", "boolean"))
WIDER = record(a_field("n"), a_field("channel", ["null", "string"]))
SPEC = spec(on_incompatible_schema="dead_letter")


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", LONG)
    made.values += [framed(1, LONG, {"n": n}) for n in range(3)]
    assert isinstance(made.table(SPEC).batch(), Published)
    return made


def view_of(world: World, of: TableSpec = SPEC) -> TableView:
    view = world.lake.load(of.identifier)
    assert view is not None
    return view


def published(world: World, of: TableSpec = SPEC) -> Published:
    """The batch that is published, after those that only learn a schema."""
    table = world.table(of)
    for _ in range(5):
        outcome = table.batch()
        if isinstance(outcome, Published):
            return outcome
        assert isinstance(outcome, Again)
    raise AssertionError("nothing was published")


def test_records_of_the_newest_schema_become_dead_letters_and_the_others_rows(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.registry.register("orders-value", TEXT)
    world.values += [framed(2, TEXT, {"n": "a"}), framed(1, LONG, {"n": 7}), framed(2, TEXT, {"n": "b"})]

    with caplog.at_level(logging.WARNING):
        receipt = published(world).receipt

    assert (receipt.counts.rows, receipt.dead_letters_by_reason) == (1, {"refused_schema": 2})
    assert PAUSED_PROPERTY not in view_of(world).properties
    assert excluded_schemas(view_of(world).properties) == ExcludedSchemas(values=frozenset({2}))
    (said,) = [each for each in caplog.records if each.msg == "schema_excluded"]
    assert (vars(said)["schema_id"], vars(said)["of_key"]) == (2, False)
    assert "n: is string in the writer's schema, the table has long" in vars(said)["problem"]
    assert isinstance(world.table(SPEC).batch(), NothingToDo)


def test_so_do_those_of_an_older_schema_that_a_task_meets(world: World) -> None:
    late = world.registry.register("another-subject", TEXT).id
    world.values += [framed(late, TEXT, {"n": "a"}), framed(1, LONG, {"n": 7})]
    outcomes = [world.table(SPEC).batch()]
    table = world.table(SPEC)
    while not isinstance(outcomes[-1], NothingToDo):
        outcomes.append(table.batch())

    receipts = [each.receipt for each in outcomes if isinstance(each, Published)]
    assert sum(each.counts.rows for each in receipts) == 1
    assert sum(each.counts.dead_letters for each in receipts) == 1


def test_verify_proves_dead_letters_of_a_schema_that_no_table_can_hold(world: World) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 50}
    text = record(a_field("n", decimal))
    world.registry.register("orders-value", text)
    world.values += [framed(2, text, {"n": b"\x01"}), framed(1, LONG, {"n": 7})]

    assert published(world).receipt.dead_letters_by_reason == {"refused_schema": 1}

    kafka = KafkaSide(world.topics, cast(Any, world), world.registry)
    verified = verify_table(world.lake, SPEC, kafka=kafka)
    assert verified.clean
    assert not any("can be decoded now" in note for check in verified.checks for note in check.notes)


def test_several_schemas_are_excluded_and_a_compatible_one_is_followed(world: World) -> None:
    late = world.registry.register("another-subject", TEXT).id
    newest = world.registry.register("orders-value", FLAG).id
    world.values += [framed(late, TEXT, {"n": "a"}), framed(newest, FLAG, {"n": True}), framed(1, LONG, {"n": 7})]
    table = world.table(SPEC)
    while not isinstance(table.batch(), NothingToDo):
        pass

    assert excluded_schemas(view_of(world).properties).values == {late, newest}
    world.registry.register("orders-value", WIDER)
    world.table(SPEC).batch()
    assert "channel" in [column.name for column in view_of(world).columns]


def test_a_schema_that_had_columns_before_pauses_the_table(world: World) -> None:
    """Another writer changed the table: the records are not at fault."""
    table = world.lake.catalog.load_table(SPEC.identifier)
    with table.update_schema(allow_incompatible_changes=True) as change:
        change.rename_column("n", "total")
        change.add_column("N", LongType())

    with pytest.raises(IncompatibleSchemaError, match="differs only in letter case"):
        world.table(SPEC).batch()

    assert excluded_schemas(view_of(world).properties) == NONE_EXCLUDED
    assert PAUSED_PROPERTY in view_of(world).properties


def test_a_new_table_is_not_made_from_a_schema_that_it_cannot_hold(world: World) -> None:
    world.registry.register("orders-value", record(a_field("n"), a_field("N")))

    with pytest.raises(IncompatibleSchemaError):
        world.table(replace(SPEC, table="new")).batch()


def test_without_the_setting_the_table_is_paused(world: World) -> None:
    world.registry.register("orders-value", TEXT)

    with pytest.raises(IncompatibleSchemaError):
        world.table(replace(SPEC, on_incompatible_schema="pause")).batch()

    assert excluded_schemas(view_of(world).properties) == NONE_EXCLUDED


def test_a_table_that_can_hold_the_schema_meanwhile_gets_its_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer removes what was in the way after the schema was refused, and before it is excluded."""
    table = world.lake.catalog.load_table(SPEC.identifier)
    with table.update_schema() as change:
        change.add_column("Channel", StringType())

    def exclude(*given: Any, **more: Any) -> TableView:
        with world.lake.catalog.load_table(SPEC.identifier).update_schema() as change:
            change.delete_column("Channel")
        monkeypatch.setattr(run, "exclude_refused", exclude_refused)
        return exclude_refused(*given, **more)

    monkeypatch.setattr(run, "exclude_refused", exclude)
    world.registry.register("orders-value", WIDER)
    world.values.append(framed(2, WIDER, {"n": 8, "channel": "web"}))

    receipt = published(world).receipt

    assert (receipt.counts.rows, receipt.counts.dead_letters) == (1, 0)
    assert excluded_schemas(view_of(world).properties) == NONE_EXCLUDED


def test_a_table_that_keeps_changing_meanwhile_is_given_up_and_not_paused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise CommitRejectedError("main has moved")

    world.registry.register("orders-value", TEXT)
    monkeypatch.setattr(world.lake, "set_property_at", refuse)

    with pytest.raises(Exception, match="could not exclude a schema after 5 attempts"):
        world.table(SPEC).batch()

    assert PAUSED_PROPERTY not in view_of(world).properties


def test_explain_and_check_say_what_happens_and_refuse_nothing(world: World) -> None:
    world.registry.register("orders-value", TEXT)

    said = list(lines(explain(world.table(SPEC))))

    (dead,) = [line for line in said if line.startswith("  dead letters: ")]
    assert "the writer schema 2 is not a safe change for the table" in dead
    assert not [line for line in said if line.startswith(("  refused", "  halt"))]
    assert list(world.check(SPEC)) == []
    assert next_refusal(world.lake, world.registry, SPEC) is None


def test_an_operator_can_take_it_back(world: World) -> None:
    world.registry.register("orders-value", TEXT)
    world.table(SPEC).batch()
    assert excluded_schemas(view_of(world).properties).values == {2}

    change_excluded(world.lake, world.registry, SPEC, include=[2])

    assert excluded_schemas(view_of(world).properties) == NONE_EXCLUDED


def test_a_rebuild_makes_no_dead_letters_of_rows_because_of_a_newer_schema(world: World) -> None:
    world.registry.register("orders-value", TEXT)

    with pytest.raises(RebuildError, match=r"(?s)the writer schema 1 is not a safe .* readers see the table as it was"):
        rebuild_of(world.table(SPEC)).perform()

    assert ns(world) == [0, 1, 2]
    assert excluded_schemas(view_of(world).properties) == NONE_EXCLUDED


@pytest.mark.parametrize("wanted", ["dead_letter", "pause", "new_column"])
def test_a_rebuild_makes_no_columns_of_an_excluded_schema(world: World, wanted: OnIncompatibleSchema) -> None:
    """It is the newest of the subject: the columns are made for the last schema that the table has met."""
    world.registry.register("orders-value", TEXT)
    world.values.append(framed(2, TEXT, {"n": "x"}))
    published(world)
    run = world.table(replace(SPEC, on_incompatible_schema=wanted))

    rebuild_of(run).perform()

    assert ns(world) == [0, 1, 2]
    assert excluded_schemas(view_of(world).properties).values == {2}
    side = KafkaSide(world.topics, cast(Any, world), world.registry)
    assert verify_table(world.lake, run.spec, kafka=side).findings == ()


def ns(world: World) -> list[int]:
    rows = world.lake.catalog.load_table(SPEC.identifier).scan().to_arrow()
    return sorted(rows["n"].to_pylist())


def test_a_rebuild_notes_the_setting_of_the_spec(world: World) -> None:
    noted = applied_spec_of(view_of(world).properties, table=SPEC.identifier)

    rebuild_of(world.table(SPEC)).perform()

    assert applied_spec_of(view_of(world).properties, table=SPEC.identifier) == noted
