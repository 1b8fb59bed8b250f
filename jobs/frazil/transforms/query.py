"""Which queries can be kept batch by batch: decided from the analyzed plan.

A query over the rows of a batch must give what the query over all rows would add. So the followed table may pass
through operators that look at each row by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from frazil.model.queries import VIEW, Expression, Operator
from frazil.transforms.aggregates import is_recomputed, last_step, problems_of
from frazil.transforms.ranges import passed_through
from frazil.transforms.sources import SourceKind

ROW_BY_ROW = {"Project", "Filter", "SubqueryAlias", "Generate", "UnresolvedHint", "ResolvedHint", "Repartition",
              "RepartitionByExpression", "RebalancePartitions", "LateralJoin", "Expand", "MapInArrow",
              "MapInPandas"}  # fmt: skip
"""Operators that make the rows for one row of their first child from that row, and from what else does not change."""

ONE_ROW_FOR_ONE = {"Project", "Filter", "SubqueryAlias", "UnresolvedHint", "ResolvedHint", VIEW}
"""Operators that make at most one row of a row."""

_REASONS = {
    "Aggregate": "groups rows before its last step: only a GROUP BY that is the last step is kept from batch to batch",
    "Distinct": "drops duplicates, which may be in different batches: write GROUP BY with all columns instead",
    "Deduplicate": "drops duplicates, which may be in different batches: write GROUP BY with all columns instead",
    "Window": "has a window function, which would see the rows of one batch only",
    "Sort": "sorts its rows, and a table has no order: write `sort_by` instead of ORDER BY",
    "GlobalLimit": "has a LIMIT, which would apply to each batch",
    "LocalLimit": "has a LIMIT, which would apply to each batch",
    "Sample": "takes a sample, which would differ from run to run",
}

_FILTERED_GROUPS = (
    "filters groups (HAVING, or WHERE around a GROUP BY): a later batch needs those that are filtered out, too. Write"
    " the GROUP BY without the condition, and a second transformation whose `from` is the table of the first one, with"
    " the condition in WHERE: groups enter and leave its table as they come to meet it and no longer do"
)

COLLATION, MAP = " collate ", "map<"
"""Parts of the names of types."""

_CLOCKS = ("CurrentTimestamp", "CurrentDate", "CurrentTime", "Now", "LocalTimestamp", "CurrentTimeZone",
           "CurrentUser")  # fmt: skip

_OF_THE_QUERY = {"LocalRelation", "OneRowRelation", "Range", "LogicalRDD", "ResolvedInlineTable", "MapInArrow", "Union"}
"""Leaves whose rows are in the query or the function itself, such as those of VALUES or `createDataFrame`."""

_FIRST_ROWS = {"GlobalLimit", "LocalLimit", "Offset"}
_IN_ORDER = {"Project", "Filter", "SubqueryAlias", *_FIRST_ROWS}
"""Operators that leave rows in their order."""

_PRESERVED = {
    "Left": {"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"},
    "Right": {"Inner", "Cross", "RightOuter"},
}
"""The types of a join whose rows each come from one row of the followed side."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a query cannot be kept batch by batch."""

    reason: str


def refusals(plan: Operator, followed: str, kind: SourceKind = SourceKind()) -> list[Refusal]:  # noqa: B008 - frozen
    """Return why the query cannot follow the table; nothing if it can."""
    if not plan.reads(followed):
        return [Refusal(f"does not read {followed}, the table of `from`")]
    last = last_step(plan)
    found: Iterable[str] = _of(plan, followed)
    if last.kind == "Aggregate":
        found = (*problems_of(last), *_of_subqueries(last, followed), *_of(last.children[0], followed))
    return [
        Refusal(reason)
        for reason in dict.fromkeys(
            [*_changing(plan, followed), *_of_collations(plan), *found, *_of_changes(plan, followed, kind)]
        )
    ]


def identity_in(plan: Operator, followed: str, kind: SourceKind) -> tuple[str, ...]:
    """Return the columns of the query that name a row of the followed table; none if it lacks one of them."""
    columns = {source: name for name, source in passed_through(plan, followed).items()}
    known = all(name in columns for name in kind.identity)
    return tuple(columns[name] for name in kind.identity) if known else ()


