"""The expiry of a table's snapshots, as values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

LEAST_AGE = timedelta(days=3)
"""Three times the age at which a batch is refused: younger files that no snapshot has may be those of a running batch.
"""

Paths = Callable[[], Collection[str]]
"""Paths below a table's folder, or absolute ones, which are read where they are needed."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """The content of one commit: snapshots to remove, oldest first, tags to set, by name, and tags to drop."""

    snapshots: tuple[int, ...] = ()
    put: Mapping[str, int] = field(default_factory=dict)
    drop: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.snapshots or self.put or self.drop)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The result of deleting the files of expired snapshots. `left` files stay as orphans; `problems` says why."""

    deleted: int = 0
    left: int = 0
    problems: tuple[str, ...] = ()
