"""What another writer did to a column that the proof needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from frazil.adapters.iceberg_scan import former_columns
from frazil.model.snapshot import TableView
from frazil.verify.verification import Discrepancy, FindingKind


def fate_of(name_now: str | None) -> str:
    """Return what became of a column, in words; None is one that was dropped."""
    return "dropped" if name_now is None else f"renamed to {name_now}"


def columns_made_again(view: TableView, names: Sequence[str], effect: str) -> Iterator[Discrepancy]:
    """Yield a finding for each column whose earlier values are in a column of another name, or nowhere."""
    for name in names:
        for now in former_columns(view, name):
            what = f"the column {name} was {fate_of(now)} by another writer and made again: {effect}"
            yield Discrepancy(FindingKind.UNPROVABLE, view.identifier, what)
