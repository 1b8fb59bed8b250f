"""Which expressions give other values once a column has a wider type, without Spark."""

from __future__ import annotations

import pytest

from frazil.model.queries import Attribute, Expression, Operator
from frazil.transforms.widened import Widening, other_values

N, F, D = Attribute(1, "n", "bigint"), Attribute(2, "f", "double"), Attribute(3, "d", "decimal(12,2)")
VIEW = Operator("View", (N, F, D), name="orders")
TYPES = {"n": ("int", "long"), "f": ("float", "double"), "d": ("decimal(10, 2)", "decimal(12, 2)")}
WIDENED = {"orders": {name: frozenset({types}) for name, types in TYPES.items()}}


def column(attribute: Attribute) -> Expression:
    return Expression("AttributeReference", f"{attribute.name}#{attribute.id}L", attribute.type, attribute.id)


def call(kind: str, *children: Expression, type_: str = "bigint", is_explicit: bool = False) -> Expression:
    text = f"{kind}({', '.join(each.text for each in children)})"
    return Expression(kind, text, type_, children=children, is_explicit=is_explicit)


def union(cast: Expression, kind: str = "Union") -> Operator:
    """Return the rows with n as x, and those with another column that Spark casts to the type of both."""
    x = call("Cast", column(N), type_=cast.type)
    return Operator(kind, (Attribute(13, "x", cast.type),), (project(x), project(cast, n=12)))


def cast_to(type_: str, before: str, *, is_explicit: bool = False) -> Expression:
    return call("Cast", Expression("Literal", "h", before), type_=type_, is_explicit=is_explicit)


def project(expression: Expression, over: Operator = VIEW, n: int = 10) -> Operator:
    named = Expression("Alias", f"{expression.text} AS x#{n}", expression.type, n, (expression,))
    return Operator("Project", (Attribute(n, "x", expression.type),), (over,), (named,))


X = Attribute(10, "x", "bigint")
COMBINE = ("Union", "Intersect", "Except")
THREE, H = Expression("Literal", "3", "decimal(1,0)"), Expression("Literal", "h", "decimal(38,18)")


def as_decimal(*, is_explicit: bool) -> Expression:
    """Return n as a decimal with the digits of any long."""
    return call("Cast", column(N), type_="decimal(20,0)", is_explicit=is_explicit)


def as_widest(attribute: Attribute) -> Expression:
    return call("Cast", column(attribute), type_="decimal(38,18)")


def between(least: Expression) -> Expression:
    """Return `n BETWEEN least AND …` as Spark has it: n is computed once."""
    common = Expression("CommonExpressionRef", "common", "bigint", 0)
    compared = call("GreaterThanOrEqual", call("Cast", common, type_="decimal(38,18)"), least, type_="boolean")
    return call("With", compared, Expression("CommonExpressionDef", "n", "bigint", 0, (column(N),)), type_="boolean")


@pytest.mark.parametrize(
    "plan",
    [
        project(column(N)),
        project(call("Multiply", column(N), Expression("Literal", "2", "bigint"))),
        project(call("Cast", call("Add", column(N), column(N)), type_="string")),
        project(call("Murmur3Hash", call("Cast", column(N), type_="int"), type_="int")),
        project(call("Murmur3Hash", call("GreaterThan", column(F), column(F), type_="boolean"), type_="int")),
        project(call("Add", call("Cast", column(F), type_="double"), column(F)).children[0]),
        project(call("Multiply", column(D), column(D), type_="decimal(25,4)")),
        project(call("Sum", column(D), type_="decimal(38,2)")),
        project(call("Coalesce", column(F), column(F), type_="double")),
        project(call("Murmur3Hash", Expression("Literal", "2", "bigint"))),
        *(project(call(kind, column(N))) for kind in ("Nvl2", "ZeroIfNull", "NullIfZero")),
        project(call("Murmur3Hash", call("IsNaN", column(F), type_="boolean"), type_="int")),
        project(call("Murmur3Hash", call("ArrayContains", column(F), column(F), type_="boolean"), type_="int")),
        project(call("Divide", as_decimal(is_explicit=False), THREE, type_="decimal(26,6)")),
        project(call("Divide", column(D), as_decimal(is_explicit=True), type_="decimal(33,23)")),
        union(cast_to("decimal(38,18)", "decimal(38,18)")),
        union(cast_to("decimal(38,18)", "decimal(30,20)", is_explicit=True)),
        union(cast_to("decimal(38,18)", "bigint")),
        union(cast_to("decimal(22,2)", "decimal(10,2)")),
        project(call("CreateNamedStruct", column(N), H)),
        project(call("Coalesce", as_widest(N), H, type_="decimal(38,18)")),
        project(call("CreateMap", H, column(N), type_="map<decimal(38,18),bigint>")),
        project(between(H)),
    ],
)
def test_what_chooses_and_what_computes_exactly_gives_the_same_values(plan: Operator) -> None:
    assert other_values(plan, WIDENED) == {}


