"""The plans of Spark's analyzer as values (`model/queries.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from frazil.model.queries import VIEW, Attribute, Expression, Operator

_WITH_IDS = {"AttributeReference", "Alias"}
_COMMON = {"CommonExpressionDef", "CommonExpressionRef"}
"""What is computed once and meant several times, as the first operand of BETWEEN."""
_AGGREGATE = "AggregateExpression"
_WITHOUT_TYPES = {"WindowExpression", "WindowSpecDefinition", "SpecifiedWindowFrame", "UnspecifiedFrame", "SortOrder",
                  "CurrentRow", "UnboundedPreceding", "UnboundedFollowing"}  # fmt: skip
"""Expressions about a window or an order have no type, or fail if they are asked."""

_OF_TIMES = {"date", "timestamp", "timestamp_ntz"}
_TO_TIMES = {"Cast", "ParseToTimestamp", "ParseToDate"}
_NOW = re.compile(r"\s*(now|today|yesterday|tomorrow)(\s.*)?", re.IGNORECASE | re.DOTALL)
"""Texts that are times relative to the analysis, with a zone perhaps."""
_NOW_LITERAL = re.compile(
    r"""\b(date|timestamp(_ntz|_ltz)?)\s*(['"])\s*(now|today|yesterday|tomorrow)\b[^'"]*\3""", re.IGNORECASE
)


def analyzed(frame: Any) -> Operator:
    """Return the plan of a DataFrame, with common table expressions in the places that use them."""
    casts = frame.sparkSession._jvm.org.apache.spark.sql.catalyst.expressions.Cast
    return _Reading(casts.USER_SPECIFIED_CAST()).operator(frame._jdf.queryExecution().analyzed())


def optimized_text(frame: Any) -> str:
    """Return the optimized plan as Spark prints it, without the ids of columns."""
    return re.sub(r"#\d+L?", "", str(frame._jdf.queryExecution().optimizedPlan().toString())).rstrip()


def columns_read(frame: Any) -> dict[str, frozenset[str]]:
    """Return the columns of each view that a query needs, after Spark has optimized it."""
    optimized = frame._jdf.queryExecution().optimizedPlan()
    named = _Reading()
    views = [each for each in named.operator(frame._jdf.queryExecution().analyzed()).walk() if each.kind == VIEW]
    needed = {attribute.id for attribute in named.attributes(optimized)}
    plan = named.operator(optimized)
    for each in plan.walk():
        needed |= {n for expression in each.expressions for n in expression.references}
        if each.kind == "Union":  # its columns have the ids of its first child's
            needed |= {column.id for child in each.children for column in child.output}
    found: dict[str, frozenset[str]] = {}
    for view in views:
        names = {attribute.name for attribute in view.output if attribute.id in needed}
        found[view.name] = found.get(view.name, frozenset()) | names
    return found


@dataclass(slots=True)
class _Reading:
    _mark_of_casts: Any = None
    """Spark's mark of a cast that the query has itself; if it is None, no cast is looked at for one."""
    _definitions: dict[int, Operator] = field(default_factory=dict)
    """Common table expressions, by Catalyst's id."""

    def operator(self, node: Any) -> Operator:
        kind = kind_of(node)
        if kind == "WithCTE":
            for definition in each_of(node.cteDefs()):
                self._definitions[int(definition.id())] = self.operator(definition.child())
            return self.operator(node.plan())
        output = tuple(self.attributes(node))
        if kind == "CTERelationRef":
            return Operator("Union", output, (self._definitions[int(node.cteId())],))
        if kind == VIEW:
            return Operator(VIEW, output, name=str(node.desc().identifier().table()))
        if kind == "LocalRelation":  # of VALUES, for instance, whose expressions the analyzer has replaced by rows
            found = _NOW_LITERAL.search(_written(node))
            texts = () if found is None else (Expression("Literal", found[0], moment=found[0]),)
            return Operator(kind, output, expressions=texts)
        if kind == "MapInArrow" and kind_of(node.child()) == "Range":
            return Operator(kind, output)  # reads the files of a table
        return Operator(
            kind,
            output,
            tuple(self.operator(child) for child in each_of(node.children())),
            tuple(self.expression(each) for each in each_of(node.expressions())),
            name="" if node.children().size() else _written(node),
            join=str(node.joinType().toString()) if kind == "Join" else "",
            groups=int(node.groupingExpressions().size()) if kind == "Aggregate" else 0,
        )

    def attributes(self, node: Any) -> Iterator[Attribute]:
        for each in each_of(node.output()):
            yield Attribute(int(each.exprId().id()), str(each.name()), str(each.dataType().simpleString()))

    def expression(self, node: Any) -> Expression:
        kind = kind_of(node)
        children = tuple(self.expression(child) for child in each_of(node.children()))
        plan = self.operator(node.plan()) if hasattr(node, "plan") and _has_plan(kind) else None
        is_limited = kind == _AGGREGATE and (bool(node.isDistinct()) or bool(node.filter().isDefined()))
        return Expression(
            kind,
            str(node.toString()),
            "" if kind in _WITHOUT_TYPES else str(node.dataType().simpleString()),
            _id_of(node, kind),
            children,
            plan,
            bool(node.deterministic()),
            is_limited,
            _moment(node, kind),
            str(node.canonicalized().toString()),
            kind == "Cast" and self._mark_of_casts is not None and self._is_explicit(node),
        )

    def _is_explicit(self, cast: Any) -> bool:
        """Return whether a cast is in the query itself, as a function too: Spark marks no `decimal(x)`."""
        return bool(cast.getTagValue(self._mark_of_casts).isDefined()) or (
            _is_call(_written(cast), str(cast.dataType().simpleString()).partition("(")[0])
        )


def _id_of(node: Any, kind: str) -> int | None:
    if kind in _COMMON:
        return int(node.id().id())
    return int(node.exprId().id()) if kind in _WITH_IDS else None


def _is_call(text: str, name: str) -> bool:
    """Return whether SQL is one call of a function with this name; False if parentheses in it may be text."""
    if not re.match(rf"{name}\s*\(", text, re.IGNORECASE) or not text.endswith(")") or re.search("[\"'`]", text):
        return False
    depths = list(accumulate({"(": 1, ")": -1}.get(letter, 0) for letter in text))
    return depths.index(0, text.index("(")) == len(text) - 1


def _moment(node: Any, kind: str) -> str:
    """Return the words of an expression that name the time of the analysis; none if it names no such time.

    The parser makes a value of a typed literal, so only the text that was parsed has its words. The optimizer makes one
    of a cast.
    """
    if kind not in {"Literal", *_TO_TIMES} or str(node.dataType().simpleString()) not in _OF_TIMES:
        return ""
    if kind == "Literal":
        found = _NOW_LITERAL.fullmatch(_written(node))
        return "" if found is None else found[0]
    (text, *formats) = each_of(node.children())
    if formats or not text.foldable() or not str(text.dataType().simpleString()).startswith("string"):
        return ""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415 - comes with PySpark
    from pyspark.errors import PySparkException  # noqa: PLC0415 - a second to import

    try:
        value = str(text.eval(None))
    except (Py4JJavaError, PySparkException):  # it fails, or it only has a value after the optimizer
        return ""
    return str(node.toString()) if _NOW.fullmatch(value) else ""


def _written(node: Any) -> str:
    """Return the part of the SQL that a node was parsed from."""
    origin = node.origin()
    if not (origin.sqlText().isDefined() and origin.startIndex().isDefined() and origin.stopIndex().isDefined()):
        return ""
    return str(origin.sqlText().get())[int(origin.startIndex().get()) : int(origin.stopIndex().get()) + 1]


def _has_plan(kind: str) -> bool:
    return kind in {"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"}


def kind_of(node: Any) -> str:
    """Return the name of the class of an operator or an expression."""
    return str(node.getClass().getSimpleName()).rstrip("$")


def each_of(found: Any) -> Iterator[Any]:
    """Yield the items of a sequence of Scala."""
    for index in range(int(found.size())):
        yield found.apply(index)
