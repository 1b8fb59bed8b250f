"""The examples of docs/reference/evolution.md: what each does to a table, and that all records fit afterwards."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from frazil.cli.evolution_page import EXAMPLES, Example, if_new_column, if_strict, outcome, schema_of
from frazil.formats.arrow import arrow_schema, project
from frazil.formats.open import map_schema
from frazil.materialize.schema.compare import aliases_of, applied, compare
from frazil.model.columns import Column

OUTCOMES = {
    "has a new optional field": "changes: add column b: string",
    "has a new required field": "changes: add column b: string",
    "has a new required field with a default": "changes: add column b: string",
    "has a new array or map": "changes: add column b: list<string>, add column c: map<string, long>",
    "has a new array with a default": "changes: add column b: list<string>",
    "has a new optional field in a record": "changes: add column a.y: string",
    "has a new field in a record": "changes: add column a.y: string",
    "has a new field in a record in an array or a map": "changes: add column a[].y: string",
    "lacks a field": "stays as it is: `b` not in the newest schema",
    "has its fields in another order": "stays as it is",
    "has an optional field that was required": "stays as it is",
    "has a required field that was optional": "stays as it is",
    "has a long that was an int": "changes: widen a: int to long",
    "has a double that was a float": "changes: widen a: float to double",
    "widens inside arrays and maps": "changes: widen a[]: int to long, widen b{}: float to double",
    "has an int that was a long": "stays as it is: `a` int in the newest schema: the column stays long",
    "has any other number or type": "is paused: `a` is float in the writer's schema, the table has int; `b` is string",
    "has a decimal with more digits": "changes: widen a: decimal(9, 2) to decimal(18, 2)",
    "has a decimal with another scale": "is paused: `a` is decimal(18, 3)",
    "has a timestamp that was a date": "is paused: `a` is timestamptz",
    "has a timestamp of another precision": "stays as it is",
    "has a local timestamp that was none": "is paused: `a` is timestamp in",
    "has a fixed of another length": "is paused: `a` is fixed(16)",
    "has text of another maximum length": "stays as it is",
    "has a record that was a number": "is paused: `a` is struct<x: int>",
    "has a number that was a record": "is paused: `a` is int",
    "has another type inside a record in an array": "is paused: `a[].x` is string in the writer's schema",
    "has an array of another type": "is paused: `a[]` is string in the writer's schema",
    "renames a field and gives it another type": "is paused: `b` is string in the writer's schema, the table has int",
    "has a union that was a record": "is paused: `a` is a union of int, string in the writer's schema",
    "has a map that was an array": "is paused: `a` is map<string, int>",
    "has an array that was a map": "is paused: `a` is list<int>",
    "has a map with wider keys (Protobuf)": "is paused: `a` the map's keys are long, the table has int",
    "has other symbols in an enum": "stays as it is",
    "has text that was an enum": "stays as it is",
    "has a new type in a union": "changes: add column a.double: double",
    "lacks a type in a union": "stays as it is: `a.double` not in the newest schema",
    "has an optional union": "stays as it is",
    "has a union that was one type": "is paused: `a` is struct<int: int, string: string>",
    "renames a field, with an alias": "changes: rename a to b",
    "renames a field, without an alias": "changes: add column b: int",
    "renames and widens a field": "changes: rename a to b, widen a: int to long",
    "renames two fields at once, one to the other": "is paused: `b` is the renamed column a",
    "exchanges two names": "is paused: `a` takes the name of a field that the same schema renames",
    "has a name that differs only in case": "is paused: `Total` total and Total differ only in case",
}


IF_STRICT = {
    "has a new required field": "is paused: `b` is a new required field",
    "has a new required field with a default": "is paused: `b` is a new required field",
    "has a new array or map": "is paused: `b` is a new required field: make it optional; `c` is a new required field",
    "has a new field in a record": "is paused: `a.y` is a new required field",
    "has a new field in a record in an array or a map": "is paused: `a[].y` is a new required field",
    "lacks a field": "is paused: `b` is gone",
    "has its fields in another order": "is paused: `a` comes before a field that it followed",
    "has a required field that was optional": "is paused: `a` is required, and was optional",
    "has an int that was a long": "is paused: `a` is int, and was long",
    "lacks a type in a union": "is paused: `a.double` is gone",
    "renames a field, with an alias": "is paused: `b` is a new required field: make it optional; `a` is gone",
    "renames a field, without an alias": "is paused: `b` is a new required field: make it optional; `a` is gone",
    "renames and widens a field": "is paused: `b` is a new required field: make it optional; `a` is gone",
}
"""What is refused in addition to what every table refuses; all other examples have the same outcome."""


IF_NEW_COLUMN = {
    "has any other number or type": "changes: add column a__v2: float, beside a, add column b__v2: string, beside b",
    "has a decimal with another scale": "changes: add column a__v2: decimal(18, 3), beside a",
    "has a timestamp that was a date": "changes: add column a__v2: timestamptz, beside a",
    "has a local timestamp that was none": "changes: add column a__v2: timestamp, beside a",
    "has a fixed of another length": "changes: add column a__v2: fixed(16), beside a",
    "has a record that was a number": "changes: add column a__v2: struct<x: int>, beside a",
    "has a number that was a record": "changes: add column a__v2: int, beside a",
    "has another type inside a record in an array": "changes: add column a[].x__v2: string, beside a[].x",
    "has an array of another type": "changes: add column a__v2: list<string>, beside a",
    "renames a field and gives it another type": "changes: rename a to b, add column b__v2: string, beside b",
    "has a map that was an array": "changes: add column a__v2: map<string, int>, beside a",
    "has an array that was a map": "changes: add column a__v2: list<int>, beside a",
    "has a map with wider keys (Protobuf)": "changes: add column a__v2: map<long, string>, beside a",
    "has a union that was one type": "changes: add column a__v2: struct<int: int, string: string>, beside a",
}
"""What another type changes with `on_incompatible_schema: new_column`; all other examples have the same outcome."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.change)
def test_a_field_of_another_type_gets_the_column_that_the_page_says(example: Example) -> None:
    assert if_new_column(example) == IF_NEW_COLUMN.get(example.change, "the same")


