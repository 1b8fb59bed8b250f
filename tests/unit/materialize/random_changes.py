"""A table of change events to which anything happens: crashes, two drivers, other engines, rollbacks, rebuilds."""

from __future__ import annotations

import json
import random
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from modelled_changes import TAKEN, Event, Place, Table
from ordered_changelogs import Partitions
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table as IcebergTable
from values_of_tables import NOW
from written_changes import Setting, Writer, spec_for

from frazil.adapters.embedded_schemas import WithEmbedded
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.materialize.clients import STEPS
from frazil.materialize.rebuild.perform import Rebuild
from frazil.materialize.rebuild.rewind import Target, ToEarliest, ToOffsets
from frazil.materialize.rewrite_files import Rewriting
from frazil.materialize.run import TableRun
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.errors import FencedError, Misuse, RebuildError
from frazil.model.plan import NothingToDo
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import carries_state, state_in
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.watched_lake import Commit, WatchedLake

KINDS = (*"cruuuudd", "keeps", "tombstone", "m", "heartbeat", "unknown", "no_after", "bad_value", "null_key")
THEIRS = 1000
"""The id of rows that another engine inserts."""
Act = Callable[[], None]


class KilledError(BaseException):
    """The process ends here."""


@dataclass(frozen=True)
class Stood:
    """The model at a head of the table: the rows, the next offset of each partition, and the rows of others.

    A rollback across a rebuild, to a snapshot of another `generation`, is refused.
    """

    table: Table
    next: dict[int, int]
    inserted: int
    generation: int


@dataclass(frozen=True)
class Seen:
    """A snapshot, also one that has expired since. `ends` are the next offsets if it carries a state.

    `now` is the time when it was made.
    """

    id: int
    parent_id: int | None
    now: datetime
    ends: dict[int, int] | None = None
    generation: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot, now: datetime) -> Seen:
        if not carries_state(snapshot):
            return cls(snapshot.id, snapshot.parent_id, now)
        state = state_in(snapshot)
        ends = {number: each.next for number, each in state.sources[0].partitions.items()}
        return cls(snapshot.id, snapshot.parent_id, now, ends, state.generation)


