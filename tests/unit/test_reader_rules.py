"""Each row of the readers' rules recognises its own examples, and the checks follow the rows."""

from __future__ import annotations

import pytest

from frazil.model.columns import Column, Fixed, ListOf, MapOf, Scalar, Struct
from frazil.model.reader_rules import (
    RULES,
    ReaderRule,
    refused_columns,
    refused_partition_source,
    refused_table_name,
    warned_columns,
)

RECOGNISED = [rule for rule in RULES if not rule.why_never]
COLUMNS = [rule for rule in RECOGNISED if rule.column is not None]


def named(rule: ReaderRule) -> str:
    return f"{rule.reader}-{rule.feature[:40]}"


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_a_rule_recognises_its_feature_in_one_way_or_says_why_it_cannot_occur(rule: ReaderRule) -> None:
    recognised_by = [each for each in (rule.column, rule.table_name, rule.partition_source) if each is not None]

    assert len(recognised_by) == (0 if rule.why_never else 1)
    assert rule.source
    assert bool(rule.problem) == (rule.verdict != "fine" and not rule.why_never)


@pytest.mark.parametrize("rule", COLUMNS, ids=named)
def test_a_rule_of_columns_finds_its_examples_alone(rule: ReaderRule) -> None:
    found = {"refuse": refused_columns, "warn": warned_columns, "fine": lambda *_: ()}[rule.verdict]
    for column in rule.examples.of:
        assert isinstance(column, Column)
        assert rule.column is not None
        assert rule.column(column.name, column)
        assert [each.path for each in found((rule.reader,), (column,))] == [column.name] * (rule.verdict != "fine")
        assert found((), (column,)) == ()
        if rule.verdict == "fine":
            assert refused_columns((rule.reader,), (column,)) == ()
    for column in rule.examples.not_of:
        assert isinstance(column, Column)
        assert found((rule.reader,), (column,)) == ()


def test_columns_are_judged_at_any_depth_and_in_the_keys_of_maps() -> None:
    nested = (
        Column("lines", ListOf(Struct((Column("code", Fixed(4)),)))),
        Column("by_id", MapOf(Fixed(2), Scalar("long"))),
        Column("inside", Struct((Column("_file", Scalar("string")), Column("größe", Scalar("int"))))),
        Column("größe", Scalar("int")),
    )

    assert [each.path for each in refused_columns(("athena",), nested)] == ["lines[].code", "by_id", "inside.größe"]
    assert refused_columns(("spark", "duckdb", "snowflake"), nested) == ()


def test_names_of_tables_and_sources_of_partitions_are_judged() -> None:
    for rule in RECOGNISED:
        for name in rule.examples.of if rule.column is None else ():
            assert isinstance(name, str)
            by_table = refused_table_name(rule.reader, name)
            by_partition = refused_partition_source((rule.reader,), name)
            assert (by_table is not None, by_partition is not None) == (
                rule.table_name is not None,
                rule.partition_source is not None,
            )
        for name in rule.examples.not_of if rule.column is None else ():
            assert isinstance(name, str)
            assert refused_table_name(rule.reader, name) is None
            assert refused_partition_source((rule.reader,), name) is None
    assert refused_table_name("athena", "Orders") == 'supports only lower-case names, found "Orders"'