def _of_changes(plan: Operator, followed: str, kind: SourceKind) -> Iterator[str]:
    """Yield what cannot be computed again for rows of the followed table that change, or for whole groups."""
    is_grouped = last_step(plan).kind == "Aggregate"
    if not kind.changes and not is_recomputed(plan, changes=False):
        return
    if any(each.kind == VIEW and each.name != followed for each in plan.walk()):
        why = "whose rows change" if kind.changes else "and groups are computed again for count(DISTINCT …) or FILTER"
        yield f"joins another table with {followed}, {why}: rows would meet the other table as it was later"
    if any(MAP in type_ for type_ in _types_of_keys(plan, followed, kind)):
        yield "has a map in what names its rows, and Spark finds no rows by a map: write to_json(…) in its place"
    if is_grouped:
        return
    if not kind.identity:
        yield f"has no GROUP BY, and no columns name one row of {followed}, whose rows change"
    elif any(each.kind not in ONE_ROW_FOR_ONE for each in plan.walk()):
        step = next(each.kind for each in plan.walk() if each.kind not in ONE_ROW_FOR_ONE)
        yield f"has the step {step}, which may make several rows of one of {followed}, whose rows change"
    elif not identity_in(plan, followed, kind):
        names = ", ".join(kind.identity)
        yield f"lacks one of the columns {names}, unchanged: they name the rows of {followed} that change"


def _types_of_keys(plan: Operator, followed: str, kind: SourceKind) -> list[str]:
    """Return the types of what stored rows are found by, if a batch computes rows again."""
    last = last_step(plan)
    if last.kind != "Aggregate":
        return [column.type for column in plan.output if column.name in identity_in(plan, followed, kind)]
    again = is_recomputed(plan, changes=kind.changes)
    return [each.type for each in last.expressions[: last.groups]] if again else []


def _of_collations(plan: Operator) -> Iterator[str]:
    """Yield why columns of a query cannot be compared with those that are stored, which have no collation."""
    for column in plan.output:
        if COLLATION in column.type:
            yield (
                f"gives {column.name} a collation ({column.type}), which no column of a table has: write COLLATE"
                " UTF8_BINARY around it, or lower(…) in a GROUP BY"
            )


def _of(plan: Operator, followed: str) -> Iterator[str]:
    """Yield the reasons, for an operator that reads the followed table."""
    yield from _of_subqueries(plan, followed)
    readers = [child for child in plan.children if child.reads(followed)]
    match plan.kind:
        case "View":
            return
        case "Join":
            yield from _of_join(plan, readers, followed)
        case "Union":
            if len(readers) < len(plan.children):
                yield f"adds rows that do not come from {followed}, again with each batch"
        case "Filter" if last_step(plan.children[0]).kind == "Aggregate":
            yield _FILTERED_GROUPS
            readers = [each for each in last_step(plan.children[0]).children if each.reads(followed)]
        case kind if kind in ROW_BY_ROW:
            pass
        case kind:
            yield _REASONS.get(kind, f"has the step {kind}, which cannot be kept batch by batch")
    for child in readers:
        yield from _of(child, followed)


def _of_subqueries(operator: Operator, followed: str) -> Iterator[str]:
    if any(inner.reads(followed) for inner in operator.subqueries):
        yield f"reads {followed} in a subquery, which would see the rows of one batch only"


def _of_join(join: Operator, readers: list[Operator], followed: str) -> Iterator[str]:
    if len(readers) > 1:
        yield f"joins {followed} with itself: rows of different batches would not meet"
        return
    side = "Left" if readers[0] is join.children[0] else "Right"
    if join.join.partition("(")[0] not in _PRESERVED[side] and not join.join.startswith("ExistenceJoin"):
        yield (
            f"has a join of the type {join.join}, which also has a row where {followed} has none: another batch may"
            " bring it"
        )


