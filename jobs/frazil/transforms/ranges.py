"""Which stored groups a batch may touch: decided from statistics, so that files of others are not read.

A key that is a column of the followed table unchanged has values of the files that the batch reads. Their bounds are in
their manifests. Stored files whose bounds are apart from these have no group of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.model.columns import Scalar
from frazil.model.ingested import WrittenFile
from frazil.model.queries import VIEW, Operator
from frazil.model.snapshot import TableView
from frazil.transforms.aggregates import last_step
from frazil.transforms.tables import TableRows

Range = tuple[int, int]

_BYTES = {"int": 4, "long": 8, "date": 4, "timestamp": 8, "timestamptz": 8}
"""The length of the bounds of a type. A column that was widened has files with shorter ones, which are left alone."""


def key_ranges(plan: Operator, rows: TableRows, target: TableView) -> Mapping[str, Range]:
    """Return the least and the greatest value of keys in the rows of a batch, by the column of the target.

    A key has none if it is computed, if its column has another type in the target, or if a file lacks bounds.
    """
    if not rows.written:
        return {}
    types = {column.name: column.type for column in rows.view.columns}
    stored = {column.name: column.type for column in target.columns}
    found: dict[str, Range] = {}
    for name, source in unchanged_columns(plan, rows.name).items():
        kind = types.get(source)
        if isinstance(kind, Scalar) and stored.get(name) == kind:
            bounds = _bounds(rows, source, kind)
            found |= {} if bounds is None else {name: bounds}
    return found


def unchanged_columns(plan: Operator, followed: str) -> Mapping[str, str]:
    """Return the columns that a query groups by and that are columns of the followed table, by their name."""
    last = last_step(plan)
    grouped = {n for expression in last.expressions[: last.groups] for n in expression.references}
    same = _same(plan)
    keys = {column.name for column in last.output if column.id in grouped or same.get(column.id) in grouped}
    return {name: source for name, source in passed_through(plan, followed).items() if name in keys}


def passed_through(plan: Operator, followed: str) -> Mapping[str, str]:
    """Return the columns of a query that are columns of the followed table, by their name.

    A column of a union is none: it has the id of its first child's, and values of all.
    """
    views = [each for each in plan.walk() if each.kind == VIEW and each.name == followed]
    ids = {column.id: column.name for view in views for column in view.output}
    same = _same(plan)
    unions = (each for each in plan.walk() if each.kind == "Union")
    of_several = {column.id for each in unions if len(each.children) > 1 for column in each.output}
    found = {}
    for column in last_step(plan).output:
        n = column.id
        while n in same and n not in of_several:
            n = same[n]
        if n in ids and n not in of_several:
            found[column.name] = ids[n]
    return found


def _same(plan: Operator) -> Mapping[int, int]:
    """Return the columns that are another one under another name, by their ids."""
    same: dict[int, int] = {}
    for operator in plan.walk():
        for expression in operator.expressions:
            if expression.kind == "Alias" and expression.children[0].kind == "AttributeReference":
                inner = expression.children[0].id
                if expression.id is not None and inner is not None:
                    same[expression.id] = inner
    return same


def _bounds(rows: TableRows, column: str, kind: Scalar) -> Range | None:
    """Return the bounds over all files; None if one of them has none of the right length."""
    field_id = rows.view.current.schema().find_field(column).field_id
    lower = _of_files(rows.written, "lower_bounds", field_id, kind)
    upper = _of_files(rows.written, "upper_bounds", field_id, kind)
    return None if lower is None or upper is None else (min(lower), max(upper))


def _of_files(files: Sequence[WrittenFile], side: str, field_id: int, kind: Scalar) -> list[int] | None:
    """Return the bounds, which are whole numbers (Iceberg specification, "Binary single-value serialization")."""
    length, found = _BYTES.get(kind.name), []
    for file in files:
        value: bytes | None = getattr(file, side).get(field_id)
        if value is None or len(value) != length:
            return None
        found.append(int.from_bytes(value, "little", signed=True))
    return found
