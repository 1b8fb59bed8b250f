"""Which columns of a query its tasks read themselves, and which Spark has to see."""

from __future__ import annotations

import pytest

from frazil.model.queries import VIEW, Attribute, Expression, Operator
from frazil.transforms.row_by_row import Division, division

ID, N, SYMBOL, SIDE = (Attribute(n, name, "bigint") for n, name in enumerate(("id", "n", "symbol", "side")))
ORDERS = Operator(VIEW, (ID, N, SYMBOL, SIDE), name="orders")
USERS = Operator(VIEW, (Attribute(9, "user", "string"),), name="users")
TWICE = Attribute(7, "twice", "bigint")


def column(of: Attribute) -> Expression:
    return Expression("AttributeReference", of.name, of.type, of.id)


def alias(of: Expression, named: Attribute) -> Expression:
    return Expression("Alias", named.name, named.type, named.id, (of,))


DOUBLED = alias(Expression("Add", "n + n", "bigint", children=(column(N), column(N))), TWICE)
SHOWN = Operator("Filter", ORDERS.output, (ORDERS,), (Expression("EqualTo", "side = 1", children=(column(SIDE),)),))


def test_spark_sees_what_it_computes_with_and_the_columns_of_conditions() -> None:
    renamed = Attribute(8, "name", "bigint")
    plan = Operator(
        "SubqueryAlias",
        (ID, renamed, TWICE),
        (Operator("Project", (ID, renamed, TWICE), (SHOWN,), (column(ID), alias(column(SYMBOL), renamed), DOUBLED)),),
    )

    assert division(plan, "orders") == Division({"id": "id", "name": "symbol"}, ("twice",), frozenset({"n", "side"}))


def test_a_condition_on_a_computed_column_needs_what_that_is_made_of() -> None:
    inner = Operator("Project", (ID, TWICE), (ORDERS,), (column(ID), DOUBLED))
    chosen = Operator("Filter", inner.output, (inner,), (Expression("IsNotNull", "", children=(column(TWICE),)),))

    assert division(Operator("Project", (ID,), (chosen,), (column(ID),)), "orders") == Division(
        {"id": "id"}, (), frozenset({"n"})
    )


@pytest.mark.parametrize(
    "plan",
    [
        Operator("Project", (TWICE,), (ORDERS,), (DOUBLED,)),
        Operator("Generate", ORDERS.output, (ORDERS,)),
        Operator("Union", ORDERS.output, (ORDERS, ORDERS)),
        Operator("Join", ORDERS.output, (ORDERS, USERS), join="Inner"),
        Operator("Filter", ORDERS.output, (ORDERS,), (Expression("Exists", "exists", plan=USERS),)),
    ],
)
def test_other_queries_are_not_divided(plan: Operator) -> None:
    assert division(plan, "orders") is None
