"""Groups of new rows, and their merge with the stored rows of the same groups, as DataFrames.

The groups of a batch come from the query's own analyzed aggregate, with the sum and the count in the place of an
average. Stored and new groups are then one input of a second aggregate, in which nulls are keys as others, counts and
sums add up in their own types, and the place of the stored row is the only one that is not null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frazil.adapters.spark.sql.rows import FILE, GONE, POSITION
from frazil.adapters.spark.sql.session import SqlSession, quoted
from frazil.model.queries import ROWS, SUM_OF, Kept, Keyed

NEW = "__new"
"""The column that says of a group that rows of the batch are in it."""


def grouped(session: SqlSession, frame: Any, keyed: Keyed) -> Any:
    """Return the groups of a query: its columns without averages, then the columns that these are made of."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as all Spark code calls it

    jvm = session.spark._jvm
    aggregate, rows = aggregate_of(jvm, frame)
    child = session.frame_of(rows)
    expressions = [aggregate.aggregateExpressions().apply(n) for n in range(len(frame.columns))]
    kept = {each.place: each for each in keyed.kept}
    keys = [column_of(jvm, e).alias(frame.columns[n]) for n, e in enumerate(expressions) if n not in kept]
    values = [column_of(jvm, expressions[n].child()).alias(e.name) for n, e in kept.items() if not e.is_quotient]
    states = [F.count(F.lit(1)).alias(ROWS)] if keyed.is_signed else []
    for each in keyed.kept:
        if each.states:
            inner = column_of(jvm, expressions[each.place].child().aggregateFunction().children().apply(0))
            states += [_state(name, inner, kept=each).alias(name) for name in each.states]
    if not keyed.kept and not states:  # `agg` takes no empty list
        return child.select(*keys).distinct()
    return child.groupBy(*keys).agg(*values, *states)


def _state(name: str, values: Any, *, kept: Kept) -> Any:
    """Return what a group keeps of values. The sum of an average of integers may leave 64 bits, as in Spark's own."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    if not name.endswith(SUM_OF):
        return F.count(values)
    return F.sum(values if kept.type.startswith("decimal") else values.cast("decimal(38,0)"))


def taken_out(groups: Any, keyed: Keyed) -> Any:
    """Return groups that take out of others what these groups would add to them: also -2^63, which 2^63 takes out."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    values = [each for each in groups.schema if each.name not in keyed.keys]
    wide = {each.name: "decimal(20,0)" for each in values if each.dataType.simpleString() == "bigint"}
    columns = {each.name: F.col(quoted(each.name)) for each in values}
    return groups.withColumns({name: -(c.cast(wide[name]) if name in wide else c) for name, c in columns.items()})


def merged(session: SqlSession, new: Any, stored: Any | None, keyed: Keyed, types: dict[str, str]) -> Any:
    """Return the groups that have new rows, with the columns of the table and the place of the stored row, if any.

    `types` are those of the table's columns, in their order.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    nowhere = F.lit(None).cast("long")
    both = new.withColumns({FILE: nowhere, POSITION: nowhere, NEW: F.lit(True)})
    if stored is not None:
        both = both.unionByName(stored.withColumn(NEW, F.lit(False)))
    function = {name: how for each in keyed.kept for name, how in _merges(each)}
    function |= {ROWS: "sum"} if keyed.is_signed else {}
    merges = [getattr(F, how)(quoted(name)).cast(types[name]).alias(name) for name, how in function.items()]
    places = [F.max(name).alias(name) for name in (FILE, POSITION, NEW)]
    groups = both.groupBy(*(F.col(quoted(name)) for name in keyed.keys)).agg(*merges, *places).where(NEW)
    computed = {each.name: _average(session, each, types) for each in keyed.kept if each.is_quotient}
    if keyed.is_signed:
        computed |= {name: _unless_empty(name, count) for each in keyed.kept for name, count in _sums(each)}
    columns = [computed[name].alias(name) if name in computed else F.col(quoted(name)) for name in types]
    gone = [(F.col(ROWS) == 0).alias(GONE)] if keyed.is_signed else []
    return groups.select(*columns, FILE, POSITION, *gone)


def _sums(kept: Kept) -> Sequence[tuple[str, str]]:
    """Return the sums of an aggregate, each with the column that counts what was added."""
    if not kept.states:
        return ()
    return [(kept.states[0] if kept.is_quotient else kept.name, kept.states[-1])]


def _unless_empty(total: str, count: str) -> Any:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    return F.when(F.col(quoted(count)) > 0, F.col(quoted(total)))


def _merges(kept: Kept) -> Sequence[tuple[str, str]]:
    """Return the stored columns of an aggregate, and the function that merges each."""
    match kept.how:
        case "Average":
            return [(name, "sum") for name in kept.states]
        case "Count" | "Sum":
            return [(name, "sum") for name in (kept.name, *kept.states)]
        case "Min" | "Max":
            return [(kept.name, kept.how.lower())]


def _average(session: SqlSession, kept: Kept, types: dict[str, str]) -> Any:
    """Return the quotient as Spark's own `avg` computes it, rounded once."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    jvm, (total, count) = session.spark._jvm, (F.col(quoted(name)) for name in kept.states)
    count = F.when(count != 0, count)
    if not types[kept.name].startswith("decimal"):
        return total.cast("double") / count.cast("double")
    expression = jvm.org.apache.spark.sql.classic.ExpressionUtils.expression
    kind = jvm.org.apache.spark.sql.types.DataType.fromDDL(types[kept.name])
    divide = jvm.org.apache.spark.sql.catalyst.expressions.DecimalDivideWithOverflowCheck
    quotient = divide(expression(total._jc), expression(count.cast("decimal(20,0)")._jc), kind, None, False)
    return F.when(count.isNotNull(), column_of(jvm, quotient))  # it takes a sum without values for one that overflowed


def aggregate_of(jvm: Any, frame: Any) -> tuple[Any, Any]:
    """Return the last aggregate of an analyzed query, and the plan of the rows that it groups."""
    plan, definitions = frame._jdf.queryExecution().analyzed(), None
    if plan.getClass().getSimpleName() == "WithCTE":
        plan, definitions = plan.plan(), plan.cteDefs()
    while plan.getClass().getSimpleName() == "SubqueryAlias":
        plan = plan.child()
    rows = plan.child()
    if definitions is not None:
        rows = jvm.org.apache.spark.sql.catalyst.plans.logical.WithCTE(rows, definitions)
    return plan, rows


def column_of(jvm: Any, expression: Any) -> Any:
    from pyspark.sql.classic.column import Column  # noqa: PLC0415

    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))
