"""A renamed field never loses its policy, however many names it has had and whichever schemas the table has met."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from policed_tables import DROP, HASH, KEEP, REDACT, masked
from whole_batches import World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.changed_spec.spec_changes import spec_changes
from frazil.materialize.outcome import Published
from frazil.model.errors import IncompatibleSchemaError, SpecChangeError, SpecError
from frazil.model.policies import Policy
from frazil.model.settings import CatalogSettings
from frazil.model.spec import MetadataColumns, TableSpec
from frazil.model.spec_change import Fate
from tests.fakes.clients_in_memory import a_field, record

MARK = "LEAKED"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))


def field_of(name: str, *aliases: str, tags: tuple[str, ...] = ()) -> dict[str, Any]:
    return {**a_field(name, "string"), "aliases": list(aliases), "confluent:tags": list(tags)}


def around(field: dict[str, Any], within: str) -> str:
    """A record with the field in a struct, in a list of structs, in a map of structs, or beside the others."""
    if within == "the record":
        return record(a_field("n"), field)
    inner = {"type": "record", "name": "Inner", "fields": [a_field("n"), field]}
    types = {
        "a struct": inner,
        "a list": {"type": "array", "items": inner},
        "a map": {"type": "map", "values": inner},
    }
    return record(a_field("n"), a_field("at", types[within]))


PATHS = {"the record": "{}", "a struct": "at.{}", "a list": "at[].{}", "a map": "at{{}}.{}"}


def value_of(name: str, within: str) -> dict[str, Any]:
    inner = {"n": 1, name: MARK}
    return {"the record": inner, "a struct": {"n": 1, "at": inner}, "a list": {"n": 1, "at": [inner]},
            "a map": {"n": 1, "at": {"k": inner}}}[within]  # fmt: skip


def write(world: World, field: dict[str, Any], within: str) -> None:
    """Register a schema with the field, and write a record with it."""
    text = around(field, within)
    schema = world.registry.register("orders-value", text)
    world.values.append(framed(schema.id, text, value_of(field["name"], within)))


def resume(world: World, table: TableSpec) -> None:
    """Take the pause away, as `frazil resume` does."""
    world.lake.set_properties(table.identifier, put={}, remove=("frazil.paused",))


def held(world: World, table: TableSpec) -> str:
    view = world.lake.load(table.identifier)
    return "" if view is None else str(view.current.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("met", [True, False], ids=["v2 was met", "v2 was not met"])
@pytest.mark.parametrize("within", PATHS)
@pytest.mark.parametrize("policy", [DROP, HASH], ids=str)
def test_an_alias_of_an_alias_pauses_the_table_until_it_has_a_policy(
    world: World, policy: Policy, within: str, *, met: bool
) -> None:
    ssn, ssn2, ssn3 = (PATHS[within].format(name) for name in ("ssn", "ssn2", "ssn3"))
    table = masked({ssn: policy})
    write(world, field_of("ssn"), within)
    assert isinstance(world.table(table).batch(), Published)
    write(world, field_of("ssn2", "ssn"), within)
    if met:
        table = masked({ssn: DROP, ssn2: DROP}) if policy == DROP else table
        assert isinstance(world.table(table).batch(), Published)
    write(world, field_of("ssn3", "ssn2"), within)

    with pytest.raises(IncompatibleSchemaError, match=re.escape(ssn3)):
        world.table(table).batch()

    assert MARK not in held(world, table)
    if met:
        resume(world, table)
        named = masked({**dict(table.policies.columns), ssn3: policy})
        assert isinstance(world.table(named).batch(), Published)
        assert ("ssn3" in held(world, table)) is (policy == HASH)
        assert MARK not in held(world, table)


def test_a_tagged_field_that_is_renamed_twice_is_not_added_unmasked(world: World) -> None:
    table = masked({}, {"PII": REDACT})
    write(world, field_of("ssn", tags=("PII",)), "the record")
    world.table(table).batch()
    write(world, field_of("ssn3", "ssn2"), "the record")

    with pytest.raises(IncompatibleSchemaError, match="ssn3: has the alias ssn2, which the table does not know"):
        world.table(table).batch()

    assert MARK not in held(world, table)


@pytest.mark.parametrize(
    ("policies", "field"),
    [
        ({"ssn": DROP}, field_of("ssn2", "ssn")),
        ({"ssn": DROP}, field_of("ssn", "ssn2")),
    ],
    ids=["its new name", "its old name"],
)
def test_each_name_of_a_dropped_field_needs_the_policy(
    world: World, policies: dict[str, Policy], field: dict[str, Any]
) -> None:
    """Another schema may have that name alone: it would add the field unmasked."""
    write(world, field, "the record")

    with pytest.raises(
        IncompatibleSchemaError, match=r"ssn2: is a name of a dropped field: add `ssn2: \{drop: true\}`"
    ):
        world.table(masked(policies)).batch()

    assert isinstance(world.table(masked({**policies, "ssn2": DROP})).batch(), Published)


WRAPPED = {
    "": lambda value: value,
    "[]": lambda value: [value],
    "{}": lambda value: {"k": value},
}


def within_named(name: str, *aliases: str, step: str, fields: tuple[str, ...] = ("n", "ssn")) -> str:
    """A schema with a record, a list of records or a map of them, of this name."""
    inner = {"type": "record", "name": "Inner", "fields": [a_field(each, "string") for each in fields]}
    types = {"": inner, "[]": {"type": "array", "items": inner}, "{}": {"type": "map", "values": inner}}
    return record(a_field(name, types[step], *aliases))


def write_within(world: World, text: str, name: str, step: str, **values: str) -> None:
    schema = world.registry.register("orders-value", text)
    world.values.append(framed(schema.id, text, {name: WRAPPED[step]({"n": "1", **values})}))


@pytest.mark.parametrize("step", WRAPPED)
def test_each_name_of_what_holds_a_dropped_field_needs_the_policy(world: World, step: str) -> None:
    """The schema after it has the new name alone."""
    at, now = f"at{step}.ssn", f"now{step}.ssn"
    before, both = masked({at: DROP}), masked({at: DROP, now: DROP})
    write_within(world, within_named("at", step=step), "at", step, ssn=MARK)
    world.table(before).batch()
    write_within(world, within_named("now", "at", step=step), "now", step, ssn=MARK)

    with pytest.raises(IncompatibleSchemaError, match=re.escape(f"{now}: is a name of a dropped field: add `{now}:")):
        world.table(before).batch()

    resume(world, before)
    assert isinstance(world.table(both).batch(), Published)
    write_within(world, within_named("now", step=step), "now", step, ssn=MARK)
    assert isinstance(world.table(both).batch(), Published)
    assert MARK not in held(world, both)


def test_policies_by_both_names_of_what_holds_fields_are_applied_together(world: World) -> None:
    """One is of a field that was there before the rename, the other of one that came with it."""
    write_within(world, within_named("at", step=""), "at", "", ssn=MARK)
    before = masked({"at.ssn": DROP})
    world.table(before).batch()
    later = Policy("redact", may_be_missing=True)
    fields = ("n", "ssn", "phone")
    write_within(world, within_named("now", "at", step="", fields=fields), "now", "", ssn=MARK, phone=MARK)

    with pytest.raises(IncompatibleSchemaError, match=r"at\.phone: is a name of a masked field"):
        world.table(masked({"at.ssn": DROP, "now.phone": later})).batch()

    resume(world, before)
    all_names = masked({"at.ssn": DROP, "now.ssn": DROP, "now.phone": later, "at.phone": later})
    assert isinstance(world.table(all_names).batch(), Published)
    assert MARK not in held(world, all_names)


def test_an_unknown_alias_beside_a_known_one_pauses_the_table(world: World) -> None:
    """Values of `ssn2` would come into the column `name`, which is not masked."""
    table = masked({"ssn": DROP})
    text = record(a_field("name", "string"), a_field("ssn", "string"))
    world.registry.register("orders-value", text)
    world.values.append(framed(1, text, {"name": "Anna", "ssn": MARK}))
    world.table(table).batch()
    write(world, field_of("who", "ssn2", "name"), "the record")

    with pytest.raises(IncompatibleSchemaError, match="who: has the alias ssn2"):
        world.table(table).batch()


def test_a_field_inside_a_new_struct_needs_a_policy_if_it_had_another_name(world: World) -> None:
    table = masked({"at.ssn": DROP, "ssn": DROP})
    write(world, field_of("ssn"), "the record")
    with pytest.raises(SpecError, match=r"no schema has at\.ssn"):
        world.table(table).batch()
    world.table(masked({"ssn": DROP})).batch()
    write(world, field_of("way", "road"), "a struct")

    with pytest.raises(IncompatibleSchemaError, match=r"at\.way: has the alias road"):
        world.table(table).batch()

    resume(world, table)
    kept = masked({"at.ssn": DROP, "ssn": DROP, "at.way": KEEP})
    assert isinstance(world.table(kept).batch(), Published)
    assert MARK in held(world, kept)


def test_policies_of_names_that_the_table_does_not_have_can_be_added(world: World) -> None:
    write(world, field_of("ssn"), "the record")
    before = masked({"ssn": HASH})
    world.table(before).batch()
    write(world, field_of("mail"), "the record")
    world.table(before).batch()

    for added in ({"mail": HASH}, {"n": REDACT}, {"kafka_offset": KEEP}):
        with pytest.raises(SpecChangeError, match="existing rows keep the masks"):
            world.table(masked({"ssn": HASH, **added})).batch()
    with pytest.raises(SpecChangeError, match="existing rows keep the masks"):
        world.table(masked({"other": HASH})).batch()
    wider = masked({"ssn": HASH, "other": HASH})
    view = world.lake.load(before.identifier)
    assert view is not None
    (change,) = spec_changes(wider, view)
    assert (change.key, change.fate) == ("columns", Fate.APPLIED)
    assert change.how == "from the next batch on; the table has no other yet"
    world.table(wider).batch()
    assert world.lake.load(before.identifier) is not None


def test_a_field_that_was_named_before_its_rename_is_dropped_although_it_has_no_alias(world: World) -> None:
    write(world, field_of("ssn"), "the record")
    world.table(masked({"ssn": DROP})).batch()
    table = masked({"ssn": DROP, "contact": DROP})
    world.table(table).batch()
    write(world, field_of("contact"), "the record")

    assert isinstance(world.table(table).batch(), Published)
    assert MARK not in held(world, table)


def test_older_records_of_a_new_table_are_masked_although_its_newest_schema_lacks_the_field(world: World) -> None:
    write(world, field_of("ssn"), "the record")
    world.registry.register("orders-value", record(a_field("n")))
    table = masked({"ssn": replace(DROP, may_be_missing=True), "mail": replace(HASH, may_be_missing=True)})

    run = world.table(table)
    assert Published in [type(run.batch()) for _ in range(3)]
    write(world, field_of("mail"), "the record")
    assert isinstance(world.table(masked({"ssn": DROP, "mail": HASH})).batch(), Published)

    view = world.lake.load(table.identifier)
    assert view is not None
    assert ("ssn" in str(view.columns), [c.mask for c in view.columns if c.name == "mail"]) == (False, ["hash"])
    assert view.current.scan().to_arrow().num_rows == 2
    assert MARK not in held(world, table)


def test_an_added_policy_that_masks_no_column_can_be_removed_unless_it_drops(world: World) -> None:
    write(world, field_of("ssn"), "the record")
    world.table(masked({"ssn": REDACT})).batch()
    world.table(masked({"ssn": REDACT, "emial": HASH, "phnoe": DROP})).batch()

    with pytest.raises(SpecChangeError, match="existing rows keep the masks"):
        world.table(masked({"ssn": REDACT, "emial": HASH})).batch()
    corrected = masked({"ssn": REDACT, "email": HASH, "phnoe": DROP})
    view = world.lake.load(corrected.identifier)
    assert view is not None
    (change,) = spec_changes(corrected, view)
    assert (change.fate, change.how) == (
        Fate.APPLIED,
        "from the next batch on; the table has no email yet; emial masked no column of the table",
    )
    world.table(corrected).batch()
    world.table(masked({"ssn": REDACT, "phnoe": DROP})).batch()


def test_a_policy_of_a_column_or_of_a_former_name_cannot_be_removed(world: World) -> None:
    write(world, field_of("ssn"), "the record")
    world.table(masked({"ssn": REDACT})).batch()
    write(world, field_of("ssn2", "ssn"), "the record")
    both = masked({"ssn": REDACT, "ssn2": REDACT, "n2": HASH})
    world.table(both).batch()

    for kept in ({"ssn": REDACT, "n2": HASH}, {"ssn2": REDACT, "n2": HASH}):
        with pytest.raises(SpecChangeError, match="existing rows keep the masks"):
            world.table(masked(kept)).batch()


@pytest.mark.parametrize("within", ["a struct", "a list", "a map"])
def test_a_path_through_the_former_name_of_its_parent_is_that_of_the_column(world: World, within: str) -> None:
    first = around(field_of("street"), within)
    renamed = first.replace('"name": "at"', '"name": "place", "aliases": ["at"]')
    assert renamed != first
    value = value_of("street", within)
    moved = {("place" if name == "at" else name): each for name, each in value.items()}
    table = masked({"n": REDACT})
    for text, each in ((first, value), (renamed, moved)):
        schema = world.registry.register("orders-value", text)
        world.values.append(framed(schema.id, text, each))
        world.table(table).batch()

    street = PATHS[within].format("street")
    for path in (street, street.replace("at", "place")):
        with pytest.raises(SpecChangeError, match="existing rows keep the masks"):
            world.table(masked({"n": REDACT, path: DROP})).batch()


def test_a_new_prefix_takes_the_policies_of_the_key_with_it(world: World) -> None:
    old = MetadataColumns("kafka_", ("partition", "offset", "timestamp", "key"))
    new = replace(old, prefix="k_")
    write(world, field_of("ssn"), "the record")
    world.keys = {0: b"LEAKED key", 1: b"LEAKED key"}
    world.table(masked({"ssn": REDACT, "kafka_key": HASH}, metadata=old)).batch()
    write(world, field_of("ssn"), "the record")
    without_key = replace(new, keep=("partition", "offset", "timestamp"))

    for metadata in (new, without_key):
        with pytest.raises(
            SpecChangeError, match=r'\{"k_key": "hash", "ssn": "redact"\}.*prefix is also that of policies'
        ):
            world.table(masked({"ssn": REDACT, "kafka_key": HASH}, metadata=metadata)).batch()

    table = masked({"ssn": REDACT, "k_key": HASH}, metadata=new)
    assert isinstance(world.table(table).batch(), Published)
    view = world.lake.load(table.identifier)
    assert view is not None
    keys = view.current.scan().to_arrow().column("k_key").to_pylist()
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert MARK not in held(world, table)


def test_a_new_table_says_when_to_name_a_field_that_no_schema_has_yet(world: World) -> None:
    write(world, field_of("ssn"), "the record")

    with pytest.raises(SpecError) as said:
        world.table(masked({"ssn": DROP, "contact": DROP})).batch()
    assert "if an older or a later schema has it, add `may_be_missing: true` to its policy" in str(said.value.hint)