@pytest.mark.parametrize(
    "example", [each for each in EXAMPLES if each.change in IF_NEW_COLUMN], ids=lambda example: example.change
)
def test_records_of_both_types_fit_a_table_with_a_column_for_each(example: Example) -> None:
    before, after = columns_of(example, after=False), columns_of(example, after=True)
    evolution = compare(after, before, aliases_of(before), "new_column")
    table = applied(before, evolution.changes)

    for written in (before, after):
        assert project(rows(written), arrow_schema(table), evolution.former_names).num_rows == 1
        again = compare(written, table, evolution.former_names)
        assert (again.changes, again.findings) == ((), ())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.change)
def test_strict_evolution_refuses_what_the_page_says(example: Example) -> None:
    assert if_strict(example).startswith(IF_STRICT.get(example.change, "the same"))


def columns_of(example: Example, *, after: bool) -> tuple[Column, ...]:
    return map_schema(schema_of(example.after, example.aliases) if after else schema_of(example.before, {})).columns


def rows(columns: tuple[Column, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{}], schema=arrow_schema(columns))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.change)
def test_each_change_does_what_the_page_says(example: Example) -> None:
    expected = OUTCOMES[example.change]

    assert outcome(example).startswith(expected)
    assert expected != "stays as it is" or outcome(example) == expected


@pytest.mark.parametrize(
    "example",
    [each for each in EXAMPLES if not OUTCOMES[each.change].startswith("is paused")],
    ids=lambda example: example.change,
)
def test_records_from_before_and_after_an_accepted_change_fit_the_table(example: Example) -> None:
    before, after = columns_of(example, after=False), columns_of(example, after=True)
    evolution = compare(after, before, aliases_of(before))
    table = applied(before, evolution.changes)

    for written in (before, after):
        assert project(rows(written), arrow_schema(table), evolution.former_names).num_rows == 1
        again = compare(written, table, evolution.former_names)
        assert (again.changes, again.findings) == ((), ())


def test_each_outcome_has_an_example() -> None:
    assert {each.change for each in EXAMPLES} == OUTCOMES.keys()
    assert json.loads(schema_of({"a": "int"}, {"a": "b"}).text)["fields"] == [
        {"name": "a", "type": "int", "aliases": ["b"]}
    ]
