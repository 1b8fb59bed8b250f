"""A model of a table that follows change events, in plain Python, made from docs/debezium.md and docs/ordered-keys.md.

It knows nothing of files and snapshots: it is given the records that a batch read, and has what each key should have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from seen_snapshots import Place, Seen

from frazil.model.progress import Counts

Order = tuple[int, int, int]
"""What orders a change: a position in the database's log or 0, a partition and an offset."""
TAKEN = ("notes", "tags")
"""The columns of which a change may lack the value."""


@dataclass(frozen=True, slots=True)
class Event:
    """A record: a change of a key, or one of the other records that a connector writes.

    `kind` is an `op`, or tombstone, heartbeat, keeps (an update without `after`), or what makes it a dead letter:
    unknown, no_after, bad_value, or null_key. `lsn` of None is a change without a position.
    """

    kind: str
    key: int = 0
    lsn: int | None = None
    notes: str | None = None
    tags: tuple[str, ...] | None = None
    phone: str | None = None
    lacking: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Row:
    order: Order
    op: str
    notes: str | None = None
    tags: tuple[str, ...] | None = None
    phone: str | None = None
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """What the spec of the table says."""

    by_source: bool = False
    soft: bool = False
    memory: timedelta = timedelta(days=7)


BAD = ("unknown", "no_after", "bad_value", "null_key")
SKIPPED = ("m", "heartbeat")


@dataclass
class Table:
    """The rows by key, the deletes that are remembered with their order and the time of their batch, and the counts."""

    rules: Rules
    rows: dict[int, Row] = field(default_factory=dict)
    deletes: dict[int, tuple[Order, datetime]] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    letters: set[Place] = field(default_factory=set)

    def new(self) -> Table:
        return Table(self.rules)

    def copy(self) -> Table:
        return Table(self.rules, dict(self.rows), dict(self.deletes), self.counts, set(self.letters))

    def waiting(self) -> set[Place]:
        return self.letters

    def renew(self, now: datetime) -> None:
        self.deletes = {key: (order, now) for key, (order, _) in self.deletes.items()}

    def replay(self, seen: Seen) -> list[Place]:
        raise AssertionError("no record of these is worth a replay")

    def apply(self, batch: Mapping[Place, Event], seen: Seen, *, forgets: bool = True) -> None:
        """Take a batch that was planned when it was seen. One of a rebuild forgets no delete because of its age.

        One that is too old is out of memory for good with the next delete: a clock that goes back before finds it.
        """
        now = seen.now
        since = now - self.rules.memory
        known = {k: (o, at) for k, (o, at) in self.deletes.items() if not forgets or at >= since}
        before = {key: self._newest(key, known) for key in {each.key for each in batch.values()}}
        deleted, renewed = dict[int, Order](), dict[int, tuple[Order, datetime]]()
        for order, event in sorted((self._order(place, event), event) for place, event in self._changes(batch)):
            newest = before[event.key]
            if self.rules.by_source and newest is not None and order <= newest:
                self.counts += Counts(read=1, duplicates=1)
                if event.kind == "d" and event.key in known:
                    renewed[event.key] = (known[event.key][0], now)
            else:
                self._change(order, event, deleted)
        if self.rules.by_source and not self.rules.soft:
            gone = {key: (order, now) for key, order in deleted.items() if key not in self.rows}
            self.deletes = known | renewed | gone if renewed or gone else self.deletes

    def _newest(self, key: int, deletes: Mapping[int, tuple[Order, datetime]]) -> Order | None:
        """Return the order of the row of a key, or of its delete."""
        known = [self.rows[key].order] if key in self.rows else []
        known += [deletes[key][0]] if key in deletes else []
        return max(known, default=None)

    def _order(self, place: Place, event: Event) -> Order:
        lsn = -1 if event.lsn is None else event.lsn
        return (lsn if self.rules.by_source else 0, *(place if self.rules.by_source else place[::-1]))

    def _changes(self, batch: Mapping[Place, Event]) -> Iterable[tuple[Place, Event]]:
        """Count what changes no key, and yield the others."""
        for place, event in batch.items():
            without_position = self.rules.by_source and event.lsn is None and event.kind != "r"
            if event.kind in SKIPPED or (event.kind == "tombstone" and (self.rules.by_source or self.rules.soft)):
                self.counts += Counts(read=1, skipped=1)
            elif event.kind in BAD or (without_position and event.kind != "tombstone"):
                self.counts += Counts(read=1, dead_letters=1)
                self.letters.add(place)
            else:
                yield place, event

    def _change(self, order: Order, event: Event, deleted: dict[int, Order]) -> None:
        row = self.rows.get(event.key)
        match event.kind:
            case "t":
                self.rows.clear()
                self.counts += Counts(read=1, deletes=1)
            case "keeps" if row is None:
                self.counts += Counts(read=1, skipped=1)
            case "keeps":
                assert row is not None
                self._becomes(event.key, replace(row, order=order, op="u", deleted=False))
            case "d" if self.rules.soft:
                kept = row or Row(order, "d", notes=event.notes, phone=event.phone)
                self._becomes(event.key, replace(kept, order=order, op="d", deleted=True))
            case "d" | "tombstone":
                self.rows.pop(event.key, None)
                deleted[event.key] = order
                self.counts += Counts(read=1, deletes=1)
            case op:
                own = Row(order, op, event.notes, event.tags, event.phone)
                for name in event.lacking:
                    own = replace(own, **{name: None if row is None else getattr(row, name)})  # type: ignore[arg-type]
                self._becomes(event.key, own)

    def _becomes(self, key: int, row: Row) -> None:
        self.rows[key] = row
        self.counts += Counts(read=1, rows=1)
