"""The snapshots of a table that a test has seen, also those that have expired since, and what its model had there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from typing import Any, Protocol, Self

from frazil.model.progress import BatchRef, Counts
from frazil.model.snapshot import Snapshot
from frazil.model.summary import carries_state, state_in

Place = tuple[int, int]
"""A partition and an offset."""


class Model(Protocol):
    """What a table should have. It knows nothing of files and snapshots."""

    counts: Counts

    def copy(self) -> Self: ...

    def new(self) -> Self:
        """Return the model of an empty table by the same rules."""
        ...

    def apply(self, batch: Mapping[Place, Any], seen: Seen, *, forgets: bool) -> None: ...

    def renew(self, now: datetime) -> None:
        """Let all deletes that are remembered count as read by a rewind that ended at this time."""
        ...

    def replay(self, seen: Seen) -> list[Place]:
        """Take the dead letters that a replay takes, and return them."""
        ...

    def waiting(self) -> set[Place]:
        """Return the records that are dead letters."""
        ...


@dataclass(frozen=True)
class Stood:
    """The model at a head of the table: the rows, the next offset of each partition, and the rows of others.

    A rollback across a rebuild, to a snapshot of another `generation`, is refused.
    """

    table: Any
    next: dict[int, int]
    inserted: int
    generation: int
    replays: frozenset[BatchRef] = frozenset()


@dataclass(frozen=True)
class Seen:
    """A snapshot. `ends` are the next offsets if it carries a state.

    `now` is the time when it was made, and `registered` how many schemas that came late were known by then. `replay` is
    the last batch of the state if that replayed dead letters.
    """

    id: int
    parent_id: int | None
    now: datetime
    registered: int = 0
    ends: dict[int, int] | None = None
    generation: int = 0
    replay: BatchRef | None = None

    @classmethod
    def of(cls, snapshot: Snapshot, now: datetime, registered: int) -> Seen:
        if not carries_state(snapshot):
            return cls(snapshot.id, snapshot.parent_id, now)
        state = state_in(snapshot)
        ends = {number: each.next for number, each in state.sources[0].partitions.items()}
        replay = None if state.replayed_since is None else state.itself
        return cls(snapshot.id, snapshot.parent_id, now, registered, ends, state.generation, replay)


@dataclass
class SeenSnapshots:
    """All that were seen, and what the model had at some of them."""

    stood: dict[int, Stood] = field(default_factory=dict)
    by_id: dict[int, Seen] = field(default_factory=dict)

    def chain(self, head: int | None) -> Iterator[Seen]:
        """Yield the ancestry of a snapshot, newest first."""
        while head is not None:
            yield self.by_id[head]
            head = self.by_id[head].parent_id

    def since_known(self, chain: list[Seen]) -> tuple[int | None, list[Seen]]:
        """Return the newest snapshot of which the model is known, and those after it."""
        base = next((each.id for each in chain if each.id in self.stood), None)
        return base, [*takewhile(lambda each: each.id != base, chain)]
