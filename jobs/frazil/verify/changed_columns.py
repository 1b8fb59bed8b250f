"""Changes by other writers to columns that the proof needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from frazil.adapters.iceberg.former_columns import hidden_columns
from frazil.materialize.dead_letter_checks import TYPE_HINT
from frazil.model.columns import Column, retyped
from frazil.model.snapshot import TableView
from frazil.proof.verification import Discrepancy, FindingKind

RECIPE = "as in docs/operate.md, A column that was made again"


def fate_of(name_now: str | None) -> str:
    """Return what became of a column, in words; None is one that was dropped."""
    return "dropped" if name_now is None else f"renamed to {name_now}"


def columns_made_again(
    view: TableView, snapshot_id: int, names: Sequence[str], effect: str, *, without: Collection[str]
) -> Iterator[Discrepancy]:
    """Yield one finding for all columns whose earlier values are in files under another field id.

    `without` are files that cannot be read.
    """
    found = {name: former for name in names if (former := hidden_columns(view, snapshot_id, name, without=without))}
    if not found:
        return
    fates = [(name, fate_of(next((f.name_now for f in former if f.name_now), None))) for name, former in found.items()]
    if len(fates) == 1:
        changed = f"the column {fates[0][0]} was {fates[0][1]} by another writer and made again"
    else:
        listed = ", ".join(f"{name} ({fate})" for name, fate in fates)
        changed = f"other writers changed these columns and made them again: {listed}"
    what = f"{changed}: {effect}. The files still have the values: restore them {RECIPE}"
    yield Discrepancy(FindingKind.UNPROVABLE, view.identifier, what)


def columns_of_other_types(view: TableView, wanted: Sequence[Column]) -> Iterator[Discrepancy]:
    """Yield a finding for each wanted column that another writer made again with another type."""
    for each in retyped(tuple(wanted), tuple(view.columns)):
        yield Discrepancy(FindingKind.UNPROVABLE, view.identifier, f"{each}: {TYPE_HINT}")