def _changing(plan: Operator, followed: str) -> Iterator[str]:
    """Yield what would give other values if a row was read again."""
    for operator in plan.walk():
        if not operator.reads(followed):
            yield from _of_others(operator)
        for expression in operator.expressions:
            for each in expression.walk():
                if each.kind in _CLOCKS or each.moment:
                    what = each.moment or each.text
                    yield f"depends on the time or the user ({what[:80]}): a rebuild would give other rows"
                elif _has_random_vector(each):
                    yield (
                        "has aes_encrypt with a random initialization vector: a rebuild would give other rows; write"
                        " one in the query, or the mode ECB"
                    )
                elif not each.deterministic and all(child.deterministic for child in each.children):
                    yield f"is not deterministic ({each.text[:80]}): a rebuild would give other rows"


def _has_random_vector(each: Expression) -> bool:
    """Return whether values are encrypted with a vector of Spark's choice, which it calls deterministic."""
    if each.kind != "AesEncrypt":
        return False
    mode, vector = each.children[2], each.children[4]
    while vector.kind == "Cast":
        vector = vector.children[0]
    return mode.text.upper() != "ECB" and vector.kind == "Literal" and vector.text in ("", "0x", "X''")


def _of_others(operator: Operator) -> Iterator[str]:
    """Yield why an operator that does not read the followed table has other rows at another time."""
    if operator.kind == "Sample":
        yield _REASONS["Sample"]
    elif (
        operator.kind in _FIRST_ROWS and any(each.kind == VIEW for each in operator.walk()) and not _has_order(operator)
    ):
        yield "has a LIMIT or OFFSET without ORDER BY in a subquery: which rows come first differs from run to run"
    elif operator.kind != VIEW and not operator.children and operator.kind not in _OF_THE_QUERY:
        what = operator.name or operator.kind
        yield f"reads {what} itself, and no batch records what it found there: list a table of the catalog in `joins`"


def _has_order(operator: Operator) -> bool:
    """Return whether the rows come in an order, or there is one row only."""
    while operator.kind in _IN_ORDER:
        operator = operator.children[0]
    return operator.kind == "Sort" or (operator.kind == "Aggregate" and not operator.groups)


@dataclass(frozen=True, slots=True)
class Lineage:
    """An output column, and the columns of tables that its values come from, as `table.column`."""

    column: str
    type: str
    sources: tuple[str, ...]


def lineage(plan: Operator) -> tuple[Lineage, ...]:
    """Return where the values of each output column come from. Conditions on rows and joins are no source."""
    known = origins(plan)
    return tuple(Lineage(each.name, each.type, tuple(sorted(known.get(each.id, frozenset())))) for each in plan.output)


def origins(operator: Operator) -> dict[int, frozenset[str]]:
    """Return the source columns, as `table.column`, of every column that is defined at an operator or below."""
    if operator.kind == VIEW:
        return {each.id: frozenset({f"{operator.name}.{each.name}"}) for each in operator.output}
    found: dict[int, frozenset[str]] = {}
    for child in (*operator.children, *operator.subqueries):
        found |= origins(child)
    for expression in operator.expressions:
        for each in expression.walk():
            if each.kind == "Alias" and each.id is not None:
                found[each.id] = sources(each, found)
    if operator.kind in ("Union", "Intersect", "Except"):
        for place, column in enumerate(operator.output):
            ids = (child.output[place].id for child in operator.children)
            found[column.id] = frozenset().union(*(found.get(n, frozenset()) for n in ids))
    for column in operator.output:
        if column.id not in found:
            found[column.id] = frozenset().union(*(sources(expression, found) for expression in operator.expressions))
    return found


def sources(expression: Expression, known: Mapping[int, frozenset[str]]) -> frozenset[str]:
    """Return the source columns of an expression; `known` are those of columns, by their ids."""
    of_columns = [known.get(n, frozenset()) for n in expression.references]
    inner = [each.plan for each in expression.walk() if each.plan is not None]
    of_subqueries = [known.get(each.id, frozenset()) for plan in inner for each in plan.output]
    return frozenset().union(*of_columns, *of_subqueries)
