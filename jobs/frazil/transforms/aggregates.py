"""Aggregates by key that are kept from batch to batch: which there are, and what the table keeps for each.

A batch groups its own rows, and each group is merged with the stored row of its key. So an aggregate must follow from
itself over the stored rows and over the new ones: counts and sums add up, and an average is made of two of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from frazil.model.queries import Expression, How, Kept, Keyed, Operator

KEPT: tuple[str, ...] = ("Count", "Sum", "Average", "Min", "Max")
SIGNED = ("Count", "Sum", "Average")
"""Those out of which rows can be taken by what they added."""
OF_FLOATS = ("float", "double")


def last_step(plan: Operator) -> Operator:
    """Return the last operator that does something."""
    while plan.kind == "SubqueryAlias":
        plan = plan.children[0]
    return plan


def is_recomputed(plan: Operator, *, changes: bool) -> bool:
    """Return whether groups must be computed again from all their rows: an aggregate does not follow from itself.

    With `changes`, rows are also taken out of the groups.
    """
    last = last_step(plan)
    if last.kind != "Aggregate":
        return False
    found = [e for each in last.expressions[last.groups :] if (e := _bare(each)).kind == "AggregateExpression"]
    return any(each.distinct or (changes and each.children[0].kind not in SIGNED) for each in found)


def keyed_of(plan: Operator, *, changes: bool = False) -> Keyed | None:
    """Return the aggregates of a query that was checked; None if it has none."""
    last = last_step(plan)
    if last.kind != "Aggregate":
        return None
    again = is_recomputed(plan, changes=changes)
    signed = changes and not again
    groups = _grouped(last)
    keys, kept = [], []
    for place, (column, expression) in enumerate(zip(last.output, last.expressions[last.groups :], strict=True)):
        if _same(_bare(expression)) in groups:
            keys.append(column.name)
        else:
            function = _bare(expression).children[0]
            kept.append(Kept(place, column.name, cast("How", function.kind), column.type, again, signed))
    return Keyed(tuple(keys), tuple(kept), again, signed)


def problems_of(aggregate: Operator) -> Iterator[str]:
    """Yield why the aggregates of the last step cannot be kept."""
    if not aggregate.groups:
        yield "aggregates all rows into one: add a GROUP BY"
    groups, seen = _grouped(aggregate), set()
    for column, expression in zip(aggregate.output, aggregate.expressions[aggregate.groups :], strict=True):
        bare = _bare(expression)
        if _same(bare) in groups:
            seen.add(_same(bare))
        elif bare.kind != "AggregateExpression":
            yield (
                f"computes {column.name} from an aggregate: each column must be one that it groups by, or one of count,"
                " sum, avg, min and max alone; cast inside, as in sum(CAST(x AS decimal(18, 2)))"
            )
        else:
            yield from _problems_of_one(column.name, bare)
    for missing in sorted(groups[each] for each in groups.keys() - seen):
        yield f"groups by {missing}, which is not among its columns: without it, the group of a row is not known"


def _problems_of_one(name: str, expression: Expression) -> Iterator[str]:
    function = expression.children[0]
    if function.kind not in KEPT or function.text.startswith("try_"):
        yield f"has the aggregate {function.text} in {name}: only count, sum, avg, min and max are kept"
    elif function.kind in ("Sum", "Average") and any(each.type in OF_FLOATS for each in _inputs(function)):
        yield (
            f"adds numbers of the type {function.children[0].type} in {name}: their sum depends on the order of the"
            " rows; cast them, as in sum(CAST(x AS decimal(18, 4)))"
        )


def _inputs(function: Expression) -> tuple[Expression, ...]:
    return function.children[:1]


def _grouped(aggregate: Operator) -> dict[str, str]:
    """Return the texts of what it groups by, by what is the same for all ways to write it."""
    return {_same(each): each.text for each in aggregate.expressions[: aggregate.groups]}


def _same(expression: Expression) -> str:
    return expression.canonical or expression.text


def _bare(expression: Expression) -> Expression:
    return expression.children[0] if expression.kind == "Alias" else expression
