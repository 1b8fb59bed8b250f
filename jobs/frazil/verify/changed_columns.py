"""What another writer did to a column that the proof needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from frazil.adapters.iceberg_former import hidden_columns
from frazil.model.snapshot import TableView
from frazil.proof.verification import Discrepancy, FindingKind


def fate_of(name_now: str | None) -> str:
    """Return what became of a column, in words; None is one that was dropped."""
    return "dropped" if name_now is None else f"renamed to {name_now}"


def columns_made_again(
    view: TableView, snapshot_id: int, names: Sequence[str], effect: str, *, without: Collection[str]
) -> Iterator[Discrepancy]:
    """Yield a finding for each column whose earlier values are in files under another field id.

    `without` are files that cannot be read.
    """
    for name in names:
        for former in hidden_columns(view, snapshot_id, name, without=without):
            what = (
                f"the column {name} was {fate_of(former.name_now)} by another writer and made again: {effect}. The"
                f" files still have the values, as the column {name} of schema {former.schema_id}: copy them as in"
                " docs/operate.md, A column that was made again"
            )
            yield Discrepancy(FindingKind.UNPROVABLE, view.identifier, what)
