"""Histories of keyed tables: lost answers, dying processes, other engines and drivers, held against the model.

Hypothesis looks for the shortest history after which the two differ.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from changelogs import Changelog
from deduplicated import Duplicates
from hypothesis.stateful import initialize, rule
from hypothesis.strategies import randoms
from ordered_changelogs import Order, OrderedChangelog, Partitions
from state_machines import HistoryMachine, look_for_a_difference
from test_whole_histories import History as Versions
from values_of_tables import SPEC
from writer_schemas import WriterSchemas

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.maintain import rewriting
from frazil.materialize.replay.request import ReplayRequest
from frazil.model.errors import CommitUnknownError, FrazilError
from frazil.model.ingested import DeletedRows
from tests.fakes.watched_lake import Commit, WatchedLake
from tests.sampling import examples

KEYS = "abcdefgh"
REQUEST = ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z")


class KilledError(BaseException):
    """The process ends here."""


class History(HistoryMachine):
    """One table, with what may happen to it."""

    @initialize(choose=randoms(use_true_random=False))
    def begin(self, choose: random.Random) -> None:
        self.choose = choose
        self.changelog = self.made_at(self.folder, self.choose.choice([(), ("bucket(2, kafka_key)",)]))
        self.settings = self.changelog.world.lake._settings
        self.schemas = WriterSchemas(self.changelog.world.registry)
        self.changelog.payload = self.schemas.payload
        self.changelog.spec = replace(self.changelog.spec, value="avro", value_settings=SPEC.value_settings)

    def made_at(self, folder: Path, partition_by: tuple[str, ...]) -> Changelog:
        return Changelog.at(folder, partition_by=partition_by)

    @rule()
    def records_are_read(self) -> None:
        self.send()
        self.changelog.catch_up()

    @rule()
    def something_happens_at_a_commit(self) -> None:
        self.send()
        self.disturbed()

    @rule()
    def something_else_happens(self) -> None:
        self.send()
        self.changelog.catch_up()
        self.another_act()

    @rule()
    def another_engine_replaces_the_files(self) -> None:
        self.send()
        self.changelog.catch_up()
        rows = self.changelog.world.lake.read(self.changelog.view, columns=["kafka_offset"], equal={})
        if any(map(len, rows)):
            self.changelog.replace_rows(self.shuffled)

    @rule()
    def the_schema_gets_another_column(self) -> None:
        self.send()
        self.schemas.widen()

    def end(self) -> None:
        """Read what is left, and compare what rows hold with what was sent."""
        self.send()
        self.changelog.catch_up()
        rows = self.changelog.world.lake.catalog.load_table(self.changelog.spec.identifier).scan().to_arrow()
        names = [name for name in rows.schema.names if name in ("id", "n") or name.startswith("more_")]
        for row in rows.to_pylist():
            sent = self.schemas.sent[self.payload_at(row["kafka_partition"], row["kafka_offset"])]
            assert {name: row[name] for name in names} == {name: sent.get(name) for name in names}
        self.compare()

    def compare(self) -> None:
        self.changelog.check()

    def payload_at(self, partition: int, offset: int) -> bytes:
        world = self.changelog.world
        found = world.records[partition][offset][1] if isinstance(world, Partitions) else world.values[offset]
        assert found is not None
        return found

    def send(self) -> None:
        for _ in range(self.choose.randrange(1, 10)):
            key = self.choose.choice(KEYS) if self.choose.random() < 0.95 else None
            self.changelog.send((key, self.choose.choice([None, 1, 2, 3])))

    def disturbed(self) -> None:
        """A driver whose commits are lost, or which dies before or after one, or is overtaken at one."""
        left = self.choose.randrange(6)
        act = self.choose.choice(("die before", "die after", "lose the answer", "lose the commit", "overtake"))

        def around(name: str, commit: Commit) -> object:
            nonlocal left
            del name
            left -= 1
            if left != 0:
                return commit()
            if act == "overtake":
                self.changelog.world.lake = IcebergLake(self.settings)
                self.changelog.catch_up()
                self.changelog.world.lake = lake
                return commit()
            if act in ("die after", "lose the answer"):
                commit()
            if act.startswith("die"):
                raise KilledError
            raise CommitUnknownError(act)

        lake = WatchedLake(self.settings, around=around)
        self.changelog.world.lake = lake
        try:
            self.changelog.catch_up()
        except (KilledError, FrazilError):
            pass
        finally:
            self.changelog.world.lake = IcebergLake(self.settings)

    def shuffled(self, rows: pa.Table) -> pa.Table:
        return rows.take(pa.array(self.choose.sample(range(len(rows)), len(rows)), pa.int64()))

    def another_act(self) -> None:
        files = [file for file in self.changelog.files() if not file.deletes]
        if not files:
            return
        file = self.choose.choice(files)
        position = self.choose.randrange(file.rows)
        gone = self.changelog.rows()
        self.changelog.others(deletes=[DeletedRows(file.path, [position])])
        for key in gone.keys() - self.changelog.rows().keys():
            self.changelog.state.pop(key, None)


class OrderedHistory(History):
    """A table that a column orders: records are late, in any of two partitions, and deletes are remembered."""

    changelog: OrderedChangelog

    def made_at(self, folder: Path, partition_by: tuple[str, ...]) -> OrderedChangelog:
        self.letters: list[tuple[str, bool, Order]] = []
        return OrderedChangelog.at(folder, partition_by=partition_by)

    def send(self) -> None:
        for _ in range(self.choose.randrange(1, 10)):
            key, value, stamp = (
                self.choose.choice(KEYS),
                self.choose.choice([None, 1, 2, 3]),
                self.choose.randrange(1, 60),
            )
            partition = self.choose.randrange(2)
            if value is not None and self.choose.random() < 0.1:
                payload = self.schemas.late_payload({"n": value})
                self.letters.append(self.changelog.send_late(key, payload, stamp, partition))
            else:
                self.changelog.send_at((key, value, stamp, partition))

    def another_act(self) -> None:
        """Replay the dead letters. A row that another engine deletes would leave nothing to compare them with."""
        self.schemas.register_late()
        result = self.changelog.world.table(self.changelog.spec).replay(REQUEST)
        assert (result.replayed, dict(result.stayed)) == (len(self.letters), {}), result
        self.changelog.pending += self.letters
        self.changelog.settle()
        self.letters = []

    def compare(self) -> None:
        assert self.changelog.records() == self.changelog.live
        verification = self.changelog.verify()
        assert verification.findings == ()
        letters = len(self.letters)
        assert verification.counts.dead_letters == letters
        assert verification.counts.read == self.changelog.counts.read + letters
        assert self.changelog.against_kafka().findings == ()


class DuplicatesHistory(History):
    """A table without duplicates, to which the same things happen."""

    changelog: Duplicates

    def made_at(self, folder: Path, partition_by: tuple[str, ...]) -> Duplicates:
        return Duplicates.at(folder, partition_by=tuple(each.replace("kafka_key", "id") for each in partition_by))

    def send(self) -> None:
        for _ in range(self.choose.randrange(1, 10)):
            event = self.choose.choice(KEYS) if self.choose.random() < 0.95 else None
            self.changelog.send_events((event, self.choose.randrange(1, 9), self.choose.randrange(2)))

    def disturbed(self) -> None:
        super().disturbed()
        self.changelog.settle()

    def another_act(self) -> None:
        """Do nothing: the identity is forgotten, which another test says."""

    def compare(self) -> None:
        super().compare()
        assert self.changelog.against_kafka().findings == ()


class VersionsHistory(History):
    """A table with every version of a key, to which the same things happen, while timestamps go up and down."""

    changelog: Versions

    def made_at(self, folder: Path, partition_by: tuple[str, ...]) -> Versions:
        self.seconds = 10
        return Versions.at(folder, partition_by=partition_by)

    def send(self) -> None:
        for _ in range(self.choose.randrange(1, 10)):
            self.seconds = max(1, self.seconds + self.choose.randrange(-2, 4))
            if self.choose.random() < 0.95:
                self.changelog.sent_at((self.choose.choice(KEYS), self.choose.choice([None, 1, 2, 3]), self.seconds))
            else:
                self.changelog.send((None, 1))

    def another_act(self) -> None:
        """Do nothing: which rows the next record then ends is what another test says."""

    def compare(self) -> None:
        super().compare()
        assert self.changelog.against_kafka().findings == ()


@pytest.mark.parametrize("machine", [History, OrderedHistory, DuplicatesHistory, VersionsHistory])
def test_whatever_happens_the_table_is_that_of_the_model(
    machine: type[History], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "WORTH_A_SNAPSHOT", 1)  # rewrite files between batches, however small
    look_for_a_difference(machine, histories=examples(4, 500), steps=examples(8, 12))
