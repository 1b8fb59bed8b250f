"""What becomes of declared fields of JSON values that the spec changes.

Each row must be what its record would become now: `verify` decodes records again. So a column may be replaced while it
is null in every row, and one may be added while no row has undeclared fields, where its values would be.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from frazil.formats.mapped import VALUE
from frazil.model.changes import DropColumn
from frazil.model.declared import EXTRA
from frazil.model.partitioning import partition_field
from frazil.model.snapshot import TableView
from frazil.model.sort_order import sort_field


@dataclass(frozen=True, slots=True)
class ChangedFields:
    """The columns to drop, so that the table then lacks what the spec declares; or the problems that prevent it."""

    drops: tuple[DropColumn, ...]
    problems: tuple[str, ...]


def changed_fields(before: str, now: str, view: TableView) -> ChangedFields | None:
    """Compare the fields that a table has with those of its spec, both as stored; None if they are the same.

    Raises CatalogError where the statistics of the table's files cannot be read.
    """
    had, has = _columns(before), _columns(now)
    if had == has:
        return None
    replaced = [name for name, declared in had.items() if has.get(name) != declared]
    present = {column.name for column in view.columns}
    drops = tuple(DropColumn(name) for name in replaced if name in present)
    sources = {partition_field(text).column for text in view.partition_fields}
    problems = [f"the table is partitioned by {name}" for name in replaced if name in sources]
    sort_sources = {sort_field(text).of.column for text in view.sort_fields}
    problems += [f"the table is sorted by {name}" for name in replaced if name in sort_sources]
    if not problems and view.may_have_rows:
        problems = list(_conflicts(had, has, view))
    return ChangedFields(drops, tuple(problems))


def _columns(fields: str) -> Mapping[str, object]:
    """Return the declarations by column; values without fields have one column."""
    declared: Mapping[str, object] = json.loads(fields) if fields else {}
    return {**declared, EXTRA: "json"} if declared else {VALUE: "json"}


def _conflicts(had: Mapping[str, object], has: Mapping[str, object], view: TableView) -> Iterator[str]:
    head = view.head_snapshot()
    filled = frozenset[str]() if head is None else head.filled_columns()
    for name in (name for name, declared in had.items() if has.get(name) != declared):
        if name not in has:
            yield f"existing rows were read with {name} as a column of its own"
        elif name in filled:
            yield f"existing rows have values of the field {name}"
        elif not isinstance(had[name], str):
            yield f"the field {name} has fields or elements of its own, which may be empty in existing rows"
    added = [name for name in has if name not in had]
    kept = EXTRA in had and any(column.name == EXTRA for column in view.columns)
    if added and (EXTRA in filled or not kept):
        yield f"existing rows may have {', '.join(added)} among their undeclared fields"
