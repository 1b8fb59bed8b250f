"""A table and its model in plain Python, which takes each batch that the table shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from ordered_changelogs import Partitions
from pyiceberg.table import Table as IcebergTable
from seen_snapshots import Model, Place, Seen, SeenSnapshots, Stood
from values_of_tables import NOW

from frazil.adapters.embedded_schemas import WithEmbedded
from frazil.dead_letters import list_dead_letters
from frazil.model.progress import BatchRef
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table


@dataclass
class FollowedTable:
    """A topic, its table, and a model of the table. A kind of table says what its rows are, and what they should be.

    `done` counts what happened to a table that was there, and `log` says it in words.
    """

    world: Partitions
    spec: TableSpec
    table: Model
    events: dict[Place, Any] = field(default_factory=dict)
    now: datetime = NOW
    next: dict[int, int] = field(default_factory=dict)
    snapshots: SeenSnapshots = field(default_factory=SeenSnapshots)
    replays: frozenset[BatchRef] = frozenset()
    """Those that the model has taken."""
    inserted: int = 0
    """How many rows of others the table has."""
    generation: int = 0
    """How often the table was rebuilt."""
    has_other_rows: bool = False
    """Whether others took out rows, or deletes may be forgotten, so that Kafka has other rows than the table."""
    log: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def did(self, what: str) -> None:
        self.done[what] += 1
        self.log.append(f"  {what}")

    # --- what a kind of table says

    def rows(self) -> list[Any]:
        """Return the rows that are stored, but for those of others."""
        raise NotImplementedError

    def expected(self) -> list[Any]:
        raise NotImplementedError

    def takes_out_others(self, batch: dict[Place, Any]) -> bool:
        """Return whether a batch takes out the rows of others, too."""
        del batch
        return False

    @property
    def registered(self) -> int:
        """How many schemas are known by now that were not at first."""
        return 0

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
            if snapshot.id not in self.snapshots.by_id:
                self.snapshots.by_id[snapshot.id] = Seen.of(snapshot, self.now, self.registered)
        chain = [*self.snapshots.chain(view.head)]
        generation = next(each.generation for each in chain if each.ends is not None)
        built, rewound = self._start_again(chain, generation) if generation != self.generation else (set(), None)
        for each in reversed(chain):
            self._take(each, forgets=each.id not in built)
            if each.id == rewound:
                self.table.renew(each.now)
                self.snapshots.stood[each.id] = replace(self._stands(), generation=each.generation)
        assert view.head is not None
        self.snapshots.stood[view.head] = self._stands()

    def stand_at(self, stood: Stood) -> None:
        self.table, self.next, self.inserted = stood.table.copy(), dict(stood.next), stood.inserted
        self.replays = stood.replays

    def _start_again(self, chain: list[Seen], generation: int) -> tuple[set[int], int | None]:
        """Go back to where a rebuild began. Return its snapshots, and of a rewind the one that made them visible."""
        base, since = self.snapshots.since_known(chain)
        self.stand_at(Stood(self.table.new(), {}, 0, 0) if base is None else self.snapshots.stood[base])
        self.generation = generation
        built = [each for each in since if each.generation != generation]
        self.log.append(f"  rebuilt as generation {generation}, from {self.next} on")
        if base is None:
            self.has_other_rows = any(each.now != self.now for each in built)  # deletes of it may be forgotten
        visible = next((each.id for each in reversed(since) if each.generation == generation), None)
        return {each.id for each in built}, None if base is None else visible

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
            self.table.apply(batch, seen, forgets=forgets)
            self.inserted = 0 if self.takes_out_others(batch) else self.inserted
        elif seen.replay is not None and seen.replay not in self.replays:
            self.replays |= {seen.replay}
            self.log.append(f"  a replay: {self.table.replay(seen)}")
        self.snapshots.stood.setdefault(seen.id, replace(self._stands(), generation=seen.generation))

    def _stands(self) -> Stood:
        return Stood(self.table.copy(), dict(self.next), self.inserted, self.generation, self.replays)

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
        letters, expected = self._letters(), sorted(self.table.waiting())
        assert letters == expected, f"dead letters {letters}, expected {expected}"
        registry = WithEmbedded(cast(Any, self.world.registry))
        side = KafkaSide(self.world.topics, cast(Any, self.world), registry)
        findings = verify_table(self.world.lake, self.spec, kafka=side).findings
        assert self.has_other_rows or not findings, "\n".join(map(str, findings))

    def _letters(self) -> list[Place]:
        """Return the dead letters that were not replayed."""
        found = list_dead_letters(self.world.lake, self.spec, limit=10_000)
        return sorted((letter.partition, letter.offset) for letter in found.newest)
