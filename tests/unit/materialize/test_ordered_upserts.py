"""Tables whose records a column orders: late records, and deletes that are remembered."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from changelogs import UPSERT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ordered_changelogs import STAMPED, OrderedChangelog, Stamped
from pyiceberg.table import Table
from pyiceberg.table.update import SetStatisticsUpdate
from test_groups import KilledError, at_moment, kill
from whole_batches import World, drained, framed

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.maintain.background import Background
from frazil.maintain.expiring import Expiring
from frazil.materialize.branches import stage_branches
from frazil.materialize.remember import read_deletes
from frazil.materialize.state import CHECKPOINT_TAG, standing
from frazil.model.dead_letter import Reason
from frazil.model.errors import IncompatibleSchemaError, SpecError, StateLostError
from frazil.model.remembered import RememberedDeletes
from frazil.model.settings import CatalogSettings
from frazil.model.spec import KeepSnapshots
from frazil.modes import memory
from tests.fakes.clients_in_memory import a_field, record
from tests.sampling import examples

STAMP = "kafka_timestamp"


@pytest.fixture
def changelog(tmp_path: Path) -> OrderedChangelog:
    return OrderedChangelog.at(tmp_path)


def remembered(changelog: OrderedChangelog) -> RememberedDeletes:
    found = standing(changelog.view, pipeline=changelog.spec.pipeline).state.remembered
    assert found is not None
    return found


def file_of(deletes: RememberedDeletes) -> Path:
    return Path(deletes.file.path.removeprefix("file://"))


def test_the_record_with_the_greatest_timestamp_wins_whenever_and_wherever_it_comes(
    changelog: OrderedChangelog,
) -> None:
    changelog.send_at(("a", 1, 5, 0), ("a", 2, 3, 1), ("b", 1, 7, 1))
    changelog.catch_up()
    changelog.check()
    changelog.send_at(("a", 3, 4, 1), ("b", 2, 8, 0))
    changelog.catch_up()

    changelog.check()
    assert changelog.records() == {"a": (5, 0, 0), "b": (8, 0, 1)}
    assert changelog.counts.duplicates == 1


def test_equal_timestamps_are_ordered_by_partition_and_offset(changelog: OrderedChangelog) -> None:
    for _ in range(2):
        changelog.send_at(("a", 1, 5, 1), ("a", 2, 5, 0))
        changelog.catch_up()
        changelog.check()
    assert changelog.records() == {"a": (5, 1, 1)}


def test_partitions_may_be_added(changelog: OrderedChangelog) -> None:
    changelog.send_at(("a", 1, 5, 1))
    changelog.catch_up()
    changelog.partitions.records[2] = []
    changelog.send_at(("a", 2, 4, 2), ("b", 1, 4, 2), ("a", None, 6, 2))
    changelog.catch_up()

    changelog.check()
    assert list(changelog.records()) == ["b"]


def test_a_record_that_is_older_than_a_delete_does_not_bring_its_key_back(changelog: OrderedChangelog) -> None:
    changelog.send_at(("a", 1, 5, 0))
    changelog.catch_up()
    changelog.send_at(("a", None, 9, 0), ("b", None, 9, 1))
    changelog.catch_up()
    changelog.send_at(("a", 2, 8, 1), ("b", 1, 8, 0))
    changelog.catch_up()
    changelog.check()
    assert changelog.records() == {}
    changelog.send_at(("a", 3, 10, 1))
    changelog.catch_up()

    changelog.check()
    assert list(changelog.records()) == ["a"]


def test_a_batch_without_a_record_of_any_key_forgets_nothing(changelog: OrderedChangelog) -> None:
    changelog.send_at(("a", None, 9, 0))
    changelog.catch_up()
    changelog.partitions.records[0].append((None, b"{}", 1))
    changelog.catch_up()
    changelog.send_at(("a", 1, 8, 0))
    changelog.catch_up()

    assert changelog.records() == {}


def test_a_delete_is_forgotten_after_its_time(changelog: OrderedChangelog) -> None:
    changelog.send_at(("a", None, 9, 0))
    changelog.catch_up()
    changelog.spec = replace(changelog.spec, delete_memory=timedelta(seconds=-1))
    changelog.send_at(("a", 2, 7, 0))
    changelog.catch_up()

    assert list(changelog.records()) == ["a"]


def test_the_file_of_deletes_is_that_of_the_published_snapshot(changelog: OrderedChangelog) -> None:
    changelog.send_at(("a", None, 9, 0))
    changelog.catch_up()
    first = remembered(changelog)
    changelog.send_at(("b", 1, 9, 0))
    changelog.catch_up()

    table: Table = changelog.view.current
    assert remembered(changelog) == first, "a batch without a delete writes no file"
    named = {each.snapshot_id: each.statistics_path for each in table.metadata.statistics}
    assert named[changelog.view.head or 0] == first.file.path
    assert len(read_deletes(changelog.world.lake, changelog.view, first)) == 1


@pytest.mark.parametrize("damage", ["lost", "cut", "begun", "another"])
def test_a_table_whose_deletes_are_damaged_is_not_written(changelog: OrderedChangelog, damage: str) -> None:
    changelog.send_at(("a", None, 9, 0))
    changelog.catch_up()
    other = file_of(remembered(changelog)).read_bytes()
    changelog.send_at(("b", None, 9, 0))
    changelog.catch_up()
    file = file_of(remembered(changelog))
    if damage == "lost":
        file.unlink()
    else:
        file.write_bytes({"another": other, "cut": other[:-20], "begun": other[:4]}[damage])
    head = changelog.view.head
    changelog.send_at(("a", 1, 8, 0))

    with pytest.raises(StateLostError, match="deletes that the table remembers are damaged or missing"):
        changelog.catch_up()
    assert changelog.view.head == head


def test_statistics_of_another_engine_do_not_take_the_deletes_away(changelog: OrderedChangelog) -> None:
    """A snapshot has one file of statistics: that of another engine takes the place of the deletes."""
    changelog.send_at(("a", None, 9, 0))
    changelog.catch_up()
    table: Table = changelog.view.current
    (ours,) = table.metadata.statistics
    theirs = ours.model_copy(update={"statistics_path": f"{table.location()}/metadata/theirs.stats"})
    table.catalog.commit_table(table, (), (SetStatisticsUpdate(statistics=theirs),))
    changelog.send_at(("a", 1, 8, 0))
    changelog.catch_up()

    changelog.check()
    named = {each.snapshot_id: each.statistics_path for each in changelog.view.current.metadata.statistics}
    assert named[changelog.view.head or 0] == remembered(changelog).file.path


def test_a_rollback_takes_the_deletes_back(changelog: OrderedChangelog) -> None:
    changelog.send_at(("a", None, 9, 0))
    changelog.catch_up()
    before = changelog.view.head
    changelog.send_at(("b", None, 9, 0))
    changelog.catch_up()
    assert remembered(changelog).count == 2

    changelog.view.current.manage_snapshots().set_current_snapshot(snapshot_id=before).commit()
    assert remembered(changelog).count == 1
    changelog.catch_up()

    assert remembered(changelog).count == 2


def expire_all_but_the_last(changelog: OrderedChangelog) -> None:
    background = Background()
    expiring = Expiring(KeepSnapshots(timedelta(0), count=1, daily=0), CHECKPOINT_TAG)
    later = datetime.now(UTC) + timedelta(hours=1)
    expiring.between_batches(changelog.world.lake, lambda: DeltaRsLogs({}), changelog.view, background, now=later)
    background.finish(60)


@pytest.mark.parametrize("value", [None, 1], ids=["a new file", "the file of the batch before"])
def test_an_attempt_that_is_given_up_and_expires_takes_no_file_of_deletes_along(
    changelog: OrderedChangelog, tmp_path: Path, value: int | None
) -> None:
    changelog.send_at(("a", None, 9, 0))
    changelog.catch_up()
    changelog.send_at(("b", value, 9, 0))
    lake = changelog.world.lake
    dies = replace(changelog.world.table(changelog.spec), writer="dies")
    dies.clients = replace(dies.clients, observe=at_moment("before", "publish", kill))
    with pytest.raises(KilledError):
        dies.batch()
    given_up = {changelog.view.branches[name] for name in stage_branches(changelog.view)}
    changelog.catch_up()

    expire_all_but_the_last(changelog)

    assert len(given_up) == 1
    assert not given_up & set(changelog.view.snapshots)
    statistics = changelog.view.current.metadata.statistics
    there = {str(path) for path in tmp_path.rglob("*.puffin")}
    assert there == {each.statistics_path.removeprefix("file://") for each in statistics}
    assert len(statistics) == len({each.snapshot_id for each in statistics})
    assert len(read_deletes(lake, changelog.view, remembered(changelog))) == (2 if value is None else 1)


def test_files_of_deletes_leave_with_the_last_snapshot_that_has_them(
    changelog: OrderedChangelog, tmp_path: Path
) -> None:
    for key in "abcdef":
        changelog.send_at((key, None, 9, 0))
        changelog.catch_up()

    expire_all_but_the_last(changelog)

    there = {str(path) for path in tmp_path.rglob("*.puffin")}
    named = {each.statistics_path.removeprefix("file://") for each in changelog.view.current.metadata.statistics}
    assert there == named
    assert len(there) < 6
    assert len(read_deletes(changelog.world.lake, changelog.view, remembered(changelog))) == 6


def test_of_too_many_deletes_the_oldest_are_forgotten_first(
    changelog: OrderedChangelog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(memory, "MOST", 2)
    for key in "abc":
        changelog.send_at((key, None, 9, 0))
        changelog.catch_up()
    changelog.send_at(("a", 1, 8, 0), ("b", 1, 8, 0), ("c", 1, 8, 0))
    changelog.catch_up()

    assert list(changelog.records()) == ["a"]
    assert (remembered(changelog).count, remembered(changelog).forgotten) == (2, 1)
    assert "too_many_deletes" in caplog.text


def test_a_row_whose_order_another_engine_took_away_is_older_than_any_record(changelog: OrderedChangelog) -> None:
    changelog.send_at(("a", 1, 5, 0), ("b", 1, 5, 0))
    changelog.catch_up()
    none = pa.nulls(2, pa.timestamp("us", tz="UTC"))
    changelog.replace_rows(lambda rows: rows.set_column(rows.schema.names.index(STAMP), rows.field(STAMP), none))
    changelog.send_at(("a", 2, 4, 1), ("b", None, 4, 1))
    drained(changelog.world, changelog.spec)

    assert list(changelog.records()) == ["a"]
    assert changelog.verify().findings == ()


def test_rows_that_another_engine_copied_count_once_when_they_are_replaced(changelog: OrderedChangelog) -> None:
    changelog.send_at(("a", 1, 5, 0), ("b", 1, 5, 1))
    changelog.catch_up()
    table: Table = changelog.world.lake.catalog.load_table(changelog.spec.identifier)
    table.append(table.scan().to_arrow())

    changelog.send_at(("a", 2, 6, 0), ("b", None, 6, 1))
    changelog.catch_up()

    changelog.check()


@settings(max_examples=examples(4, 150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(STAMPED, min_size=1, max_size=6), min_size=1, max_size=5))
def test_whatever_the_order_the_table_is_that_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Stamped]]
) -> None:
    changelog = OrderedChangelog.at(tmp_path_factory.mktemp("lake"))
    for batch in batches:
        changelog.send_at(*batch)
        changelog.catch_up()

    changelog.check()


BY_VALUE = replace(UPSERT, value="avro", table="levels", order_by="level", on_tombstone="dead_letter")


class Levels:
    """A table that a column of the value orders."""

    def __init__(self, folder: Path, level: object = "int", **changes: object) -> None:
        self.spec = replace(BY_VALUE, **changes)  # type: ignore[arg-type]
        self.world = World(IcebergLake(CatalogSettings("jdbc", str(folder))))
        self.written_as(level)

    def written_as(self, level: object) -> None:
        fields = [] if level is None else [a_field("level", level)]
        self.schema = record(a_field("n"), *fields)
        self.id = self.world.registry.register("orders-value", self.schema).id

    def send(self, level: int | None, *, tombstone: bool = False) -> None:
        self.world.keys[len(self.world.values)] = b"a"
        value = framed(self.id, self.schema, {"n": 1, "level": level})
        self.world.values.append(None if tombstone else value)  # type: ignore[arg-type]

    def offsets(self) -> list[int]:
        drained(self.world, self.spec)
        return self.read(self.spec.identifier, "kafka_offset")

    def read(self, table: str, column: str) -> list[int]:
        view = self.world.lake.load(table)
        assert view is not None
        parts = self.world.lake.read(view, columns=[column], equal={})
        return [value for part in parts for value in part.column(column).to_pylist()]


def test_a_column_of_the_value_orders_its_records(tmp_path: Path) -> None:
    levels = Levels(tmp_path)
    for level in (5, 3):
        levels.send(level)
    assert levels.offsets() == [0]
    levels.written_as("long")
    for level in (4, 6, 2):
        levels.send(level)
    assert levels.offsets() == [3]


def test_a_record_without_an_order_is_a_dead_letter_and_so_is_a_tombstone(tmp_path: Path) -> None:
    levels = Levels(tmp_path, ["null", "int"])
    for level in (5, None):
        levels.send(level)
    levels.send(5, tombstone=True)

    assert levels.offsets() == [0]
    letters = levels.read(levels.spec.dead_letters_identifier, "reason")
    assert sorted(letters) == [Reason.NULL_ORDER.value, Reason.NULL_VALUE.value]


@pytest.mark.parametrize("setting", ["pause", "dead_letter", "new_column"])
@pytest.mark.parametrize("level", ["string", None])
def test_a_changed_order_always_pauses_the_table(tmp_path: Path, setting: str, level: str | None) -> None:
    levels = Levels(tmp_path, on_incompatible_schema=setting)
    levels.send(5)
    assert levels.offsets() == [0]
    levels.written_as(level)

    with pytest.raises(IncompatibleSchemaError, match="level") as refused:
        levels.world.values.append(framed(levels.id, levels.schema, {"n": 1, "level": "x"}))
        drained(levels.world, levels.spec)
    assert refused.value.always_pauses


@pytest.mark.parametrize(("level", "says"), [("string", "level: is string"), (None, "level: names a column")])
def test_a_table_that_cannot_be_ordered_is_not_made(tmp_path: Path, level: str | None, says: str) -> None:
    levels = Levels(tmp_path, level)

    with pytest.raises(SpecError, match=says):
        drained(levels.world, levels.spec)
    assert [str(each) for each in levels.world.check(levels.spec)] != []
