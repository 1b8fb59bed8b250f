"""A paused table says how to continue, and its advice works: whole batches over a topic in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from values_of_tables import spec, topic
from whole_batches import LONG, World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.cli.status import remarks
from frazil.dead_letters import list_dead_letters
from frazil.materialize.pause.by_operator import resume
from frazil.materialize.pause.excluding import change_excluded
from frazil.materialize.preview.explain import explain
from frazil.materialize.preview.next_refusal import next_refusal
from frazil.materialize.preview.preflight import problems
from frazil.materialize.run import Again, Published, TableRun
from frazil.model.errors import BadRecordLimitError, FrazilError, IncompatibleSchemaError, Misuse, PausedError
from frazil.model.plan import Halt, NothingToDo
from frazil.model.spec import BadRecordLimit, CatalogSettings
from frazil.status import TableStatus, table_statuses
from tests.fakes.clients_in_memory import TopicsInMemory, a_field, record
from tests.fakes.delta_logs_in_memory import DeltaLogsInMemory

TEXT = record(a_field("n", "string"))
RENAMED = record(a_field("m", "long", "n"))
SWAPPED = record(a_field("n", "long", "m"), a_field("m", "long", "n"))
WIDER = record(a_field("n"), a_field("channel", ["null", "string"]))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", LONG)
    made.values += [framed(1, LONG, {"n": n}) for n in range(3)]
    return made


SPEC = spec(bad_record_limit=BadRecordLimit(share=0.05, at_least=2))


def test_records_of_a_schema_that_cannot_be_rows_can_be_given_up_by_its_id(world: World) -> None:
    assert isinstance(world.table(SPEC).batch(), Published)
    world.registry.register("orders-value", TEXT)
    world.values += [framed(2, TEXT, {"n": "a"}), framed(2, TEXT, {"n": "b"})]
    with pytest.raises(IncompatibleSchemaError) as refused:
        world.table(SPEC).batch()
    assert "`frazil resume lake.orders --dead-letter-schema 2`" in refused.value.hint

    for said in (_raised(world.table(SPEC)), _halt(world), *world.check(SPEC)):
        assert type(said) is PausedError
        assert "--dead-letter-schema 2" in said.hint
    world.registry.register("orders-value", WIDER)
    world.values.append(framed(3, WIDER, {"n": 9, "channel": "web"}))
    resume(world.lake, SPEC)
    again = world.table(SPEC)
    assert isinstance(again.batch(), Again), "the compatible schema alone leads into a circle"
    with pytest.raises(IncompatibleSchemaError):
        again.batch()

    change_excluded(world.lake, world.registry, SPEC, exclude=[2])
    resume(world.lake, SPEC)
    outcome = world.table(SPEC).batch()

    assert isinstance(outcome, Published)
    assert (outcome.receipt.counts.rows, outcome.receipt.dead_letters_by_reason) == (1, {"refused_schema": 2})
    assert 2 not in outcome.standing.state.schema_ids
    (newest, _) = list_dead_letters(world.lake, SPEC, limit=10).newest
    assert (newest.schema_id, newest.detail) == (
        2,
        "the schema 2 is excluded: its records become dead letters (`frazil resume --dead-letter-schema`)",
    )
    assert isinstance(world.table(SPEC).batch(), NothingToDo)


def test_resume_says_whether_the_next_run_would_refuse_the_registered_schema_again(world: World) -> None:
    world.table(SPEC).batch()
    world.registry.register("orders-value", TEXT)
    refused = _raised(world.table(SPEC))

    resume(world.lake, SPEC)
    again = next_refusal(world.lake, world.registry, SPEC)

    assert type(again) is IncompatibleSchemaError
    assert (again.what, again.hint) == (refused.what, refused.hint)
    change_excluded(world.lake, world.registry, SPEC, exclude=[2])
    resume(world.lake, SPEC)
    assert next_refusal(world.lake, world.registry, SPEC) is None


def test_a_compatible_schema_is_not_refused_again(world: World) -> None:
    world.table(SPEC).batch()
    world.registry.register("orders-value", TEXT)
    _raised(world.table(SPEC))
    world.registry.register("orders-value", WIDER)

    assert next_refusal(world.lake, world.registry, SPEC) is None


@pytest.mark.parametrize("refused", [record(a_field("n"), a_field("m")), SWAPPED], ids=["both names", "swapped"])
def test_a_schema_that_aliases_rule_out_can_be_given_up(world: World, refused: str) -> None:
    """The table starts from a schema that renames `n` to `m`; a record of another writer cannot be distinguished."""
    world.registry.register("orders-value", RENAMED)
    late = world.registry.register("another-subject", refused).id
    world.values[:] = [framed(2, RENAMED, {"m": 1}), framed(late, refused, {"n": 2, "m": 3})]
    table = world.table(SPEC)
    assert isinstance(table.batch(), Published), "the range ends before the record of the schema that is met"
    with pytest.raises(IncompatibleSchemaError) as paused:
        table.batch()
        table.batch()
    assert f"`frazil resume lake.orders --dead-letter-schema {late}`" in paused.value.hint

    change_excluded(world.lake, world.registry, SPEC, exclude=[late])
    resume(world.lake, SPEC)

    outcome = world.table(SPEC).batch()
    assert isinstance(outcome, Published)
    assert outcome.receipt.dead_letters_by_reason == {"refused_schema": 1}
    assert isinstance(world.table(SPEC).batch(), NothingToDo)


def test_the_refusal_of_a_table_that_is_not_made_yet_does_not_tell_to_resume_it(world: World) -> None:
    world.registry.register("orders-value", SWAPPED)

    with pytest.raises(IncompatibleSchemaError) as refused:
        world.table(SPEC).create()

    assert "frazil resume" not in refused.value.hint
    assert [each.hint for each in world.check(SPEC)] == [refused.value.hint]


def test_a_given_up_schema_is_a_dead_letter_whatever_becomes_of_bad_records(world: World) -> None:
    strict = spec(on_bad_record="stop")
    world.table(strict).create()
    world.registry.register("orders-value", TEXT)
    world.values.append(framed(2, TEXT, {"n": "a"}))
    change_excluded(world.lake, world.registry, strict, exclude=[2])
    resume(world.lake, strict)

    table = world.table(strict)
    assert isinstance(table.batch(), Again), "the schema 1 is met, since it is not the latest one"
    outcome = table.batch()

    assert isinstance(outcome, Published)
    assert outcome.receipt.dead_letters_by_reason == {"refused_schema": 1}


def test_a_schema_that_the_table_has_columns_for_cannot_be_given_up(world: World) -> None:
    world.table(SPEC).batch()

    with pytest.raises(Misuse, match="the schema 1 has columns in "):
        change_excluded(world.lake, world.registry, SPEC, exclude=[1])


@pytest.mark.parametrize(
    ("schema_id", "said"),
    [(2, "lake.orders can hold the schema 2"), (9, "the schema registry has no schema 9"), (-4, "has no schema -4")],
)
def test_only_a_schema_that_the_table_cannot_hold_can_be_given_up(world: World, schema_id: int, said: str) -> None:
    world.table(SPEC).batch()
    world.registry.register("orders-value", WIDER)

    with pytest.raises(Misuse, match=said):
        change_excluded(world.lake, world.registry, SPEC, exclude=[schema_id])

    world.values.append(framed(2, WIDER, {"n": 9, "channel": "web"}))
    outcome = world.table(SPEC).batch()
    assert isinstance(outcome, Published)
    assert outcome.receipt.counts.rows == 1


def test_a_value_schema_that_fits_cannot_be_given_up_where_keys_have_a_schema_too(world: World) -> None:
    keyed = spec(key="avro")
    world.registry.register("orders-key", '"string"')
    world.table(keyed).create()
    fitting = world.registry.register("orders-value", WIDER).id
    neither = world.registry.register("orders-key", TEXT).id

    for schema_id in (fitting, 2):
        with pytest.raises(Misuse, match=f"can hold the schema {schema_id}"):
            change_excluded(world.lake, world.registry, keyed, exclude=[schema_id])
    change_excluded(world.lake, world.registry, keyed, exclude=[neither])


def test_the_schema_that_caused_the_pause_can_be_given_up_whatever_else_it_fits(world: World) -> None:
    """A record as a key may fit the table as a value."""
    keyed = spec(key="avro")
    world.registry.register("orders-key", '"string"')
    world.table(keyed).create()
    as_record = world.registry.register("orders-key", WIDER).id
    with pytest.raises(Misuse, match="can hold the schema"):
        change_excluded(world.lake, world.registry, keyed, exclude=[as_record])
    assert type(_raised(world.table(keyed))) is IncompatibleSchemaError

    change_excluded(world.lake, world.registry, keyed, exclude=[as_record])


def test_nothing_is_included_if_what_is_to_be_excluded_fits(world: World) -> None:
    world.table(SPEC).batch()
    world.registry.register("orders-value", TEXT)
    change_excluded(world.lake, world.registry, SPEC, exclude=[2])
    fitting = world.registry.register("orders-value", WIDER).id

    with pytest.raises(Misuse, match="can hold the schema"):
        change_excluded(world.lake, world.registry, SPEC, exclude=[fitting], include=[2])

    assert _status(world).excluded_schemas == (2,)


def test_a_schema_of_another_format_can_be_given_up(world: World) -> None:
    world.table(SPEC).batch()
    other = world.registry.register("orders-value", "{}", schema_format="JSON").id

    change_excluded(world.lake, world.registry, SPEC, exclude=[other])

    assert _status(world).excluded_schemas == (other,)


def test_status_names_schemas_that_were_given_up_and_how_to_take_them_back(world: World) -> None:
    world.table(SPEC).batch()
    world.registry.register("orders-value", TEXT)
    change_excluded(world.lake, world.registry, SPEC, exclude=[2])

    (remark,) = (line for line in remarks([_status(world)]) if "become dead letters" in line)

    assert "these schemas become dead letters: 2" in remark
    assert "`frazil resume lake.orders --no-dead-letter-schema 2`" in remark
    change_excluded(world.lake, world.registry, SPEC, include=[2])
    assert _status(world).excluded_schemas == ()
    assert type(next_refusal(world.lake, world.registry, SPEC)) is IncompatibleSchemaError
    with pytest.raises(Misuse, match=r"the schema 2 is not excluded from lake\.orders; excluded schemas: none"):
        change_excluded(world.lake, world.registry, SPEC, include=[2])


def test_bad_records_over_the_limit_can_be_looked_at_before_they_are_accepted(world: World) -> None:
    world.values += [b"not framed", b"nor this"]
    with pytest.raises(BadRecordLimitError) as exceeded:
        world.table(SPEC).batch()
    assert "`frazil dead-letters list lake.orders --pending`" in exceeded.value.hint
    assert list_dead_letters(world.lake, SPEC, limit=10).total == 0

    pending = list_dead_letters(world.lake, SPEC, limit=10, pending=True)

    assert (pending.total, {letter.value for letter in pending.newest}) == (2, {b"not framed", b"nor this"})
    resume(world.lake, SPEC)
    world.values.append(framed(1, LONG, {"n": 4}))
    assert isinstance(world.table(SPEC).batch(), Published)
    assert list_dead_letters(world.lake, SPEC, limit=10).total == 2
    assert list_dead_letters(world.lake, SPEC, limit=10, pending=True).total == 0


def test_a_schema_that_does_not_fit_halts_explain_as_it_stops_materialize(world: World) -> None:
    world.table(SPEC).batch()
    world.registry.register("orders-value", TEXT)

    halt, found, raised = _halt(world), world.check(SPEC), _raised(world.table(SPEC))

    assert type(halt) is type(raised) is IncompatibleSchemaError
    assert [halt.what] == [each.what for each in found] == [raised.what]


def test_a_re_created_topic_is_refused_by_check_explain_and_materialize_alike(world: World) -> None:
    world.table(SPEC).batch()
    table = world.table(SPEC)
    again = TopicsInMemory({"orders": topic({0: (0, 9)}, topic_id="another")})
    table.clients = replace(table.clients, topics=again)

    plan = explain(table).plan
    found = problems([SPEC], lake=world.lake, topics=again, registry=world.registry)

    assert isinstance(plan, Halt)
    assert {plan.error.what, _raised(table).what, *(each.what for each in found)} == {plan.error.what}
    assert "was re-created" in plan.error.what


def _dropped(world: World) -> None:
    world.lake.catalog.drop_table(SPEC.dead_letters_identifier)


def _renamed(world: World) -> None:
    with world.lake.catalog.load_table(SPEC.dead_letters_identifier).update_schema() as update:
        update.rename_column("detail", "theirs")


@pytest.mark.parametrize("harm", [_dropped, _renamed])
def test_lost_dead_letters_are_refused_by_check_explain_and_materialize_alike(
    world: World, harm: Callable[[World], None]
) -> None:
    world.values.append(b"garbage")
    world.table(SPEC).batch()
    harm(world)

    halt, found, raised = _halt(world), world.check(SPEC), _raised(world.table(SPEC))

    assert [halt.what] == [each.what for each in found] == [raised.what]
    assert SPEC.dead_letters_identifier in raised.what


def test_no_table_of_rows_is_made_beside_dead_letters_that_lack_a_column(world: World) -> None:
    world.values.append(b"garbage")
    world.table(SPEC).batch()
    _renamed(world)
    world.lake.catalog.drop_table(SPEC.identifier)

    assert "lacks the column" in _raised(world.table(SPEC)).what
    assert world.lake.load(SPEC.identifier) is None


def _status(world: World) -> TableStatus:
    now = datetime(2026, 11, 20, tzinfo=UTC)
    (status,) = table_statuses(world.lake, world.topics, [SPEC], delta_logs=DeltaLogsInMemory, now=now)
    return status


def _halt(world: World) -> FrazilError:
    plan = explain(world.table(SPEC)).plan
    assert isinstance(plan, Halt)
    return plan.error


def _raised(table: TableRun) -> FrazilError:
    with pytest.raises(FrazilError) as error:
        table.batch()
    return error.value
