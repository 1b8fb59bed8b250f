"""Differences between a table spec and the table that was created from it, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from frazil.model.changes import DropColumn, RenameColumn


class Fate(StrEnum):
    """What happens to a changed key of a spec. `explain` shows it, and `materialize` does it."""

    APPLIED = "applied"
    REFUSED = "refused"
    REBUILD = "needs a rebuild"


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One key whose value in the spec differs from the table's. `how` says what is done, or what to do instead.

    If the change is applied, `columns`, `partition_by`, `sort_by` and `properties` are the changes to the table.
    `given_in` is what to restore if the change is refused; empty for the key in the table's spec.
    """

    key: str
    table_has: str
    spec_says: str
    fate: Fate
    how: str
    columns: tuple[RenameColumn | DropColumn, ...] = ()
    partition_by: tuple[str, ...] | None = None
    sort_by: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    given_in: str = ""

    @property
    def lays_out(self) -> bool:
        """Return whether the table gets another partitioning or sort order."""
        return self.partition_by is not None or self.sort_by is not None

    def __str__(self) -> str:
        return f"{self.key}: {self.table_has} -> {self.spec_says}: {self.fate}: {self.how}"
