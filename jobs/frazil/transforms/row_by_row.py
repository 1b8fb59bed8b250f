"""Queries that make at most one row of a row: which of their columns are stored ones, and what makes the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.model.queries import VIEW, Operator
from frazil.transforms.query import ONE_ROW_FOR_ONE, origins, sources
from frazil.transforms.ranges import passed_through


@dataclass(frozen=True, slots=True)
class Division:
    """The columns of a query: those that are columns of the followed table, by their names, and the `computed` ones.

    `read` are the columns of the followed table that these, and the conditions on its rows, are made of.
    """

    stored: Mapping[str, str]
    computed: tuple[str, ...]
    read: frozenset[str]


def division(plan: Operator, followed: str) -> Division | None:
    """Return how a query divides; None if it may make several rows of one, reads another table or passes no column."""
    steps = list(plan.walk())
    views = {each.name for each in steps if each.kind == VIEW}
    if views != {followed} or any(each.kind not in ONE_ROW_FOR_ONE or each.subqueries for each in steps):
        return None
    stored = passed_through(plan, followed)
    if not stored:
        return None
    known = origins(plan)
    computed = [column for column in plan.output if column.name not in stored]
    conditions = (expression for each in steps if each.kind == "Filter" for expression in each.expressions)
    needed = frozenset[str]().union(
        *(known.get(column.id, frozenset()) for column in computed), *(sources(each, known) for each in conditions)
    )
    return Division(
        stored,
        tuple(column.name for column in computed),
        frozenset(name.removeprefix(f"{followed}.") for name in needed),
    )
