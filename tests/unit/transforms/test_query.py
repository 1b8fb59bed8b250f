"""Which plans can be kept batch by batch, and where the values of columns come from, without Spark."""

from __future__ import annotations

import pytest

from frazil.model.queries import Attribute, Expression, Kept, Keyed, Operator
from frazil.transforms.aggregates import keyed_of
from frazil.transforms.query import identity_in, lineage, refusals
from frazil.transforms.ranges import unchanged_columns
from frazil.transforms.sources import SourceKind

ID, N = Attribute(1, "id", "bigint"), Attribute(2, "n", "int")
ORDERS = Operator("View", (ID, N), name="orders")
USERS = Operator("View", (Attribute(3, "id", "bigint"),), name="users")


def column(attribute: Attribute) -> Expression:
    return Expression("AttributeReference", f"{attribute.name}#{attribute.id}", attribute.type, attribute.id)


def alias(inner: Expression, n: int) -> Expression:
    return Expression("Alias", f"{inner.text} AS x#{n}", inner.type, n, (inner,))


def step(kind: str, *children: Operator, join: str = "", expressions: tuple[Expression, ...] = ()) -> Operator:
    return Operator(kind, (), children or (ORDERS,), expressions, join=join)


def aggregate(kind: str, of: Expression, *, distinct: bool = False) -> Expression:
    function = Expression(kind, f"{kind.lower()}({of.text})", of.type, children=(of,))
    return Expression("AggregateExpression", function.text, of.type, children=(function,), distinct=distinct)


def grouped(*values: Expression, by: tuple[Attribute, ...] = (N,), over: Operator = ORDERS) -> Operator:
    keys = tuple(map(column, by))
    named = (*keys, *(alias(value, 10 + n) for n, value in enumerate(values)))
    output = (*by, *(Attribute(10 + n, f"v{n}", value.type) for n, value in enumerate(values)))
    return Operator("Aggregate", output, (over,), (*keys, *named), groups=len(keys))


@pytest.mark.parametrize(
    "plan",
    [
        step("Project", step("Filter")),
        step("SubqueryAlias", step("Generate")),
        step("Join", ORDERS, USERS, join="LeftOuter"),
        step("Join", ORDERS, USERS, join="LeftAnti"),
        step("Join", USERS, ORDERS, join="RightOuter"),
        step("Union", ORDERS, step("Project")),
        step("Join", ORDERS, step("Aggregate", USERS), join="Inner"),
        step("Join", ORDERS, step("Offset", step("LocalLimit", step("Sort", USERS))), join="Inner"),
        grouped(aggregate("Sum", column(ID)), aggregate("Count", column(N))),
        step("SubqueryAlias", grouped(aggregate("Max", column(ID)), over=step("Filter"))),
    ],
)
def test_plans_whose_rows_each_come_from_one_row_are_kept(plan: Operator) -> None:
    assert refusals(plan, "orders") == []


SUBQUERY = Expression("ScalarSubquery", "scalar-subquery", plan=ORDERS)
RANDOM = Expression("Rand", "rand()", deterministic=False)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (USERS, "does not read orders"),
        (step("Distinct"), "drops duplicates"),
        (step("Project", step("Window")), "has a window function"),
        (step("GlobalLimit", step("LocalLimit")), "has a LIMIT"),
        (step("Sort"), "sorts its rows"),
        (step("NewStep"), "has the step NewStep"),
        (step("Join", ORDERS, ORDERS, join="Inner"), "joins orders with itself"),
        (step("Join", ORDERS, USERS, join="FullOuter"), "has a join of the type FullOuter"),
        (step("Join", USERS, ORDERS, join="LeftOuter"), "has a join of the type LeftOuter"),
        (step("Union", ORDERS, USERS), "adds rows that do not come from orders"),
        (step("Filter", expressions=(SUBQUERY,)), "reads orders in a subquery"),
        (step("Project", expressions=(RANDOM,)), "is not deterministic (rand())"),
        (step("Project", expressions=(Expression("CurrentTimestamp", "now()"),)), "depends on the time"),
        (step("Project", expressions=(Expression("Literal", "2026", moment="DATE 'today'"),)), "user (DATE 'today')"),
        (step("Join", ORDERS, step("Sample", USERS), join="Inner"), "takes a sample"),
        (step("Join", ORDERS, step("GlobalLimit", step("Project", USERS)), join="Inner"), "a LIMIT or OFFSET without"),
        (step("Join", ORDERS, Operator("LogicalRelation", (), name="csv.`/x`"), join="Inner"), "reads csv.`/x` itself"),
        (step("Filter", grouped(aggregate("Sum", column(ID)))), "filters groups (HAVING"),
        (grouped(aggregate("Sum", column(ID)), by=()), "add a GROUP BY"),
        (
            grouped(aggregate("Count", column(ID), distinct=True), over=step("Join", ORDERS, USERS, join="Inner")),
            "and groups are computed again for count(DISTINCT …) or FILTER",
        ),
        (grouped(aggregate("Sum", SUBQUERY)), "reads orders in a subquery"),
        (grouped(aggregate("StddevSamp", column(ID))), "only count, sum, avg, min and max are kept"),
        (grouped(aggregate("Average", Expression("Cast", "x", "double"))), "adds numbers of the type double"),
        (grouped(Expression("Add", "sum(id) + 1")), "computes v0 from an aggregate"),
    ],
)
def test_other_plans_are_refused_with_their_reason(plan: Operator, reason: str) -> None:
    assert any(reason in each.reason for each in refusals(plan, "orders"))


