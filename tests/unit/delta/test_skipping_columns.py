"""The columns by whose bounds readers of a Delta log skip files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from delta_tables import Footers, file, log, schema, view

from frazil.delta.plan import plan_log
from frazil.delta.skipping import AT_MOST
from frazil.model.delta import BeginLog, ExtendLog, LogIsCurrent, ReplaceLog, TableFile, TableFiles

ONE_INT = (1).to_bytes(4, "little")
NARROW = schema((1, "n", "int"))
WIDE = schema((1, "n", "int"), (2, "m", "int"), (3, "x", "double"))


def whole(name: str, *field_ids: int, **changes: Any) -> TableFile:
    """A file with both bounds of these columns and their counts of nulls."""
    bounds = dict.fromkeys(field_ids, ONE_INT)
    statistics = {"null_value_counts": dict.fromkeys(field_ids, 0), "lower_bounds": bounds, "upper_bounds": bounds}
    return file(name, **{**statistics, **changes})


def begun(schema_json: str, *files: TableFile) -> BeginLog:
    plan = plan_log(view("append", schema_json=schema_json), TableFiles(files), None, shapes=Footers(schema_json))
    assert isinstance(plan, BeginLog)
    return plan


def extended(skipping: str | None, old: Sequence[TableFile], *new: TableFile) -> ExtendLog | LogIsCurrent:
    """Plan the version for the new files after a log with this property; the newer schema has two columns more."""
    names = [each.location.rpartition("/")[2] for each in old]
    before = log(1, *names, schema_json=WIDE if skipping != "`n`" else NARROW, skipping=skipping)
    after = view(*["append"] * (2 if new else 1), schema_json=WIDE)
    plan = plan_log(after, TableFiles((*old, *new)), before, shapes=Footers(WIDE))
    assert isinstance(plan, ExtendLog | LogIsCurrent)
    return plan


@pytest.mark.parametrize(
    ("name", "quoted"),
    [("n", "`n`"), ("a.b", "`a.b`"), ("a`b", "`a``b`"), ("é日", "`é日`"), ("1-$", "`1-$`"), ("order", "`order`")],
)
def test_names_are_quoted(name: str, quoted: str) -> None:
    assert begun(schema((1, name, "int"), (2, "x", "double"))).metadata.skipping == quoted


def test_columns_without_bounds_are_left_out_and_each_struct_has_a_leaf_named() -> None:
    deep = {"type": "struct", "fields": [{"id": 8, "name": "e", "type": "double", "required": False}]}
    party = {
        "type": "struct",
        "fields": [
            {"id": 6, "name": "deep", "type": deep, "required": False},
            {"id": 7, "name": "a.b", "type": "string", "required": False},
        ],
    }
    types = ("float", "double", "decimal(9, 2)", "boolean", "binary", party)
    columns = [(n, f"c{n}", each) for n, each in enumerate(types, start=11)]

    plan = begun(schema(*columns, (1, "n", "int")), whole("a", 1))

    assert plan.metadata.skipping == "`n`,`c16`.`a.b`,`c16`.`deep`.`e`"


def test_without_a_column_that_has_bounds_the_list_is_empty() -> None:
    assert begun(schema((1, "x", "double"))).metadata.skipping == ""


def test_no_more_columns_than_readers_use_without_the_property() -> None:
    plan = begun(schema(*[(n, f"n{n}", "int") for n in range(1, AT_MOST + 9)]))

    assert plan.metadata.skipping == ",".join(f"`n{n}`" for n in range(1, AT_MOST + 1))


def test_a_column_that_a_file_has_no_statistics_of_is_left_out() -> None:
    nulls = whole("b", 1, null_value_counts={1: 0, 2: 1})
    assert begun(WIDE, whole("a", 1, 2), nulls).metadata.skipping == "`n`,`m`", "all of its values are null"
    assert begun(WIDE, whole("a", 1, 2), whole("b", 1)).metadata.skipping == "`n`"
    assert begun(WIDE, whole("a", 1, 2, null_value_counts={1: 0})).metadata.skipping == "`n`", "nulls were not counted"


def test_a_file_with_one_bound_has_no_statistics_and_takes_no_column_away() -> None:
    odd = whole("b", 1, 2, upper_bounds={1: ONE_INT})

    plan = begun(WIDE, whole("a", 1, 2), odd)

    assert plan.metadata.skipping == "`n`,`m`"
    assert [json.loads(each.stats).keys() for each in plan.add][1] == {"numRecords"}


def test_a_new_file_without_statistics_of_a_named_column_has_none_at_all() -> None:
    plan = extended("`n`,`m`", [whole("a", 1, 2)], whole("b", 1))

    assert isinstance(plan, ExtendLog)
    assert (plan.metadata.skipping, plan.sets_skipping) == ("`n`,`m`", False)
    assert [json.loads(each.stats) for each in plan.add] == [{"numRecords": 1}]


def test_a_new_column_joins_once_no_file_from_before_it_is_left() -> None:
    kept = extended("`n`", [whole("a", 1)], whole("b", 1, 2))
    later = extended("`n`,`x`", [whole("b", 1, 2)], whole("c", 1, 2))

    assert isinstance(kept, ExtendLog)
    assert (kept.metadata.skipping, kept.sets_skipping, kept.version) == ("`n`", False, 9)
    assert isinstance(later, ExtendLog)
    assert (later.metadata.skipping, later.sets_skipping, later.version) == ("`n`,`m`", True, 9)


@pytest.mark.parametrize("kind", ["int", "date"])
def test_a_column_with_one_bound_in_a_log_without_the_list_is_left_out(kind: str) -> None:
    """Earlier versions of Frazil wrote one bound, also where the other one cannot be parsed."""
    columns = schema((1, "n", "int"), (2, "m", kind))
    upper = {1: ONE_INT, 2: (2_932_897).to_bytes(4, "little")} if kind == "date" else {1: ONE_INT}
    odd = whole("a", 1, 2, upper_bounds=upper)

    plan = plan_log(
        view("append", schema_json=columns),
        TableFiles((odd,)),
        log(1, "a", schema_json=columns, skipping=None),
        shapes=Footers(columns),
    )

    assert isinstance(plan, ExtendLog)
    assert plan.metadata.skipping == "`n`"


def test_a_new_column_does_not_join_because_an_old_list_has_its_name() -> None:
    before = log(1, "a", schema_json=NARROW, skipping="`n`,`m`")

    plan = plan_log(view("append", schema_json=WIDE), TableFiles((whole("a", 1),)), before, shapes=Footers(WIDE))

    assert isinstance(plan, ExtendLog)
    assert plan.metadata.skipping == "`n`"


@pytest.mark.parametrize("skipping", [None, "`n`,`m`,`x`", "n, m"], ids=["none", "another writer's", "not quoted"])
def test_a_log_with_another_list_gets_its_own_without_any_file(skipping: str | None) -> None:
    files = [whole("a", 1, 2)]

    plan = extended(skipping, files)

    assert isinstance(plan, ExtendLog)
    assert (plan.metadata.skipping, plan.sets_skipping, plan.version) == ("`n`,`m`", True, 9)
    assert plan.add == plan.remove == ()
    assert isinstance(extended(plan.metadata.skipping, files), LogIsCurrent)


def test_a_renamed_column_is_named_anew() -> None:
    renamed = schema((1, "number", "int"))
    before = log(1, "a", schema_json=NARROW, skipping="`n`")

    plan = plan_log(
        view("append", "replace", schema_json=renamed), TableFiles((whole("b", 1),)), before, shapes=Footers(renamed)
    )

    assert isinstance(plan, ReplaceLog)
    assert (plan.metadata.skipping, plan.sets_skipping, plan.version) == ("`number`", True, 9)
