"""The plan of a query, as its analyzer resolved it: a tree of operators, each with its expressions.

Kinds are the names of Spark's Catalyst classes. The reading of a table is a `View` without children.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column of an operator's output. Its id distinguishes it from columns with the same name."""

    id: int
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression. An `AttributeReference` and an `Alias` have the id of a column; a subquery has a plan.

    A `CommonExpressionDef` and each `CommonExpressionRef` to it have an id that is none of columns.
    """

    kind: str
    text: str
    type: str = ""
    id: int | None = None
    children: tuple[Expression, ...] = ()
    plan: Operator | None = None
    deterministic: bool = True
    distinct: bool = False
    """An aggregate over distinct values, or over the rows that a filter leaves."""
    moment: str = ""
    """The words that name the time of the analysis, such as `TIMESTAMP 'now'`: the value follows from it."""
    canonical: str = ""
    """The same text for all ways to write it, such as names in another case; empty if there is one way only."""
    is_explicit: bool = False
    """A cast that the query has itself: the analyzer adds others, whose types follow from those of operands."""

    def walk(self) -> Iterator[Expression]:
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def references(self) -> frozenset[int]:
        """The ids of the columns that it reads."""
        return frozenset(e.id for e in self.walk() if e.kind == "AttributeReference" and e.id is not None)


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator. `name` is the table of a View, or the SQL of another leaf; `join` is the type, such as LeftOuter.

    The first `groups` expressions of an Aggregate are those that it groups by, the others are its output.
    """

    kind: str
    output: tuple[Attribute, ...]
    children: tuple[Operator, ...] = ()
    expressions: tuple[Expression, ...] = ()
    name: str = ""
    join: str = ""
    groups: int = 0

    def walk(self) -> Iterator[Operator]:
        """Yield the operator and all below it, those of subqueries too."""
        yield self
        for child in (*self.children, *self.subqueries):
            yield from child.walk()

    @property
    def subqueries(self) -> tuple[Operator, ...]:
        inner = (e for expression in self.expressions for e in expression.walk())
        return tuple(expression.plan for expression in inner if expression.plan is not None)

    def reads(self, table: str) -> bool:
        return any(each.kind == VIEW and each.name == table for each in self.walk())


VIEW = "View"


How = Literal["Count", "Sum", "Average", "Min", "Max"]

SUM_OF, COUNT_OF = "__sum", "__count"
"""What the names of the two columns end with that an average is made of; a sum may have a count, too."""

ROWS = "__rows"
"""The column with the number of rows of a group, from which rows are also taken out."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An output column with an aggregate, at its place among the output columns."""

    place: int
    name: str
    how: How
    type: str
    is_whole: bool = False
    """Whether it is computed from all rows of the group, and not from what is stored."""
    is_signed: bool = False
    """Whether rows are also taken out of the group: a sum of which no row is left is null, and not 0."""

    @property
    def is_quotient(self) -> bool:
        """Return whether it is divided from its further columns each time."""
        return self.how == "Average" and not self.is_whole

    @property
    def states(self) -> tuple[str, ...]:
        """The further columns that it needs."""
        if self.is_quotient:
            return (self.name + SUM_OF, self.name + COUNT_OF)
        return (self.name + COUNT_OF,) if self.how == "Sum" and self.is_signed else ()


@dataclass(frozen=True, slots=True)
class Keyed:
    """The output columns of a GROUP BY: those that name a group, and the aggregates."""

    keys: tuple[str, ...]
    kept: tuple[Kept, ...]
    is_recomputed: bool = False
    """Whether groups with changes are computed again from all their rows."""
    is_signed: bool = False
    """Whether rows are also taken out of groups, by what they added to them."""

    @property
    def internal(self) -> tuple[str, ...]:
        """The columns of the table that the query does not have."""
        return (*(name for each in self.kept for name in each.states), *((ROWS,) if self.is_signed else ()))
