"""Differences between a table spec and the table that was made from it, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from frazil.model.changes import RenameColumn


class Fate(StrEnum):
    """What becomes of a changed key of a spec. `explain` shows it, `materialize` carries it out."""

    APPLIED = "applied"
    REFUSED = "refused"
    REBUILD = "needs a rebuild"


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One key whose value in the spec is not the table's. `how` says what is done, or what to do instead.

    `renames`, `partition_by` and `properties` are what the table needs where the change is applied.
    """

    key: str
    table_has: str
    spec_says: str
    fate: Fate
    how: str
    renames: tuple[RenameColumn, ...] = ()
    partition_by: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.key}: {self.table_has} -> {self.spec_says}: {self.fate}: {self.how}"
