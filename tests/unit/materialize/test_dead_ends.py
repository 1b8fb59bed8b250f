"""A paused table says how to continue, and its advice works: whole batches over a topic in memory."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from pyiceberg.types import LongType
from values_of_tables import NOW, spec, topic
from whole_batches import LONG, World, drained, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.dead_letters import list_dead_letters
from frazil.materialize.evolve import evolution_for
from frazil.materialize.pause.by_operator import pause, resume
from frazil.materialize.pause.excluding import change_excluded
from frazil.materialize.pause.pausing import excluded_schemas, excluded_schemas_property
from frazil.materialize.preview.explain import explain
from frazil.materialize.preview.next_refusal import next_refusal
from frazil.materialize.preview.preflight import problems
from frazil.materialize.run import Again, Published, TableRun
from frazil.materialize.sources import LatestSchemas
from frazil.materialize.state import standing
from frazil.model.errors import BadRecordLimitError, FrazilError, IncompatibleSchemaError, Misuse, PausedError
from frazil.model.plan import BatchPlan, Halt, NothingToDo
from frazil.model.schemas import ExcludedSchemas
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import BadRecordLimit, KeyFormat, StartOffsets, SubjectSettings, TableSpec
from frazil.monitoring.remarks import remarks
from frazil.status import TableStatus, table_statuses
from tests.fakes.clients_in_memory import TopicsInMemory, a_field, record
from tests.fakes.delta_logs_in_memory import DeltaLogsInMemory
from tests.sampling import combined

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


def deleted_reference(world: World) -> None:
    """A writer uses a schema that refers to a subject which was deleted for good; the newest one is good again."""
    schema_id = world.registry.register("orders-value", WIDER).id
    world.registry.schemas[schema_id] = replace(world.registry.schemas[schema_id], missing=("version 1 of part",))
    world.registry.subjects["orders-value"] = 1
    world.values += [framed(schema_id, WIDER, {"n": 3, "channel": None}), framed(1, LONG, {"n": 4})]


def test_a_schema_that_refers_to_a_deleted_one_pauses_and_can_be_given_up(world: World) -> None:
    world.table(SPEC).batch()
    deleted_reference(world)

    with pytest.raises(IncompatibleSchemaError, match="it refers to version 1 of part, which the schema registry does"):
        drained(world, SPEC)
    assert _status(world).state == "paused"

    change_excluded(world.lake, world.registry, SPEC, exclude=[2])
    resume(world.lake, SPEC)
    drained(world, SPEC)
    (letter,) = list_dead_letters(world.lake, SPEC, limit=10).newest
    assert letter.value == framed(2, WIDER, {"n": 3, "channel": None})


def test_a_reference_that_was_registered_again_lets_the_table_go_on(world: World) -> None:
    world.table(SPEC).batch()
    deleted_reference(world)
    with pytest.raises(IncompatibleSchemaError):
        drained(world, SPEC)
    world.registry.schemas[2] = replace(world.registry.schemas[2], missing=())

    resume(world.lake, SPEC)

    drained(world, SPEC)
    assert list_dead_letters(world.lake, SPEC, limit=10).total == 0


def test_records_whose_schema_refers_to_a_deleted_one_are_dead_letters_by_a_setting(world: World) -> None:
    wanted = replace(SPEC, on_incompatible_schema="dead_letter")
    world.table(wanted).batch()
    deleted_reference(world)

    drained(world, wanted)
    assert list_dead_letters(world.lake, wanted, limit=10).total == 1


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


UNREADABLE = {
    "another type": (record(a_field("n", "string")), "AVRO"),
    "a field renamed to another's name": (SWAPPED, "AVRO"),
    "not a schema": ("{}", "AVRO"),
    "nothing that can be a column": (record(a_field("n", {"type": "fixed", "name": "f", "size": -1})), "AVRO"),
    "another format": ("{}", "JSON"),
    "the name of a column about the record": (record(a_field("n"), a_field("kafka_offset")), "AVRO"),
    "two names that differ in case": (record(a_field("n"), a_field("N")), "AVRO"),
}
"""What cannot be rows of a table that has `n`, a long."""


def _paused(table: TableRun) -> FrazilError:
    for _ in range(3):
        try:
            table.batch()
        except IncompatibleSchemaError as refused:
            return refused
    raise AssertionError("no batch was refused")


def _checked(world: World, wanted: TableSpec) -> FrazilError:
    (found,) = world.check(wanted)
    return found


def _explained(world: World, wanted: TableSpec) -> FrazilError:
    try:
        plan = explain(world.table(wanted)).plan
    except IncompatibleSchemaError as refused:
        return refused
    assert isinstance(plan, Halt)
    return plan.error


ADVISERS: dict[str, Callable[[World, TableSpec], FrazilError]] = {
    "materialize": lambda world, wanted: _paused(world.table(wanted)),
    "check": _checked,
    "explain": _explained,
}


def _take_advice(world: World, wanted: TableSpec, refusal: FrazilError) -> int:
    """Do what the hint of a refusal says, and return the id that it names."""
    advised = re.search(r"`frazil resume lake\.\w+ --dead-letter-schema (\d+)`", refusal.hint)
    assert advised is not None, refusal
    change_excluded(world.lake, world.registry, wanted, exclude=[int(advised[1])])
    resume(world.lake, wanted)
    return int(advised[1])


def _read_all(world: World, wanted: TableSpec) -> tuple[int, dict[str, int]]:
    """Read to the end; return the rows and the dead letters by reason."""
    table, rows, reasons = world.table(wanted), 0, Counter[str]()
    for _ in range(5):
        outcome = table.batch()
        if isinstance(outcome, NothingToDo):
            assert world.check(wanted) == []
            assert isinstance(explain(world.table(wanted)).plan, NothingToDo)
            return rows, dict(reasons)
        if isinstance(outcome, Published):
            rows += outcome.receipt.counts.rows
            reasons.update(outcome.receipt.dead_letters_by_reason)
    raise AssertionError("five batches did not reach the end")


@pytest.mark.parametrize(("adviser", "found"), combined(list(ADVISERS), list(UNREADABLE)))
def test_the_command_that_a_refusal_names_lets_the_table_go_on(world: World, found: str, adviser: str) -> None:
    world.table(SPEC).batch()
    text, schema_format = UNREADABLE[found]
    late = world.registry.register("orders-value", text, schema_format=schema_format).id
    world.values += [struct.pack(">bI", 0, late) + b"\x02", framed(1, LONG, {"n": 9})]

    advised = _take_advice(world, SPEC, ADVISERS[adviser](world, SPEC))

    assert advised == late
    assert _read_all(world, SPEC) == (1, {"refused_schema": 1})


@pytest.mark.parametrize("found", sorted(UNREADABLE.keys() - {"another format"}))
def test_the_command_works_for_a_schema_that_only_a_record_names(world: World, found: str) -> None:
    """A record of a schema of another format is a bad record, for which the table is not paused."""
    world.table(SPEC).batch()
    late = world.registry.register("another-subject", UNREADABLE[found][0]).id
    world.values += [struct.pack(">bI", 0, late) + b"\x02", framed(1, LONG, {"n": 9})]

    assert _take_advice(world, SPEC, _paused(world.table(SPEC))) == late

    assert _read_all(world, SPEC) == (1, {"refused_schema": 1})


KEYED = spec(key="avro", readers=("spark",), bad_record_limit=BadRecordLimit(share=0.05, at_least=2))


@pytest.mark.parametrize("adviser", ADVISERS)
@pytest.mark.parametrize(
    ("key", "subject", "text", "schema_format"),
    [
        ('"string"', "orders-key", LONG, "AVRO"),
        ('"string"', "orders-key", '"long"', "AVRO"),
        ('"string"', "orders-key", record(), "AVRO"),
        ('"string"', "orders-key", "{}", "AVRO"),
        ('"string"', "orders-key", "{}", "JSON"),
        ('"string"', "orders-key", '{"type": "int", "logicalType": "time-millis"}', "AVRO"),
        ('"string"', "orders-value", TEXT, "AVRO"),
        ('"string"', "orders-value", "{}", "JSON"),
        (record(a_field("k", "string")), "orders-value", TEXT, "AVRO"),
    ],
    ids=[
        "a record as a key",
        "a number as a key",
        "a key without data",
        "a key that is no schema",
        "a key of another format",
        "a key that a reader has no type for",
        "another type of a value",
        "a value of another format",
        "a value that could be a key",
    ],
)
def test_the_command_works_where_keys_have_a_schema_too(
    world: World, key: str, subject: str, text: str, schema_format: Literal["AVRO", "JSON"], adviser: str
) -> None:
    """Also for a schema that the table could hold in its other role: `LONG` as a value, `TEXT` beside `k` in a key."""
    keys = world.registry.register("orders-key", key).id
    world.table(KEYED).batch()
    late = world.registry.register(subject, text, schema_format=schema_format).id
    of_key = subject == "orders-key"
    world.keys[len(world.values)] = struct.pack(">bI", 0, late if of_key else keys) + b"\x02a"
    world.values += [framed(1, LONG, {"n": 8}) if of_key else struct.pack(">bI", 0, late) + b"\x02a"]
    world.values += [framed(1, LONG, {"n": 9})]

    assert _take_advice(world, KEYED, ADVISERS[adviser](world, KEYED)) == late

    assert _read_all(world, KEYED) == (1, {"refused_schema": 1})


def test_the_command_works_for_a_key_that_only_a_record_names(world: World) -> None:
    """The table could hold its schema as that of values."""
    key = world.registry.register("orders-key", '"string"').id
    world.table(KEYED).batch()
    late = world.registry.register("another-subject", WIDER).id
    first = len(world.values)
    world.keys = {
        first: framed(late, WIDER, {"n": 1, "channel": None}),
        first + 1: struct.pack(">bI", 0, key) + b"\x02a",
    }
    world.values += [framed(1, LONG, {"n": 8}), framed(1, LONG, {"n": 9})]

    assert _take_advice(world, KEYED, _paused(world.table(KEYED))) == late

    assert _read_all(world, KEYED) == (1, {"refused_schema": 1})


@pytest.mark.parametrize(("as_avro", "now"), [('"string"', "string"), ('"bytes"', "bytes"), ('"bytes"', "none")])
def test_keys_that_are_no_longer_read_by_schema_need_no_columns(world: World, as_avro: str, now: KeyFormat) -> None:
    key = world.registry.register("orders-key", as_avro).id
    world.keys = {n: struct.pack(">bI", 0, key) + b"\x02a" for n in range(3)}
    world.table(KEYED).batch()
    changed = spec(key=now)
    world.values.append(framed(1, LONG, {"n": 9}))
    world.keys[3] = b"text"

    assert world.check(changed) == []
    assert isinstance(explain(world.table(changed)).plan, BatchPlan)
    assert _read_all(world, changed) == (1, {})


def test_two_schemas_that_fit_alone_and_not_together_are_refused_by_id(world: World) -> None:
    both = spec(topics=("orders", "returns"))
    world.registry.register("returns-value", LONG)
    world.table(SPEC).batch()
    one = world.registry.register("orders-value", record(a_field("n"), a_field("x", "string"))).id
    two = world.registry.register("orders-key", record(a_field("n"), a_field("x", "long"))).id
    view = world.lake.load(SPEC.identifier)
    assert view is not None
    schemas = LatestSchemas(tuple(world.registry.schemas[n] for n in (one, two)), ())

    (refused,) = evolution_for(both, view, schemas, standing(view, pipeline=SPEC.pipeline).state).refusals

    assert (refused.schema_id, "metadata" in refused.hint) == (two, False)


def test_a_newest_schema_of_another_format_is_no_second_obstacle_to_a_paused_table(world: World) -> None:
    world.table(SPEC).batch()
    pause(world.lake, SPEC, by="ana", why="maintenance", at=NOW)
    world.registry.register("orders-value", "{}", schema_format="JSON")

    assert [type(found) for found in (*world.check(SPEC), _explained(world, SPEC))] == [PausedError, PausedError]


@pytest.mark.parametrize("adviser", ADVISERS)
@pytest.mark.parametrize("of_key", [True, False], ids=["as a key", "as a value"])
def test_a_schema_that_is_in_use_in_its_other_role_is_excluded_in_the_refused_one_only(
    world: World, adviser: str, *, of_key: bool
) -> None:
    """A registry gives one text one id, so that a key can have the id that every good value has."""
    key = world.registry.register("orders-key", '"string"').id
    world.table(KEYED).batch()
    world.registry.register("orders-key" if of_key else "orders-value", LONG if of_key else '"string"')
    good = struct.pack(">bI", 0, key) + b"\x02a"
    bad_one = len(world.values)
    if not of_key:
        with world.lake.catalog.load_table(KEYED.identifier).update_schema() as update:
            update.add_column("value", LongType())
    world.keys = {bad_one: framed(1, LONG, {"n": 1}) if of_key else good, bad_one + 1: good, bad_one + 2: good}
    world.values += [framed(1, LONG, {"n": 7}) if of_key else good, *(framed(1, LONG, {"n": n}) for n in (8, 9))]

    assert _take_advice(world, KEYED, ADVISERS[adviser](world, KEYED)) == (1 if of_key else key)

    assert _read_all(world, KEYED) == (2, {"refused_schema": 1})
    assert _status(world).excluded_schemas == (1 if of_key else key,)
    change_excluded(world.lake, world.registry, KEYED, include=[1 if of_key else key])
    assert _status(world).excluded_schemas == ()


def test_what_an_earlier_release_excluded_stays_excluded_as_keys_and_as_values() -> None:
    assert excluded_schemas({"frazil.dead-letter-schemas": "[3, 2]"}) == ExcludedSchemas(
        frozenset({2, 3}), frozenset({2, 3})
    )
    by_role = ExcludedSchemas(frozenset({2}), frozenset({3}))
    assert excluded_schemas(excluded_schemas_property(by_role)) == by_role


def test_another_table_has_the_refused_records_as_rows(world: World) -> None:
    """As docs/operate.md says, also after a compatible schema was registered for later records."""
    world.table(SPEC).batch()
    world.registry.register("orders-value", TEXT)
    world.values += [framed(2, TEXT, {"n": "a"}), framed(2, TEXT, {"n": "b"})]
    _take_advice(world, SPEC, _paused(world.table(SPEC)))
    world.registry.register("orders-value", WIDER)
    world.values.append(framed(3, WIDER, {"n": 9, "channel": "web"}))
    assert _read_all(world, SPEC) == (1, {"refused_schema": 2})

    other = spec(table="orders_2", value_subject=SubjectSettings("record"), start=StartOffsets({0: 3}))
    assert world.check(other) == []
    table, rows = world.table(other), 0
    with pytest.raises(IncompatibleSchemaError) as refused:
        for _ in range(4):
            outcome = table.batch()
            rows += outcome.receipt.counts.rows if isinstance(outcome, Published) else 0

    assert rows == 2
    assert _take_advice(world, other, refused.value) == 3
    assert _read_all(world, other) == (0, {"refused_schema": 1})


def test_another_table_has_records_with_refused_keys_as_rows(world: World) -> None:
    key = world.registry.register("orders-key", '"string"').id
    world.table(KEYED).batch()
    refused_key = world.registry.register("orders-key", '"long"').id
    world.keys[3] = struct.pack(">bI", 0, refused_key) + b"\x02"
    world.values.append(framed(1, LONG, {"n": 8}))
    _take_advice(world, KEYED, _paused(world.table(KEYED)))
    world.registry.subjects["orders-key"] = key
    assert _read_all(world, KEYED) == (0, {"refused_schema": 1})

    by_record = SubjectSettings("record")
    other = replace(KEYED, table="orders_2", value_subject=by_record, key_subject=by_record, start=StartOffsets({0: 3}))

    assert _read_all(world, other) == (1, {})


def test_a_schema_that_an_engine_took_the_column_from_can_be_given_up(world: World) -> None:
    """Its earlier records are rows, which stay. That the column can be given back is said first."""
    world.table(SPEC).batch()
    with world.lake.catalog.load_table(SPEC.identifier).update_schema(allow_incompatible_changes=True) as update:
        update.rename_column("n", "N")
    world.values.append(framed(1, LONG, {"n": 9}))

    refused = _paused(world.table(SPEC))

    assert refused.hint.startswith("the table had columns for schema 1 before: undo what changed them, in the table or")
    assert _checked(world, SPEC).hint.endswith(refused.hint)
    assert _take_advice(world, SPEC, refused) == 1
    assert _read_all(world, SPEC) == (0, {"refused_schema": 1})


def test_a_change_that_iceberg_refuses_names_the_schema_to_give_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.table(SPEC).batch()
    world.registry.register("orders-value", WIDER)

    def refusing(*_: object, **__: object) -> TableView:
        raise IncompatibleSchemaError("lake.orders: Iceberg rejected a schema change", hint="")

    monkeypatch.setattr(world.lake, "change_schema", refusing)
    refused = _paused(world.table(SPEC))
    monkeypatch.undo()

    assert "Iceberg rejected a schema change" in refused.what
    assert _take_advice(world, SPEC, refused) == 2


def test_an_id_cannot_be_excluded_and_included_at_once(world: World) -> None:
    world.table(SPEC).batch()
    world.registry.register("orders-value", TEXT)
    change_excluded(world.lake, world.registry, SPEC, exclude=[2])

    with pytest.raises(Misuse, match=r"the schema 2 is to be excluded from lake\.orders and included again"):
        change_excluded(world.lake, world.registry, SPEC, exclude=[2], include=[2])

    assert _status(world).excluded_schemas == (2,)


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


def test_a_column_of_an_older_schema_that_another_writer_renamed_is_found_by_check(world: World) -> None:
    newest = record(a_field("m"))
    world.registry.register("orders-value", newest)
    world.values.append(framed(2, newest, {"m": 1}))
    run = world.table(SPEC)
    while not isinstance(run.batch(), NothingToDo):
        pass
    world.lake.catalog.load_table("lake.orders").update_schema().rename_column("n", "N").commit()

    (found,) = world.check(SPEC)

    assert isinstance(found, IncompatibleSchemaError)
    assert "the writer schema 1 " in found.what
    assert "n: differs only in letter case from the table's column N" in found.what
    with pytest.raises(IncompatibleSchemaError, match="differs only in letter case"):
        world.table(SPEC).batch()
