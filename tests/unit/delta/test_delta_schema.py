"""Iceberg's types in Delta's words, and those that it has no word for."""

from __future__ import annotations

import json

import pytest
from delta_tables import field, schema

from frazil.delta.expressible import inexpressible
from frazil.delta.schema import NoPlaceInDeltaError, columns_of, metadata_of
from frazil.model.columns import Column, Decimal, Fixed, ListOf, MapOf, Scalar, Struct


@pytest.mark.parametrize(
    ("iceberg", "delta"),
    [
        ("boolean", "boolean"),
        ("int", "integer"),
        ("long", "long"),
        ("float", "float"),
        ("double", "double"),
        ("string", "string"),
        ("binary", "binary"),
        ("date", "date"),
        ("timestamptz", "timestamp"),
        ("decimal(38, 9)", "decimal(38,9)"),
    ],
)
def test_each_type_has_its_word(iceberg: str, delta: str) -> None:
    [written] = json.loads(metadata_of(schema((1, "a", iceberg))).schema)["fields"]

    assert written == {"name": "a", "type": delta, "nullable": True, "metadata": {"frazil.fieldId": 1}}


@pytest.mark.parametrize("iceberg", ["time", "timestamp", "uuid", "fixed[16]", "timestamptz_ns", "variant"])
def test_a_type_without_a_word_is_refused(iceberg: str) -> None:
    with pytest.raises(NoPlaceInDeltaError, match="a is a"):
        metadata_of(schema((1, "a", iceberg)))


def test_columns_at_any_depth_have_a_path_an_id_and_a_type() -> None:
    legs = {"type": "list", "element-id": 3, "element": {"type": "struct", "fields": [field(4, "n", "long")]}}
    tags = {"type": "map", "key-id": 6, "key": "string", "value-id": 7, "value": legs}

    columns = columns_of(metadata_of(schema((1, "legs", legs), (5, "tags", tags))).schema)

    assert {path: (each.field_id, each.type) for path, each in columns.items()} == {
        "legs": (1, "list<struct>"),
        "legs[].n": (4, "long"),
        "tags": (5, "map<string, list<struct>>"),
        "tags{}[].n": (4, "long"),
    }


def test_a_description_becomes_a_comment() -> None:
    described = {"type": "struct", "fields": [{**field(1, "a", "int"), "doc": "How many."}]}

    [written] = json.loads(metadata_of(json.dumps(described)).schema)["fields"]

    assert written["metadata"] == {"frazil.fieldId": 1, "comment": "How many."}


def test_check_finds_what_delta_has_no_place_for_with_its_path() -> None:
    columns = (
        Column("fine", Decimal(10, 2)),
        Column("at", Scalar("time")),
        Column("who", ListOf(Struct((Column("key", Scalar("uuid")), Column("ok", Scalar("long")))))),
        Column("when", MapOf(Fixed(4), Scalar("timestamp"))),
        Column("Fine", Scalar("timestamptz")),
        Column("a b", Scalar("string")),
    )

    assert [(each.path, each.problem.partition(",")[0]) for each in inexpressible(columns)] == [
        ("at", "is a time of day"),
        ("who[].key", "is a uuid"),
        ("when{key}", "is a fixed(4)"),
        ("when{}", "is a local timestamp"),
        ("Fine", "differs from fine only in letter case; Delta names are case-insensitive"),
        ("a b", "contains a character that Delta does not allow in names: a space or one of "),
    ]


def test_check_has_nothing_against_the_rest() -> None:
    every = tuple(Column(name, Scalar(name)) for name in ("boolean", "int", "long", "double", "binary", "date"))

    assert inexpressible((*every, Column("nested", Struct(every)))) == ()
