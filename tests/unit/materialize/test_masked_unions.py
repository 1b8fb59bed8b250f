"""A branch of a union keeps its policy when its column is named otherwise, because of the branches beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from policed_tables import DROP, HASH, KEEP, NO_KEY, REDACT, masked
from whole_batches import World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.outcome import Published
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.policies import Policy
from frazil.model.settings import CatalogSettings
from frazil.model.spec import MetadataColumns, TableSpec
from tests.fakes.clients_in_memory import a_field, record

MARK = "LEAKED"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))


def branch(name: str, *aliases: str, tags: tuple[str, ...] = ()) -> dict[str, Any]:
    """A record in a namespace, with a field that a policy is about."""
    namespace, _, short = name.rpartition(".")
    secret = {**a_field("x", "string"), "confluent:tags": list(tags)}
    about = {"name": short, "namespace": namespace, "aliases": list(aliases)}
    return {"type": "record", **about, "fields": [a_field("y", "string"), secret]}


WITHIN: dict[str, tuple[Any, Any]] = {
    "u": (lambda union: union, lambda value: value),
    "u[]": (lambda union: {"type": "array", "items": union}, lambda value: [value]),
    "u{}": (lambda union: {"type": "map", "values": union}, lambda value: {"k": value}),
}


def write(world: World, *branches: object, of: str = "n1.R", at: str = "u") -> None:
    """Register a schema with a union of the branches, and write a record with a value of the branch `of`."""
    of_type, of_value = WITHIN[at]
    text = record(a_field("n"), a_field("u", of_type(list(branches))))
    schema = world.registry.register("orders-value", text)
    value = {"n": 1, "u": of_value((of, {"y": "seen", "x": MARK}))}
    world.values.append(framed(schema.id, text, value))


def resume(world: World, table: TableSpec) -> None:
    world.lake.set_properties(table.identifier, put={}, remove=("frazil.paused",))


def held(world: World, table: TableSpec) -> str:
    view = world.lake.load(table.identifier)
    assert view is not None
    return str(view.current.scan().to_arrow().to_pylist())


ALONE = (branch("n1.R"), "long")
BESIDE = (branch("n1.R"), "long", branch("n2.R"))


@pytest.mark.parametrize("policy", [DROP, HASH, Policy("redact", may_be_missing=True)], ids=str)
@pytest.mark.parametrize("at", WITHIN)
@pytest.mark.parametrize(
    ("path", "before", "after"), [("R", ALONE, BESIDE), ("n1_R", BESIDE, ALONE)], ids=["joined", "left alone"]
)
def test_a_policy_of_a_branch_is_applied_when_the_column_is_named_otherwise(
    world: World, path: str, before: tuple[object, ...], after: tuple[object, ...], at: str, policy: Policy
) -> None:
    table = masked({f"{at}.{path}.x": policy})
    write(world, *before, at=at)
    assert isinstance(world.table(table).batch(), Published)
    write(world, *after, at=at)

    assert isinstance(world.table(table).batch(), Published)

    assert MARK not in held(world, table)
    assert held(world, table).count("seen") == 2


@pytest.mark.parametrize("policy", [DROP, REDACT], ids=str)
def test_a_whole_branch_keeps_its_policy(world: World, policy: Policy) -> None:
    table = masked({"u.R": policy})
    write(world, *ALONE)
    world.table(table).batch()
    write(world, *BESIDE)
    write(world, *BESIDE, of="n2.R")

    assert isinstance(world.table(table).batch(), Published)

    assert MARK not in held(world, table)


def test_a_policy_of_a_branch_in_keys_is_applied_when_the_column_is_named_otherwise(world: World) -> None:
    with_key = MetadataColumns(keep=(*NO_KEY.keep, "key"))
    table = masked({"kafka_key.u.R.x": HASH}, key="avro", metadata=with_key)
    value = record(a_field("n"))
    world.registry.register("orders-value", value)
    for branches in (ALONE, BESIDE):
        text = record(a_field("u", list(branches)), name="Key")
        schema = world.registry.register("orders-key", text)
        key = framed(schema.id, text, {"u": ("n1.R", {"y": "seen", "x": MARK})})
        world.keys[len(world.values)] = key
        world.values.append(framed(1, value, {"n": 1}))
        assert isinstance(world.table(table).batch(), Published)

    assert MARK not in held(world, table)
    assert held(world, table).count("seen") == 2


def test_a_policy_by_an_alias_of_a_branch_is_applied_however_the_alias_is_spelled(world: World) -> None:
    table = masked({"u.n1_R.x": HASH})
    write(world, *BESIDE)
    world.table(table).batch()
    write(world, branch("n1.S", "n1.R"), "long", of="n1.S")

    assert isinstance(world.table(table).batch(), Published)

    assert MARK not in held(world, table)


@pytest.mark.parametrize("former", [KEEP, Policy("truncate", 100)], ids=str)
def test_a_policy_by_a_former_name_takes_nothing_from_one_by_the_short_name(world: World, former: Policy) -> None:
    table = masked({"u.S.x": REDACT, "u.R.x": former})
    write(world, branch("n1.S", "n1.R"), "long", branch("n2.S"), of="n1.S")

    assert isinstance(world.table(table).batch(), Published)

    assert MARK not in held(world, table)


def test_each_name_of_a_renamed_branch_needs_the_policy_that_drops_in_it_by_one_spelling(world: World) -> None:
    """The schema after it has the new name alone."""
    table, both = masked({"u.n1_R.x": DROP}), masked({"u.n1_R.x": DROP, "u.S.x": DROP})
    write(world, *BESIDE)
    world.table(table).batch()
    renamed = branch("n1.S", "n1.R"), "long", branch("n2.S")
    write(world, *renamed, of="n1.S")

    with pytest.raises(IncompatibleSchemaError, match=r"u\.n1_S\.x: is a name of a dropped field"):
        world.table(table).batch()

    resume(world, table)
    assert isinstance(world.table(both).batch(), Published)
    write(world, branch("n1.S"), "long", of="n1.S")
    assert isinstance(world.table(both).batch(), Published)
    assert MARK not in held(world, both)


def test_a_tag_that_a_branch_loses_with_its_name_pauses_the_table(world: World) -> None:
    table = masked({}, {"PII": REDACT})
    write(world, branch("n1.R", tags=("PII",)), "long")
    world.table(table).batch()
    write(world, *BESIDE)

    with pytest.raises(IncompatibleSchemaError, match=r"u\.n1_R\.x: has no policy, but .* column u\.R\.x are redact"):
        world.table(table).batch()

    assert MARK not in held(world, table)
    resume(world, table)
    named = masked({"u.n1_R.x": REDACT, "u.n2_R.x": KEEP}, {"PII": REDACT})
    assert isinstance(world.table(named).batch(), Published)
    assert MARK not in held(world, named)


@pytest.mark.parametrize("policy", [REDACT, HASH, Policy("truncate", 1)], ids=str)
@pytest.mark.parametrize("at", WITHIN)
def test_a_renamed_branch_that_loses_a_tag_needs_the_policy_that_the_finding_names(
    world: World, at: str, policy: Policy
) -> None:
    """The renamed column has masked values, so that `mask: none` cannot be."""
    write(world, branch("n1.R", tags=("PII",)), "long", at=at)
    world.table(masked({}, {"PII": policy})).batch()
    write(world, branch("n1.S", "n1.R"), "long", of="n1.S", at=at)
    path = f"{at}.S.x"
    says = re.escape(f"Add `{path}` to `columns`, with the policy {policy}")
    for columns in ({}, {path: KEEP}):
        with pytest.raises(IncompatibleSchemaError, match=says):
            world.table(masked(columns, {"PII": policy})).batch()
        resume(world, masked({}))

    table = masked({path: policy}, {"PII": policy})
    assert isinstance(world.table(table).batch(), Published)

    assert MARK not in held(world, table)
    assert held(world, table).count("seen") == 2


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [("u.x", branch("n1.R"), ALONE), ("u.R.x", ALONE, branch("n1.R"))],
    ids=["a record becomes a union", "a union becomes a record"],
)
def test_a_record_and_a_union_do_not_take_the_place_of_each_other(
    world: World, path: str, before: object, after: object
) -> None:
    table = masked({path: REDACT}, on_incompatible_schema="new_column")
    values = {"record": {"y": "seen", "x": MARK}, "union": ("n1.R", {"y": "seen", "x": MARK})}
    for each in (before, after):
        text = record(a_field("n"), a_field("u", list(each) if isinstance(each, tuple) else each))
        schema = world.registry.register("orders-value", text)
        value = values["union" if isinstance(each, tuple) else "record"]
        world.values.append(framed(schema.id, text, {"n": 1, "u": value}))
        if each is before:
            world.table(table).batch()

    with pytest.raises(IncompatibleSchemaError, match="the table has a"):
        world.table(table).batch()

    assert MARK not in held(world, table)


def test_a_table_that_has_a_branch_unmasked_can_keep_it_so(world: World) -> None:
    """The policy of `R` would mask it from now on, and a version before this rule has written it unmasked as well."""
    table, wider = masked({"u.n1_R.x": HASH}), masked({"u.n1_R.x": HASH, "u.R.x": HASH})
    write(world, *BESIDE)
    world.table(table).batch()
    write(world, *BESIDE, of="n2.R")
    with pytest.raises(IncompatibleSchemaError, match=r"u\.n2_R\.x: has the policy hash"):
        world.table(wider).batch()

    resume(world, table)
    both = masked({**dict(wider.policies.columns), "u.n2_R.x": KEEP})
    assert isinstance(world.table(both).batch(), Published)
    assert held(world, both).count(MARK) == 1
    write(world, *ALONE)
    assert isinstance(world.table(both).batch(), Published)
    assert held(world, both).count(MARK) == 1