@pytest.mark.parametrize(
    ("plan", "text", "name"),
    [
        (project(call("Murmur3Hash", column(N))), "Murmur3Hash(n)", "n"),
        (project(call("Add", column(F), column(F), type_="double")), "Add(f, f)", "f"),
        (project(call("Cast", column(F), type_="string")), "Cast(f)", "f"),
        (project(call("Divide", column(D), column(D), type_="decimal(38,6)")), "Divide(d, d)", "d"),
        (project(call("Divide", column(D), column(D), type_="decimal(27,15)")), "Divide(d, d)", "d"),
        (
            project(call("Divide", THREE, as_decimal(is_explicit=False), type_="decimal(22,21)")),
            "Divide(3, Cast(n))",
            "n",
        ),
        (
            project(call("Divide", as_decimal(is_explicit=False), THREE, type_="decimal(38,18)")),
            "Divide(Cast(n), 3)",
            "n",
        ),
        (project(call("Cast", column(F), type_="decimal(12,2)", is_explicit=True)), "Cast(f)", "f"),
        (project(call("Cast", call("NullIfZero", column(F)), type_="string")), "Cast(NullIfZero(f))", "f"),
        (
            project(
                call("Coalesce", as_widest(N), cast_to("decimal(38,18)", "decimal(38,20)"), type_="decimal(38,18)")
            ),
            "Coalesce(Cast(n), Cast(h))",
            "n",
        ),
        (
            project(between(cast_to("decimal(38,18)", "decimal(38,20)"))),
            "GreaterThanOrEqual(Cast(common), Cast(h))",
            "n",
        ),
        *((union(cast_to("decimal(38,18)", "decimal(30,20)"), kind), f"{kind.upper()} of x", "n") for kind in COMBINE),
        (union(cast_to("array<decimal(38,18)>", "array<decimal(30,20)>")), "UNION of x", "n"),
        (
            Operator("Expand", (X,), (VIEW,), (column(N), cast_to("decimal(38,18)", "decimal(30,20)"))),
            "UNPIVOT",
            "n",
        ),
        (
            project(call("ArrayContains", cast_to("array<decimal(38,18)>", "array<decimal(38,20)>"), as_widest(N))),
            "ArrayContains(Cast(h), Cast(n))",
            "n",
        ),
        (project(call("ShiftLeft", column(X)), project(column(N)), 11), "ShiftLeft(x)", "n"),
        (
            project(
                call("Hex", column(X)), Operator("Union", (X,), (project(column(N)), project(column(N), n=12))), 13
            ),
            "Hex(x)",
            "n",
        ),
        (
            project(call("Hex", column(X)), Operator("Generate", (X,), (VIEW,), (call("Explode", column(N)),)), 13),
            "Hex(x)",
            "n",
        ),
    ],
)
def test_what_depends_on_the_type_gives_other_values(plan: Operator, text: str, name: str) -> None:
    assert other_values(plan, WIDENED) == {text: frozenset({Widening(f"orders.{name}", *TYPES[name])})}
