"""Histories of keyed tables: lost answers, dying processes, other engines and drivers, held against the model."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from changelogs import Changelog
from deduplicated import Duplicates
from ordered_changelogs import OrderedChangelog

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.maintain import rewriting
from frazil.model.errors import CommitUnknownError, FrazilError
from frazil.model.ingested import DeletedRows
from tests.fakes.watched_lake import Commit, WatchedLake
from tests.sampling import sampled

KEYS = "abcdefgh"
SEEDS = sampled(range(500), keep=range(6).__contains__)
FEWER = sampled(range(500), keep=range(3).__contains__)


class KilledError(BaseException):
    """The process ends here."""


class History:
    """One table, to which things happen as a seed says."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.choose = random.Random(seed)
        self.changelog = self.made_at(folder, self.choose.choice([(), ("bucket(2, kafka_key)",)]))
        self.settings = self.changelog.world.lake._settings

    def made_at(self, folder: Path, partition_by: tuple[str, ...]) -> Changelog:
        return Changelog.at(folder, partition_by=partition_by)

    def step(self) -> None:
        self.send()
        match self.choose.randrange(6):
            case 0 | 1:
                self.changelog.catch_up()
            case 2 | 3:
                self.disturbed()
            case 4:
                self.changelog.catch_up()
                self.someone_deletes()
            case 5:
                self.changelog.catch_up()
                if self.changelog.rows():
                    self.changelog.replace_rows(self.shuffled)

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

    def someone_deletes(self) -> None:
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
        return OrderedChangelog.at(folder, partition_by=partition_by)

    def send(self) -> None:
        for _ in range(self.choose.randrange(1, 10)):
            value, stamp = self.choose.choice([None, 1, 2, 3]), self.choose.randrange(1, 60)
            self.changelog.send_at((self.choose.choice(KEYS), value, stamp, self.choose.randrange(2)))

    def someone_deletes(self) -> None:
        """A row that another engine deletes leaves nothing to compare a late record with."""


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

    def someone_deletes(self) -> None:
        """Nothing: the identity is forgotten, which another test says."""


@pytest.mark.parametrize("seed", FEWER)
def test_whatever_happens_a_table_without_duplicates_is_that_of_the_model(tmp_path: Path, seed: int) -> None:
    history = DuplicatesHistory(tmp_path, seed)
    for _ in range(12):
        history.step()
    history.changelog.catch_up()

    history.changelog.check()
    assert history.changelog.against_kafka().findings == ()


@pytest.mark.parametrize("seed", FEWER)
def test_whatever_happens_to_an_ordered_table_it_is_that_of_the_model(tmp_path: Path, seed: int) -> None:
    history = OrderedHistory(tmp_path, seed)
    for _ in range(12):
        history.step()
    history.changelog.catch_up()

    assert history.changelog.records() == history.changelog.live
    verification = history.changelog.verify()
    assert verification.findings == ()
    assert verification.counts.read == history.changelog.counts.read
    assert history.changelog.against_kafka().findings == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_the_table_is_that_of_the_model(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "WORTH_A_SNAPSHOT", 1)
    history = History(tmp_path, seed)
    for _ in range(12):
        history.step()
    history.changelog.catch_up()

    history.changelog.check()