@dataclass
class Campaign:
    """A topic, its table, and a model of both. The numbers of `draw` decide the details of what happens."""

    setting: Setting
    draw: random.Random
    world: Partitions
    spec: TableSpec
    table: Table
    events: dict[Place, Event] = field(default_factory=dict)
    now: datetime = NOW
    next: dict[int, int] = field(default_factory=dict)
    stood: dict[int, Stood] = field(default_factory=dict)
    seen: dict[int, Seen] = field(default_factory=dict)
    inserted: int = 0
    generation: int = 0
    """How often the table was rebuilt."""
    evolved: bool = False
    has_other_rows: bool = False
    """Whether others took out rows, or deletes may be forgotten, so that Kafka has other rows than the table."""
    log: list[str] = field(default_factory=list)
    """What has happened."""

    @classmethod
    def at(cls, folder: Path, setting: Setting, draw: random.Random) -> Campaign:
        world = Partitions(IcebergLake(CatalogSettings("jdbc", str(folder))))
        world.records = {number: [] for number in range(setting.partitions)}
        made = cls(setting, draw, world, spec_for(setting), Table(setting.rules))
        made.writer.register()
        return made

    @property
    def writer(self) -> Writer:
        return Writer(self.setting.form, self.world.registry)

    def carry_out(self, act: Act, events: int) -> None:
        """Write some events, and let something happen."""
        for _ in range(events):
            self.send()
        self.log.append(act.__name__)
        act()

    def end(self) -> None:
        """Read the topic to its end, and compare all that there is to compare."""
        self.catch_up()
        self.check(whole=True)
        self.check_with_kafka()

    # --- what is written

    def send(self) -> None:
        rules, count, key = self.setting.rules, self.setting.partitions, self.draw.randint(1, 4)
        kind = self.draw.choice((*KINDS, "t") if self.setting.has_truncates else KINDS)
        if kind == "heartbeat" and self.setting.form == "json":
            kind = "m"
        lsn = None if self.draw.random() < 0.05 else self.draw.randint(1, 30)
        number = str(len(self.events))
        phone = number if self.evolved and self.draw.random() < 0.7 else None
        event = Event(kind, key, lsn)
        if kind in ("c", "r", "u"):
            lacking = frozenset(name for name in TAKEN if self.draw.random() < 0.3) if kind == "u" else frozenset()
            event = Event(kind, key, lsn, self.draw.choice("ab") + number, (number,), phone, lacking)
        elif kind == "d":
            event = Event(kind, key, lsn, f"z{number}", phone=phone)
        partition = self.draw.randrange(count) if rules.by_source else key % count
        later = phone is not None or (self.evolved and self.draw.random() < 0.3)
        there = self.world.records[partition]
        self.log.append(f"  {partition}@{len(there)} {event}")
        self.events[partition, len(there)] = event
        there.append((self.writer.key(event, later=later), self.writer.value(event, later=later), 1_000))

    def evolve(self) -> None:
        """From now on, some events have a schema with another column and a wider key."""
        self.evolved = True

    # --- drivers

    def driver(self, *, lake: Any = None, observe: Callable[[str, str], None] | None = None) -> TableRun:
        """A new process."""
        run = self.world.table(self.spec)
        run.clients = replace(
            run.clients,
            lake=lake or self.world.lake,
            now=lambda: self.now,
            new_id=lambda: uuid.uuid4().hex[:8],
            observe=observe or (lambda when, step: None),
        )
        return replace(run, writer=uuid.uuid4().hex[:8])

    def catch_up(self) -> None:
        run = self.driver()
        for _ in range(100):
            if isinstance(run.batch(), NothingToDo):
                return
        raise AssertionError("the topic does not end")

    def disturbed(self) -> None:
        """One batch or a few, in which something happens at a moment or at a commit."""
        act = self.draw.choice([self.killed, self.killed, self.other_driver, self.rewrite, *self.of_others()])
        if self.draw.random() < 0.5:
            moment = (self.draw.choice(["before", "after"]), self.draw.choice(STEPS))
            self.log.append(f"  {act.__name__} {moment}")
            run = self.driver(observe=_once(moment, act))
        else:
            number, before = self.draw.randint(1, 6), self.draw.random() < 0.5
            self.log.append(f"  {act.__name__} {'before' if before else 'after'} commit {number}")
            run = self.driver(lake=self._watched(number, act, before=before))
        with suppress(KilledError, FencedError):
            if self.draw.random() < 0.3 and self._view() is not None:
                self._disturbed_rebuild(run)
                return
            for _ in range(self.draw.randint(1, 3)):
                run.batch()

    def _disturbed_rebuild(self, run: TableRun) -> None:
        """It may say that others changed the rows meanwhile, or that a snapshot expired that it was to begin at."""
        target = self.draw.choice([None, ToEarliest(), self._earlier()])
        self.log.append(f"  during a rebuild, {target}")
        with suppress(RebuildError, Misuse):
            self._rebuild(run, target)

    def rebuild(self) -> None:
        """Read the topic again from its beginning, or complete what an earlier process has begun."""
        if self._view() is not None:
            self._rebuild(self.driver(), None)

    def rewind(self) -> None:
        """Read the last records again, unless there are none, or no snapshot from before them is left."""
        if self._view() is None:
            return
        target = self.draw.choice([ToEarliest(), self._earlier()])
        self.log.append(f"  {target}")
        try:
            self._rebuild(self.driver(), target)
        except (RebuildError, Misuse) as refused:
            assert re.search("no snapshot from before that|nothing to read again", refused.what), refused.what

    def _earlier(self) -> ToOffsets:
        """Return offsets that the table has read, and perhaps not read then."""
        self.settle()
        return ToOffsets({"orders": {number: self.draw.randint(0, end) for number, end in self.next.items()}})

    def _rebuild(self, run: TableRun, target: Target | None) -> None:
        lake, spec = cast(IcebergLake, run.clients.lake), self.spec
        assert lake.catalog  # what is done at a commit of the lake is done at one of the rebuild
        built = RebuildLake(lake, (spec.identifier, spec.dead_letters_identifier))
        act = Rebuild(spec, run.clients, built, run.writer, lambda s: None, lambda: 0.0, lambda progress: None)
        replace(act, drop_foreign=True, target=target).perform()

    def _watched(self, number: int, act: Act, *, before: bool) -> WatchedLake:
        done = 0

        def around(name: str, commit: Commit) -> object:
            nonlocal done
            done += 1
            if before and done == number:
                act()
            answer = commit()
            if not before and done == number:
                act()
            return answer

        return WatchedLake(self.world.lake._settings, around=around)

    def killed(self) -> None:
        raise KilledError

    def other_driver(self) -> None:
        for _ in range(self.draw.randint(1, 3)):
            self.driver().batch()

    def rewrite(self) -> None:
        """Another driver rewrites files."""
        if (view := self._view()) is not None:
            Rewriting(self.spec, uuid.uuid4().hex[:8]).between_batches(self.driver().clients, view)

    def wait(self) -> None:
        """Let time pass, up to the bound of the memory of deletes and beyond it."""
        self.catch_up()
        self.settle()
        keep = self.setting.rules.memory
        self.now += self.draw.choice(
            (keep / 2, keep - timedelta(seconds=1), keep, keep + timedelta(microseconds=1), -timedelta(hours=1))
        )
        self.has_other_rows = True

    # --- other engines

    def of_others(self) -> list[Act]:
        return [self.compact, self.delete_row, self.insert, self.expire]

    def compact(self) -> None:
        loaded = self._loaded()
        rows = None if loaded is None else loaded.scan().to_arrow()
        if loaded is None or not rows:
            return
        with loaded.transaction() as transaction:
            files = list(_dataframe_to_data_files(loaded.metadata, rows, loaded.io))
            with transaction.update_snapshot().overwrite() as replacing:
                for task in loaded.scan().plan_files():
                    replacing.delete_data_file(task.file)
                for file in files:
                    replacing.append_data_file(file)

    def delete_row(self) -> None:
        self.settle()
        loaded = self._loaded()
        if loaded is not None and self.table.rows:
            key = self.draw.choice(sorted(self.table.rows))
            self.log.append(f"  of key {key}")
            loaded.delete(EqualTo("id", key))
            del self.table.rows[key]
            self.has_other_rows = True
            self.settle()

    def insert(self) -> None:
        self.settle()
        loaded = self._loaded()
        if loaded is not None and "id" in loaded.schema().column_names:
            fields = [loaded.schema().as_arrow().field(name) for name in ("id", "notes")]
            loaded.append(pa.table({"id": [THEIRS], "notes": ["theirs"]}, schema=pa.schema(fields)))
            self.inserted += 1
            self.settle()

    def expire(self) -> None:
        self.settle()
        view, loaded = self._view(), self._loaded()
        newest = [] if view is None else [each.id for each in view.ancestry(view.head)][:2]
        if view is not None and loaded is not None and view.tags[CHECKPOINT_TAG] in newest:  # else its state is cut off
            loaded.maintenance.expire_snapshots().older_than(datetime.now() + timedelta(1)).commit()

    def roll_back(self) -> None:
        """Point `main` to one of its last snapshots."""
        self.settle()
        view, loaded = self._view(), self._loaded()
        places = () if view is None else view.ancestry(view.head)
        stood = {each.id: self.stood[each.id] for each in places if each.id in self.stood}
        known = [head for head, each in stood.items() if each.generation == self.generation]
        if loaded is not None and known:
            head = self.draw.choice(known[:4])
            loaded.manage_snapshots().set_current_snapshot(head).commit()
            stood = self.stood[head]
            self.table, self.next, self.inserted = stood.table.copy(), dict(stood.next), stood.inserted

    # --- what is compared

    def _view(self) -> TableView | None:
        return self.world.lake.load(self.spec.identifier)

    def _loaded(self) -> IcebergTable | None:
        catalog, name = self.world.lake.catalog, self.spec.identifier
        return catalog.load_table(name) if catalog.table_exists(name) else None

    def settle(self) -> None:
        """Take what was published since as batches of the model."""
        view = self._view()
        if view is None:
            return
        for snapshot in view.snapshots.values():
            if snapshot.id not in self.seen:
                self.seen[snapshot.id] = Seen.of(snapshot, self.now)
        chain = [*self._chain(view.head)]
        generation = next(each.generation for each in chain if each.ends is not None)
        built = self._start_again(chain, generation) if generation != self.generation else set()
        for each in reversed(chain):
            self._take(each, forgets=each.id not in built)
        assert view.head is not None
        self.stood[view.head] = self._stands()

    def _chain(self, head: int | None) -> Iterator[Seen]:
        """Yield the ancestry of a snapshot, newest first."""
        while head is not None:
            yield self.seen[head]
            head = self.seen[head].parent_id

    def _start_again(self, chain: list[Seen], generation: int) -> set[int]:
        """Go back to where a rebuild began. Return its snapshots."""
        base = next((each.id for each in chain if each.id in self.stood), None)
        stood = Stood(Table(self.setting.rules), {}, 0, 0) if base is None else self.stood[base]
        self.table, self.next, self.inserted = stood.table.copy(), dict(stood.next), stood.inserted
        self.generation = generation
        since = [*takewhile(lambda each: each.id != base, chain)]
        built = [each for each in since if each.generation != generation]
        self.log.append(f"  rebuilt as generation {generation}, from {stood.next} on")
        if base is None:
            self.has_other_rows = any(each.now != self.now for each in built)  # deletes of it may be forgotten
        return {each.id for each in built}

    def _take(self, seen: Seen, *, forgets: bool) -> None:
        if seen.ends is None:
            return
        batch = {
            (number, offset): self.events[number, offset]
            for number, end in seen.ends.items()
            for offset in range(self.next.get(number, 0), end)
        }
        self.next |= {number: end for number, end in seen.ends.items() if end > self.next.get(number, 0)}
        if batch:
            self.log.append(f"  a batch: {sorted(batch)}")
            self.table.apply(batch, seen.now, forgets=forgets)
            self.inserted = 0 if any(each.kind == "t" for each in batch.values()) else self.inserted
        self.stood.setdefault(seen.id, replace(self._stands(), generation=seen.generation))

    def _stands(self) -> Stood:
        return Stood(self.table.copy(), dict(self.next), self.inserted, self.generation)

    def check(self, *, whole: bool) -> None:
        """Compare the rows with the model; as a whole, also the counts, the dead letters and the proof."""
        self.settle()
        found, expected = self.rows(), self.expected()
        assert found == expected, f"found {found}, expected {expected}"
        if whole and self.world.lake.load(self.spec.dead_letters_identifier) is not None:
            verification = verify_table(self.world.lake, self.spec)
            assert not verification.findings, "\n".join(map(str, verification.findings))
            assert verification.counts == self.table.counts, f"{verification.counts}, expected {self.table.counts}"

    def check_with_kafka(self) -> None:
        letters, expected = self._letters(), sorted(self.table.letters)
        assert letters == expected, f"dead letters {letters}, expected {expected}"
        registry = WithEmbedded(cast(Any, self.world.registry))
        side = KafkaSide(self.world.topics, cast(Any, self.world), registry)
        findings = verify_table(self.world.lake, self.spec, kafka=side).findings
        assert self.has_other_rows or not findings, "\n".join(map(str, findings))

    def _letters(self) -> list[Place]:
        view = self.world.lake.load(self.spec.dead_letters_identifier)
        assert view is not None
        parts = self.world.lake.read(view, columns=["partition", "offset"], equal={})
        return sorted((row["partition"], row["offset"]) for part in parts for row in part.to_pylist())

    def rows(self) -> list[tuple[int, str]]:
        """Return the key of each row, and its values as text."""
        view = self._view()
        known = () if view is None else tuple(column.name for column in view.columns)
        names = [each for each in ("kafka_key", "id", *COMPARED) if each in known]
        parts = () if view is None else self.world.lake.read(view, columns=names, equal={})
        found = [row for part in parts for row in part.to_pylist()]
        own = [row for row in found if row.get("id") != THEIRS]
        assert len(found) - len(own) == self.inserted, "rows of others"
        return sorted((_key_of(row), repr([row.get(name) for name in COMPARED])) for row in own)

    def expected(self) -> list[tuple[int, str]]:
        soft, masked = self.setting.rules.soft, self.setting.masked
        return sorted(
            (
                key,
                repr(
                    [
                        row.notes[:1] if masked and row.notes else row.notes,
                        None if row.tags is None else list(row.tags),
                        row.phone,
                        row.op,
                        row.deleted if soft else None,
                    ]
                ),
            )
            for key, row in self.table.rows.items()
        )


COMPARED = ("notes", "tags", "phone", "__op", "__deleted")


def _key_of(row: dict[str, Any]) -> int:
    key = row["kafka_key"]
    return int(json.loads(key)["id"] if isinstance(key, str) else key["id"])


def _once(moment: tuple[str, str], act: Act) -> Callable[[str, str], None]:
    left = [act]

    def observe(when: str, step: str) -> None:
        if left and (when, step) == moment:
            left.pop()()

    return observe
