"""Whether the rows of a query fit the table of its transformation as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from frazil.materialize.schema.compare import Evolution, compare
from frazil.model.changes import Change
from frazil.model.columns import Column, Decimal, Scalar, lacking
from frazil.model.errors import TransformHaltedError
from frazil.model.snapshot import TableView
from frazil.model.transforms import TransformSpec
from frazil.transforms.queries import Query

WIDE_SUM = Decimal(38, 0)
"""The type of the sum that an average of integers is made of."""


def changes_for(target: TableView, spec: TransformSpec, query: Query) -> Sequence[Change]:
    """Return what the table needs for the columns of the query, such as those that the followed table has got.

    Raises TransformHaltedError if a column has another type, or if the query has lost one: rows from before have values
    where the query would now have none, or other ones.
    """
    wanted = [*_as_kept(query, target)]
    evolution = compare(tuple(wanted), target.columns, {})
    problems = [*_problems(evolution, target, spec, wanted)]
    if problems:
        raise TransformHaltedError(
            f"{target.identifier}: the rows of the transformation {spec.name} do not fit its table any more:"
            f" {'; '.join(problems)}",
            hint=f"run `frazil transform rebuild {spec.name}`, which makes the table again",
        )
    return evolution.changes


def _as_kept(query: Query, target: TableView) -> Iterator[Column]:
    """Yield the columns of the query. Tables that an earlier release made keep the sums of averages in 64 bits."""
    internal = set() if query.keyed is None else {*query.keyed.internal}
    kept = {each.name: each for each in target.columns if each.name in internal and each.type == Scalar("long")}
    for column in query.columns:
        yield kept.get(column.name, column) if column.type == WIDE_SUM else column


def _problems(evolution: Evolution, target: TableView, spec: TransformSpec, wanted: Sequence[Column]) -> Iterator[str]:
    yield from map(str, evolution.findings)
    lost = lacking(target.columns, tuple(wanted))
    if lost:
        yield (
            f"the query does not give {', '.join(lost)} any more, as after a column of"
            f" {' or '.join(spec.tables)} was renamed or dropped"
        )
