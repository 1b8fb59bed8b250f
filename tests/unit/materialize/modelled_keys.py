"""A model of tables that are not made of change events, in plain Python, made from docs/keyed-tables.md and its kin.

It knows nothing of files and snapshots: it is given the records that a batch read, and has what each key should have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from seen_snapshots import Place, Seen

from frazil.model.progress import Counts

Order = tuple[int, int, int]
"""A timestamp in milliseconds, or 0 where offsets order; then a partition and an offset."""
Fields = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """A record. `fields` of None is a null; `late` is the number of its schema if the registry gets that later."""

    key: str | None
    fields: Fields | None
    stamp: int
    late: int | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What the spec of the table says."""

    write: str
    by_time: bool = False
    """Whether `order_by` is `kafka_timestamp`."""

    @property
    def compares_times(self) -> bool:
        return self.by_time or self.write == "deduplicate"


@dataclass(frozen=True, slots=True)
class Row:
    """A row: a record and where it was. Those of a history have the milliseconds from and until which it is valid."""

    place: Place
    sent: Sent
    valid: tuple[int, int | None] | None = None


@dataclass
class KeyedTable:
    """The rows by key, or by place in an append table; those of a history follow from the records of each key."""

    rules: Rules
    rows: dict[object, Row] = field(default_factory=dict)
    records: dict[str, dict[Order, Row]] = field(default_factory=dict)
    """Of a history, also deletes."""
    deletes: dict[object, Order] = field(default_factory=dict)
    """Those that are remembered."""
    deleted_in: Counter[int] = field(default_factory=Counter)
    """How many deletes each partition had."""
    lacks_rows: bool = False
    """Whether others took out rows."""
    counts: Counts = field(default_factory=Counts)
    letters: dict[Place, Sent] = field(default_factory=dict)

    def new(self) -> KeyedTable:
        return KeyedTable(self.rules)

    def copy(self) -> KeyedTable:
        return replace(
            self,
            rows=dict(self.rows),
            records={key: dict(each) for key, each in self.records.items()},
            deletes=dict(self.deletes),
            deleted_in=Counter(self.deleted_in),
            letters=dict(self.letters),
        )

    def waiting(self) -> set[Place]:
        return {*self.letters}

    def apply(self, batch: Mapping[Place, Sent], seen: Seen, *, forgets: bool) -> None:
        del forgets
        bad = {place: sent for place, sent in batch.items() if self._is_bad(sent, seen.registered)}
        self.letters |= bad
        self.counts += Counts(read=len(batch), dead_letters=len(bad))
        self._come({place: sent for place, sent in batch.items() if place not in bad})

    def renew(self, now: datetime) -> None:
        """Leave the deletes: no test waits until these are forgotten."""

    def replay(self, seen: Seen) -> list[Place]:
        taken = {place: self.letters[place] for place in self.replayable(seen.registered)}
        for place in taken:
            del self.letters[place]
        self.counts += Counts(dead_letters=-len(taken))
        self._come(taken)
        return sorted(taken)

    def replayable(self, registered: int) -> set[Place]:
        """Return the dead letters that a replay takes."""
        good = {place for place, sent in self.letters.items() if not self._is_bad(sent, registered)}
        return {place for place in good if not self._is_undecided(place, self.letters[place])}

    def versions(self) -> Iterator[Row]:
        """Yield the rows of a history."""
        for records in self.records.values():
            yield from self._of_key([records[order] for order in sorted(records)])

    def _of_key(self, records: Iterable[Row]) -> list[Row]:
        found: list[Row] = []
        time, is_open = 0, False
        for each in records:
            is_delete = each.sent.fields is None
            if is_delete and not is_open and not self.rules.by_time:
                continue
            time = each.sent.stamp if self.rules.by_time else max(time, each.sent.stamp)
            if is_open and found[-1].valid is not None:
                found[-1] = replace(found[-1], valid=(found[-1].valid[0], time))
            is_open = not is_delete
            if is_open:
                found.append(replace(each, valid=(time, None)))
        return found

    def _is_bad(self, sent: Sent, registered: int) -> bool:
        has_schema = sent.late is None or sent.late < registered
        match self.rules.write:
            case "append":
                return not has_schema
            case "deduplicate":
                return not has_schema or sent.key is None or sent.fields is None
            case _:
                return not has_schema or sent.key is None

    def _is_undecided(self, place: Place, sent: Sent) -> bool:
        """Return whether the table may lack a delete that is newer than a dead letter."""
        assert sent.key is not None or self.rules.write == "append"
        order = self._order(place, sent)
        match self.rules.write:
            case "upsert" if self.rules.by_time:
                is_late = order < self.deletes.get(sent.key, order)
                return self.lacks_rows and sent.key not in self.rows and not is_late
            case "upsert":
                return sent.key not in self.rows and (self.lacks_rows or self.deleted_in[place[0]] > 0)
            case "history" if not self.rules.by_time:
                records = self.records.get(str(sent.key), {})
                last = list(self._of_key([records[each] for each in sorted(records)]))[-1:]
                follows = any(row.valid and row.valid[1] is None and row.place < place for row in last)
                return self.deleted_in[place[0]] > 0 and not follows
            case _:
                return False

    def _order(self, place: Place, sent: Sent) -> Order:
        return (sent.stamp if self.rules.compares_times else 0, *place)

    def _come(self, records: Mapping[Place, Sent]) -> None:
        """Take records of one batch."""
        before = {sent.key: self._newest(sent.key) for sent in records.values()}
        for order, place, sent in sorted((self._order(place, sent), place, sent) for place, sent in records.items()):
            self.counts += self._becomes(order, Row(place, sent), before[sent.key])

    def _newest(self, key: object) -> Order | None:
        """Return the order of the row of a key, or of its delete."""
        row = self.rows.get(key)
        known = [] if row is None else [self._order(row.place, row.sent)]
        return max([*known, *([self.deletes[key]] if key in self.deletes else [])], default=None)

    def _becomes(self, order: Order, row: Row, newest: Order | None) -> Counts:
        key, is_delete = row.sent.key, row.sent.fields is None
        match self.rules.write:
            case "append":
                self.rows[row.place] = row
                return Counts(rows=1)
            case "history":
                self.records.setdefault(str(key), {})[order] = row
                self.deleted_in[row.place[0]] += is_delete
                return Counts(deletes=1) if is_delete else Counts(rows=1)
            case "deduplicate":
                is_first = key not in self.rows
                self.rows.setdefault(key, row)
                return Counts(rows=1) if is_first else Counts(duplicates=1)
        if newest is not None and order < newest:
            return Counts(duplicates=1)
        if not is_delete:
            self.rows[key] = row
            return Counts(rows=1)
        self.rows.pop(key, None)
        self.deleted_in[row.place[0]] += 1
        if self.rules.by_time:
            self.deletes[key] = order
        return Counts(deletes=1)
