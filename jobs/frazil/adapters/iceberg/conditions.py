"""Conditions that a user writes in Iceberg's filter language, on the columns of a table."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundPredicate,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    Not,
    NotEqualTo,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    SetPredicate,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import AboveMax, BelowMin
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import BooleanExpressionVisitor, bind, visit
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, ListType, MapType

from frazil.model.errors import Misuse


def condition_of(identifier: str, schema: Schema, text: str) -> BooleanExpression:
    """Return the condition; all rows meet an empty one. Raises Misuse if it does not fit the columns."""
    if not text:
        return AlwaysTrue()
    try:
        condition = parse(text)
        bind(schema, condition, case_sensitive=True)
        return visit(_without_not(condition, schema), _AsInSql(schema))
    except Exception as problem:  # the library raises errors of several kinds
        raise Misuse(
            f"the condition {text} does not fit the table {identifier}: {problem}",
            hint=f"name columns as the table has them: {', '.join(schema.column_names[:30])}",
        ) from problem


def nested_ids(schema: Schema, field_ids: Iterable[int]) -> set[int]:
    """Return the field ids by which the library reads these fields: of lists and maps, those of their elements."""
    found: set[int] = set()
    for each in field_ids:
        match schema.find_type(each):
            case ListType(element_id=element):
                found |= nested_ids(schema, [element])
            case MapType(key_id=key, value_id=value):
                found |= nested_ids(schema, [key, value])
            case _:
                found.add(each)
    return found


def _without_not(condition: BooleanExpression, schema: Schema, *, negated: bool = False) -> BooleanExpression:
    """Return the condition with each Not at its comparisons, and there in their opposites.

    A NaN is neither less than a number nor greater, so it meets the opposite of both.
    """
    match condition:
        case Not(child=child):
            return _without_not(child, schema, negated=not negated)
        case And(left=left, right=right) | Or(left=left, right=right):
            together = And if isinstance(condition, And) is not negated else Or
            return together(*(_without_not(each, schema, negated=negated) for each in (left, right)))
        case LessThan() | LessThanOrEqual() | GreaterThan() | GreaterThanOrEqual() if negated:
            field_type = condition.term.bind(schema).ref().field.field_type
            is_float = isinstance(field_type, FloatType | DoubleType)
            return Or(~condition, IsNaN(term=condition.term)) if is_float else ~condition
        case _:
            return ~condition if negated else condition


class _AsInSql(BooleanExpressionVisitor[BooleanExpression]):
    """Gives a condition without Not the meaning that it has in SQL, where PyIceberg 0.12.0 gives it another.

    It takes `n < 5000000000` of an int for true, also where `n` is null, and such a value in a list for the greatest or
    the least one of the type. In files from before a column was added, it takes `n <> 5` for true.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def visit_true(self) -> BooleanExpression:
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        return Not(child_result)

    def visit_and(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return And(left_result, right_result)

    def visit_or(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return Or(left_result, right_result)

    def visit_bound_predicate(self, predicate: BoundPredicate) -> BooleanExpression:
        raise TypeError(f"Expected an unbound predicate, found {predicate}")

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> BooleanExpression:
        match predicate:
            case LiteralPredicate():
                bound: BooleanExpression = predicate.bind(self._schema)
                return NotNull(term=predicate.term) if isinstance(bound, AlwaysTrue) else _of_values(predicate)
            case SetPredicate():
                return self._set(predicate)
            case _:
                return _of_values(predicate)

    def _set(self, predicate: SetPredicate) -> BooleanExpression:
        field_type = predicate.term.bind(self._schema).ref().field.field_type
        values = [each for each in predicate.literals if not isinstance(each.to(field_type), AboveMax | BelowMin)]
        among = In(term=predicate.term, literals=values)
        return among if isinstance(predicate, In) else And(NotNull(term=predicate.term), ~among)


def _of_values(predicate: UnboundPredicate) -> BooleanExpression:
    """Return a predicate that no null meets: one that says what a value is not takes a null for such a value."""
    is_opposite = isinstance(predicate, NotEqualTo | NotStartsWith | NotNaN)
    return And(NotNull(term=predicate.term), predicate) if is_opposite else predicate