def test_a_group_that_is_not_among_the_columns_is_refused() -> None:
    whole = grouped(aggregate("Sum", column(ID)), by=(ID, N))
    lacks = Operator("Aggregate", whole.output[1:], whole.children, (*whole.expressions[:2], *whole.expressions[3:]),
                     groups=2)  # fmt: skip

    (found,) = refusals(lacks, "orders")

    assert found.reason.startswith("groups by id#1, which is not among its columns")


def test_an_average_needs_two_more_columns() -> None:
    found = keyed_of(grouped(aggregate("Average", column(ID)), aggregate("Min", column(ID))))

    assert found == Keyed(("n",), (Kept(1, "v0", "Average", "bigint"), Kept(2, "v1", "Min", "bigint")))
    assert [each.states for each in found.kept] == [("v0__sum", "v0__count"), ()]


def test_lineage_follows_columns_through_all_steps() -> None:
    renamed = Operator("Project", (Attribute(5, "x", "bigint"), N), (ORDERS,), (alias(column(ID), 5), column(N)))
    total = aggregate("Sum", Expression("Add", "x + n", children=(column(Attribute(5, "x", "bigint")), column(N))))

    found = lineage(grouped(total, over=renamed))

    assert [(each.column, each.sources) for each in found] == [("n", ("orders.n",)), ("v0", ("orders.id", "orders.n"))]


def test_only_keys_that_are_columns_unchanged_have_bounds() -> None:
    x = Attribute(5, "x", "bigint")
    renamed = Operator("Project", (x,), (ORDERS,), (alias(column(ID), 5),))
    computed = Operator("Project", (x,), (ORDERS,), (alias(Expression("Add", "id + 1", children=(column(ID),)), 5),))

    assert unchanged_columns(grouped(aggregate("Max", column(N)), by=(x,), over=renamed), "orders") == {"x": "id"}
    assert unchanged_columns(grouped(aggregate("Max", column(N)), by=(x,), over=computed), "orders") == {}


def test_groups_are_computed_again_where_an_aggregate_does_not_add_up() -> None:
    counts = grouped(aggregate("Count", column(ID)), aggregate("Average", column(ID)))
    distinct = grouped(aggregate("Count", column(ID), distinct=True), aggregate("Average", column(ID)))

    found = [keyed_of(counts), keyed_of(distinct), keyed_of(counts, changes=True)]

    assert [(each.is_recomputed, each.internal) for each in found if each is not None] == [
        (False, ("v1__sum", "v1__count")),
        (True, ()),
        (False, ("v1__sum", "v1__count", "__rows")),
    ]


KEYED = SourceKind(changes=True, identity=("id",))


@pytest.mark.parametrize(
    ("plan", "keys"),
    [
        (ORDERS, ("id",)),
        (step("Filter"), ()),
        (Operator("Filter", (ID, N), (ORDERS,)), ("id",)),
        (Operator("Project", (Attribute(9, "number", "bigint"),), (ORDERS,), (alias(column(ID), 9),)), ("number",)),
        (Operator("Project", (N,), (ORDERS,), (column(N),)), ()),
    ],
)
def test_rows_of_a_query_are_named_as_those_of_the_followed_table(plan: Operator, keys: tuple[str, ...]) -> None:
    assert identity_in(plan, "orders", KEYED) == keys
    assert (refusals(plan, "orders", KEYED) == []) == bool(keys)


@pytest.mark.parametrize(
    ("kind", "plan", "reason"),
    [
        (KEYED, step("Join", ORDERS, USERS, join="Inner"), "joins another table with orders, whose rows change"),
        (KEYED, step("Generate"), "has the step Generate, which may make several rows"),
        (SourceKind(changes=True), ORDERS, "no columns name one row of orders"),
    ],
)
def test_rows_that_could_not_be_found_again_are_refused(kind: SourceKind, plan: Operator, reason: str) -> None:
    assert any(reason in each.reason for each in refusals(plan, "orders", kind))
