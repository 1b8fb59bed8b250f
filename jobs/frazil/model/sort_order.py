"""Iceberg's sort orders in the syntax of `sort_by` (Iceberg specification, "Sort Orders")."""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.model.partitioning import PartitionField, partition_field

UNSORTED_JSON = '{"order-id": 0, "fields": []}'
"""The order of a table without one, as Iceberg's JSON."""

_PARTS = re.compile(r"(.*?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class SortField:
    """A column or a transform of one, its direction and where its nulls go."""

    of: PartitionField
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        """Return the field as `sort_by` writes it, without what is the default."""
        direction = " desc" if self.descending else ""
        nulls = " nulls first" if self.nulls_first else " nulls last"
        return f"{self.of}{direction}{nulls if self.nulls_first is self.descending else ''}"


def sort_field(text: str) -> SortField:
    """Parse one field, such as `day(at) desc nulls last`. Nulls are first by default, and last with desc."""
    of, descending, nulls_first = parts_of(text)
    return SortField(partition_field(of), descending, nulls_first)


def parts_of(text: str) -> tuple[str, bool, bool]:
    """Return what is sorted by, whether it is descending, and whether nulls are first."""
    found = _PARTS.fullmatch(text)
    assert found is not None  # noqa: S101 - the pattern matches every text
    of, direction, nulls = found.groups()
    descending = (direction or "asc").lower() == "desc"
    return of, descending, not descending if nulls is None else nulls.lower() == "first"
