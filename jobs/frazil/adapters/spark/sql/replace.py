"""Rows that are computed again because rows of the followed table changed, as DataFrames.

The keys of the changed rows are compared with those of all rows of the followed table, and of the stored rows. Null is
a key as others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from frazil.adapters.spark.sql.merge import aggregate_of, column_of
from frazil.adapters.spark.sql.rows import FILE, POSITION
from frazil.adapters.spark.sql.session import SqlSession, quoted
from frazil.model.queries import Keyed

KEY = "__key"
"""The beginning of the names of columns with the keys of changed rows; then follows a number."""


def keys_of_groups(session: SqlSession, frames: Sequence[Any], keyed: Keyed) -> Any:
    """Return the keys of the groups that have a row of one of these queries, each once."""
    found = []
    for frame in frames:
        rows, keys, _ = _parts(session, frame, keyed)
        found.append(rows.select(*(key.alias(f"{KEY}{n}") for n, key in enumerate(keys))))
    return reduce(lambda one, other: one.unionByName(other), found).distinct()


def keys_of_rows(frames: Sequence[Any], columns: Sequence[str]) -> Any:
    """Return the values of columns that name a row, of all rows of these DataFrames."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a second to import

    keys = [F.col(quoted(name)).alias(f"{KEY}{n}") for n, name in enumerate(columns)]
    return reduce(lambda one, other: one.unionByName(other), (each.select(*keys) for each in frames)).distinct()


def groups_with(session: SqlSession, frame: Any, keyed: Keyed, touched: Any) -> Any:
    """Return the rows of a query with groups that have one of the keys, computed from all of their rows."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    rows, keys, values = _parts(session, frame, keyed)
    names = [*keyed.keys, *(each.name for each in keyed.kept)]
    columns = [column.alias(name) for column, name in zip((*keys, *values), names, strict=True)]
    here = rows.join(touched, _same(keys, touched), "left_semi")
    groups = here.groupBy(*columns[: len(keys)]).agg(*columns[len(keys) :])
    return groups.select(*(F.col(quoted(name)) for name in frame.columns))


def places_of(stored: Any, keys: Sequence[str], touched: Any) -> Any:
    """Return the places of the stored rows that have one of the keys."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    columns = [F.col(quoted(name)) for name in keys]
    return stored.join(touched, _same(columns, touched), "left_semi").select(FILE, POSITION)


def rows_and_places(rows: Any, places: Any | None) -> Any:
    """Return rows to write, and the places of those that go: each row of the result has only one of both."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    nowhere = F.lit(None).cast("long")
    found = rows.withColumns({FILE: nowhere, POSITION: nowhere})
    return found if places is None else found.unionByName(places, allowMissingColumns=True)


def _same(keys: Sequence[Any], touched: Any) -> Any:
    return reduce(lambda one, other: one & other, (k.eqNullSafe(touched[f"{KEY}{n}"]) for n, k in enumerate(keys)))


def _parts(session: SqlSession, frame: Any, keyed: Keyed) -> tuple[Any, list[Any], list[Any]]:
    """Return the rows that the last step of a query groups, its keys, and its aggregates."""
    jvm = session.spark._jvm
    aggregate, plan = aggregate_of(jvm, frame)
    rows = session.frame_of(plan)
    expressions = [aggregate.aggregateExpressions().apply(n) for n in range(len(frame.columns))]
    values = {each.place for each in keyed.kept}
    bare = [each.child() if each.getClass().getSimpleName() == "Alias" else each for each in expressions]
    keys = [column_of(jvm, each) for n, each in enumerate(bare) if n not in values]
    return rows, keys, [column_of(jvm, bare[each.place]) for each in keyed.kept]
