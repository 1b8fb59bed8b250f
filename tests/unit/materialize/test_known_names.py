"""A rebuild learns the former names that its table knows, where the newest schemas lead to them."""

from __future__ import annotations

import pytest

from frazil.materialize.rebuild.known_names import with_known_names
from frazil.materialize.schema.former_names import FormerNames
from frazil.model.columns import Column, ListOf, Scalar, Struct

LONG = Scalar("long")


def columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, LONG) for name in names)


@pytest.mark.parametrize(
    ("names", "begun", "of_table", "known"),
    [
        (("c",), {"c": ("b",)}, {"c": ("a", "b")}, {"c": ("b", "a")}),
        (("c",), {"c": ("b",)}, {"b": ("a",)}, {"c": ("b", "a")}),
        (("c",), {}, {"c": ("a", "b")}, {}),
        (("c",), {"c": ("x",)}, {"c": ("a", "b")}, {"c": ("x",)}),
        (("c", "a"), {"c": ("b",)}, {"c": ("a", "b")}, {"c": ("b",)}),
        (("c", "d"), {"c": ("b",), "d": ("a",)}, {"c": ("a", "b")}, {"c": ("b",), "d": ("a",)}),
    ],
    ids=["renamed twice", "not met", "not renamed", "renamed otherwise", "a column", "a name of another column"],
)
def test_names_lead_on_from_those_that_the_newest_schema_says(
    names: tuple[str, ...], begun: FormerNames, of_table: FormerNames, known: FormerNames
) -> None:
    assert with_known_names(columns(*names), begun, of_table) == known


def test_names_inside_a_list_are_those_of_the_columns_beside() -> None:
    inner = Struct(columns("c", "n"))

    found = with_known_names((Column("at", ListOf(inner)),), {"at[].c": ("b",)}, {"at[].c": ("a", "b"), "a": ("n",)})

    assert found == {"at[].c": ("b", "a")}
