"""Specs of transformations: what they become, and what is refused where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from frazil.model.errors import FrazilError
from frazil.model.outputs import OutputSpec
from frazil.model.settings import Settings
from frazil.model.spec import KeepSnapshots
from frazil.model.transform_order import following
from frazil.model.transforms import TransformSpec
from frazil.specs.keys import NoSecrets
from frazil.specs.load import load_connections, load_settings
from tests.unit.specs.config_files import GOOD

TOTALS = "from: orders\nsql: SELECT a FROM orders\n"


def load(folder: Path, *specs: str, table: str = "topic: orders\n", more: str = "") -> Settings:
    (folder / "tables").mkdir()
    (folder / "frazil.yaml").write_text(GOOD + more)
    (folder / "tables" / "orders.yaml").write_text(table)
    for number, spec in enumerate(specs):
        (folder / "transforms").mkdir(exist_ok=True)
        (folder / "transforms" / f"totals{number or ''}.yaml").write_text(spec)
    return load_settings(folder / "frazil.yaml", {}, NoSecrets())


def test_a_transformation_has_defaults(tmp_path: Path) -> None:
    (made,) = load(tmp_path, TOTALS).transforms

    assert made == TransformSpec(
        source_file=str(tmp_path / "transforms" / "totals.yaml"),
        name="totals",
        database="lake",
        table="totals",
        source="lake.orders",
        sql="SELECT a FROM orders",
        folder=str(tmp_path),
    )


def test_every_key_has_an_effect(tmp_path: Path) -> None:
    given = (
        "from: lake.orders\npython: cleaning:valid\njoins: [users, other.products]\ntable: made\ndatabase: mart\n"
        "partition_by: [day(ts), bucket(16, a)]\nsort_by: [a desc]\ntarget_file: 1MB\n"
        "maintain: {keep_snapshots: {count: 9}, rewrite_deleted: 100%}\n"
        "outputs: [{topic: made.out, name: out, key: [a], columns: [b], shards: 2}]\n"
    )

    (made,) = load(tmp_path, given).transforms

    assert (made.source, made.joins) == ("lake.orders", ("lake.users", "other.products"))
    assert (made.identifier, made.function, made.target_file_bytes) == ("mart.made", "cleaning:valid", 10**6)
    assert (made.maintain.keep_snapshots, made.maintain.rewrite_deleted) == (KeepSnapshots(count=9), 1.0)
    assert made.outputs == (OutputSpec("made.out", "out", ("a",), ("b",), 2),)
    assert (made.partition_by, made.sort_by) == (("day(ts)", "bucket(16, a)"), ("a desc",))


def test_a_transformation_may_have_a_z_order(tmp_path: Path) -> None:
    (made,) = load(tmp_path, f"{TOTALS}maintain: {{z_order: [a, b]}}\n").transforms

    assert made.maintain.z_order == ("a", "b")


def test_no_folder_means_no_transformations(tmp_path: Path) -> None:
    assert load(tmp_path).transforms == ()


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("from: orders\n", "exactly one of sql or python must be given, found 0", "give sql or python"),
        (f"{TOTALS}python: a:b\n", "exactly one of sql or python must be given, found 2", "give sql or python"),
        ("sql: SELECT 1\n", "from: required key is missing", "The table that is followed"),
        ("from: order\nsql: SELECT 1\n", "from: no table spec describes lake.order", "did you mean lake.orders?"),
        ("from: totals\nsql: SELECT 1\n", "the transformation follows itself: totals <- totals", "another table"),
        (f"{TOTALS}outputs: [{{topic: t, key: []}}]\n", "has `key: []`", "leave `key` out"),
        (f"{TOTALS}outputs: [{{topic: t}}, {{topic: t}}]\n", "2 outputs have the name t", "a `name` of its own"),
        (f"{TOTALS}outputs: [{{topic: orders}}]\n", "lake.orders is made of the topic orders", "another topic"),
        (f"{TOTALS}maintain: {{z_order: [a]}}\n", "z_order: expected 2 to 4 columns", "write sort_by"),
        (f"{TOTALS}table: orders\n", "orders.yaml also writes lake.orders", "give one of them another name"),
        (f"{TOTALS}table: orders__dead_letters\n", "also writes lake.orders__dead_letters", "another name"),
        (f"{TOTALS}joins: [other.orders]\n", "two of the tables that are read have the name orders", "without"),
        ("from: orders\npython: cleaning\n", 'expected a function, found "cleaning"', "write module:function"),
        (f"{TOTALS}form: x\n", "form: unknown key", "did you mean from?"),
    ],
)
def test_what_is_refused_says_where_and_what_to_write(tmp_path: Path, spec: str, message: str, hint: str) -> None:
    with pytest.raises(FrazilError) as refused:
        load(tmp_path, spec)

    assert message in str(refused.value)
    assert hint in str(refused.value)
    assert "totals.yaml" in refused.value.what


def test_a_table_whose_spec_is_invalid_is_not_reported_as_missing(tmp_path: Path) -> None:
    with pytest.raises(FrazilError) as refused:
        load(tmp_path, TOTALS, table="topic: orders\nmaintian: {}\n")

    assert "maintian: unknown key" in str(refused.value)
    assert "no table spec describes" not in str(refused.value)


def test_a_command_that_needs_no_specs_accepts_a_missing_one(tmp_path: Path) -> None:
    with pytest.raises(FrazilError, match=r"no table spec describes lake\.trades"):
        load(tmp_path, "from: trades\nsql: SELECT 1\n")

    assert [made.source for made in load_connections(tmp_path / "frazil.yaml", {}, NoSecrets()).transforms] == [
        "lake.trades"
    ]


def test_transformations_follow_each_other_in_their_order(tmp_path: Path) -> None:
    settings = load(tmp_path, "from: totals1\nsql: SELECT 1\n", "from: totals2\nsql: SELECT 1\n", TOTALS)

    assert [each.name for each in settings.transforms] == ["totals2", "totals1", "totals"]
    assert [each.name for each in following(settings.transforms, {"lake.totals2"})] == ["totals1", "totals"]
    assert len(following(settings.transforms, {"lake.orders"})) == 3
    assert following(settings.transforms, {"lake.others"}) == ()


def test_transformations_in_a_circle_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FrazilError, match="follows itself: totals <- totals1 <- totals"):
        load(tmp_path, "from: totals1\nsql: SELECT 1\n", "from: totals\nsql: SELECT 1\n")


def test_a_table_without_duplicates_is_followed(tmp_path: Path) -> None:
    once = "topic: orders\nwrite: deduplicate\nkey: string\n"

    (made,) = load(tmp_path, TOTALS, table=once).transforms

    assert (made.source, made.source_changes, made.source_deduplicates) == ("lake.orders", False, True)


def test_a_table_whose_rows_change_says_what_names_them(tmp_path: Path) -> None:
    keyed = "topic: orders\nwrite: upsert\nkey: string\n"

    (made,) = load(tmp_path, TOTALS, table=keyed).transforms

    assert (made.source_changes, made.source_identity) == (True, ("kafka_key",))


def test_two_transformations_write_two_tables(tmp_path: Path) -> None:
    with pytest.raises(FrazilError, match="also writes"):
        load(tmp_path, TOTALS, f"{TOTALS}table: totals\n")


def test_the_definition_changes_with_the_rows_and_with_nothing_else() -> None:
    spec = TransformSpec("f", "n", "d", "t", "lake.orders", ("lake.a", "lake.b"), "SELECT 1")

    assert spec.definition() == replace(spec, sql="SELECT 1\n", joins=("lake.b", "lake.a"), table="x").definition()
    others = [replace(spec, sql="SELECT 2"), replace(spec, source="lake.x"), replace(spec, joins=())]
    function = replace(spec, sql="", function="m:f", joins=("lake.a", "lake.b"))
    assert function.definition() != replace(function, joins=("lake.b", "lake.a")).definition(), "its arguments"
    assert len({spec.definition(), spec.definition("code"), *(each.definition() for each in others)}) == 5
