"""What a change of `partition_by`, `sort_by` or `maintain.z_order` means for a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from frazil.materialize.changed_spec.applied_spec import layout_fields, layout_text
from frazil.materialize.changed_spec.judged import NEXT_BATCH, Judged
from frazil.materialize.layout import Z_ORDER, partition_problems, sort_problems, z_order_problems
from frazil.model.columns import Decimal
from frazil.model.errors import SpecError
from frazil.model.partitioning import PartitionField, partition_field, split_fields
from frazil.model.sort_order import sort_field
from frazil.model.spec_change import Fate, SpecChange

LAYOUT = ("partition_by", "sort_by")
"""Keys that a table follows last, once it has all columns."""
REPARTITIONED = f"{NEXT_BATCH}; existing files keep their partitioning, and queries still read all rows"
REWRITTEN = "for files that are written again from now on"
REORDERED = f"{NEXT_BATCH}; existing files keep the order of their rows"


def partition_by_rule(judged: Judged) -> Iterator[SpecChange]:
    there = with_new_names("partition_by", judged.view.partition_fields, judged.renamed)
    wanted = judged.spec.partition_by
    if sorted(there) != sorted(wanted):
        change = judged.layout_change("partition_by", there, wanted, REPARTITIONED)
        problems = partition_problems(judged.spec, judged.columns + judged.arriving) or _unplaced(judged, there)
        yield _kept_or_refused(judged, replace(change, partition_by=wanted), problems, what="partitioning")


def _unplaced(judged: Judged, there: Sequence[str]) -> tuple[SpecError, ...]:
    """Return the error that rows may have no partition, which new records must have (`ingest/partition_bounds.py`)."""
    decimals = {each.name for each in judged.columns if isinstance(each.type, Decimal)}
    added = (partition_field(text) for text in judged.spec.partition_by if text not in there)
    named = [str(each) for each in added if each.transform == "truncate" and each.column in decimals]
    if not named or not judged.view.may_have_rows:
        return ()
    what = f"the table may have numbers that {' and '.join(named)} takes below the least one of their type"
    return (SpecError(f"{judged.spec.identifier}: partition_by: {what}", hint=""),)


def sort_by_rule(judged: Judged) -> Iterator[SpecChange]:
    there = with_new_names("sort_by", judged.view.sort_fields, judged.renamed)
    wanted = judged.spec.sort_by
    if there != wanted:
        change = judged.layout_change("sort_by", there, wanted, REORDERED)
        problems = sort_problems(judged.spec, judged.columns + judged.arriving)
        yield _kept_or_refused(judged, replace(change, sort_by=wanted), problems, what="sort order")


def z_order_rule(judged: Judged) -> Iterator[SpecChange]:
    """Yield a change of the columns whose values are near each other in files that are written again."""
    before = [judged.renamed.get(name, name) for name in layout_fields(judged.applied.keys[Z_ORDER])]
    wanted = judged.spec.maintain.z_order
    if tuple(before) != wanted:
        problems = z_order_problems(judged.spec, judged.columns + judged.arriving)
        fate, how = (Fate.REFUSED, _why(problems, Z_ORDER)) if problems else (Fate.APPLIED, REWRITTEN)
        yield judged.change(Z_ORDER, fate, how)


def _kept_or_refused(judged: Judged, change: SpecChange, problems: Sequence[SpecError], *, what: str) -> SpecChange:
    """Return the change of a layout, unless it is another writer's and not the spec's, or the table cannot follow."""
    before = with_new_names(change.key, split_fields(judged.applied.keys[change.key]), judged.renamed)
    if layout_text(before) == change.spec_says:
        how = f"another writer changed the table's {what}, which is kept"
        return replace(change, fate=Fate.REBUILD, how=how, partition_by=None, sort_by=None)
    if problems:
        how = _why(problems, change.key)
        return replace(change, fate=Fate.REFUSED, how=how, partition_by=None, sort_by=None)
    return change


def _why(problems: Sequence[SpecError], key: str) -> str:
    return "; ".join(problem.what.partition(f": {key}: ")[2] for problem in problems)


def with_new_names(key: str, fields: Sequence[str], renamed: Mapping[str, str]) -> tuple[str, ...]:
    """Return fields of a layout key, with the new names of columns."""
    if key == "partition_by":
        return tuple(str(_renamed(partition_field(text), renamed)) for text in fields)
    found = (sort_field(text) for text in fields)
    return tuple(str(replace(field, of=_renamed(field.of, renamed))) for field in found)


def _renamed(field: PartitionField, renamed: Mapping[str, str]) -> PartitionField:
    return replace(field, column=renamed.get(field.column, field.column))
