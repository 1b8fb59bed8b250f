"""Several topics in one table whose records a column orders: with `write: upsert`, and with `write: history`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyed_letters import BY_TIME, Place
from ordered_changelogs import Order, OrderedChangelog, Stamped, milliseconds
from rebuilt_tables import rebuild
from shaped_tables import Shapes, specs
from test_deduplicated_topics import Events
from test_ordered_histories import OrderedHistory, Version
from two_topics import OF_A_TOPIC, TOPICS, TwoTopics, number_of

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.dead_letters import list_dead_letters
from frazil.materialize.state import standing
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.progress import Counts, PartitionProgress
from frazil.model.settings import CatalogSettings
from frazil.model.spec import TableSpec
from frazil.proof.verification import FindingKind, Verification
from frazil.verify import by_identity, history_ends, intervals
from tests.sampling import examples

STAMPED = st.tuples(
    st.sampled_from("abcd"), st.integers(0, 9) | st.none(), st.integers(1, 6), st.integers(0, OF_A_TOPIC * 2 - 1)
)
SOURCE = ("kafka_topic", "kafka_partition", "kafka_offset")


def of_both(made: OrderedChangelog, folder: Path) -> None:
    made.world = TwoTopics(IcebergLake(CatalogSettings("jdbc", str(folder))))
    made.spec = replace(made.spec, topics=TOPICS)


def rows_of(made: OrderedChangelog, *more: str) -> list[dict[str, Any]]:
    names = ["kafka_key", "kafka_timestamp", "kafka_partition", "kafka_offset", *more]
    if "kafka_topic" in {column.name for column in made.view.columns}:
        names.append("kafka_topic")
    return [row for part in made.world.lake.read(made.view, columns=names, equal={}) for row in part.to_pylist()]


def order_of(row: dict[str, Any]) -> Order:
    number = number_of(row.get("kafka_topic"), row["kafka_partition"])
    return milliseconds(row["kafka_timestamp"]), number, row["kafka_offset"]


@dataclass
class NewestOfTopics(OrderedChangelog):
    """A table with the newest record of each key of both topics."""

    @classmethod
    def at(cls, folder: Path, **changes: object) -> NewestOfTopics:
        made = super().at(folder, **changes)
        assert isinstance(made, cls)
        of_both(made, folder)
        return made

    def records(self) -> dict[str, Order]:
        rows = rows_of(self)
        found = {row["kafka_key"]: order_of(row) for row in rows}
        assert len(found) == len(rows)
        return found


@dataclass
class HistoryOfTopics(OrderedHistory):
    """A table that has every version of a key of both topics."""

    @classmethod
    def at(cls, folder: Path, **changes: object) -> HistoryOfTopics:
        made = super().at(folder, **changes)
        assert isinstance(made, cls)
        of_both(made, folder)
        return made

    def stored(self) -> dict[str, list[Version]]:
        found: dict[str, list[Version]] = {key: [] for key in self.sent}
        for row in sorted(rows_of(self, "valid_from", "valid_to", "is_current"), key=order_of):
            assert row["valid_from"] == row["kafka_timestamp"]
            assert row["is_current"] is (row["valid_to"] is None)
            end = None if row["valid_to"] is None else milliseconds(row["valid_to"])
            found[row["kafka_key"]].append((order_of(row), end))
        return found


MADE: dict[str, type[NewestOfTopics | HistoryOfTopics]] = {"upsert": NewestOfTopics, "history": HistoryOfTopics}


@pytest.fixture
def changelog(tmp_path: Path) -> NewestOfTopics:
    return NewestOfTopics.at(tmp_path)


@pytest.fixture
def history(tmp_path: Path) -> HistoryOfTopics:
    return HistoryOfTopics.at(tmp_path)


def partitions(made: OrderedChangelog) -> dict[tuple[str, int], PartitionProgress]:
    sources = standing(made.view, pipeline=made.spec.pipeline).state.sources
    return {(source.topic, number): each for source in sources for number, each in source.partitions.items()}


def prove(made: OrderedChangelog) -> None:
    made.check()
    verification = made.against_kafka()
    assert (verification.findings, verification.notes) == ((), ())


def test_the_newest_record_wins_in_whichever_topic_it_is(changelog: NewestOfTopics) -> None:
    changelog.send_at(("a", 1, 5, 0), ("a", 2, 6, 2), ("b", 1, 9, 3))
    changelog.catch_up()
    changelog.send_at(("a", 3, 7, 1), ("b", 2, 8, 1), ("c", 1, 1, 2))
    changelog.catch_up()

    prove(changelog)
    assert changelog.records() == {"a": (7, 1, 0), "b": (9, 3, 0), "c": (1, 2, 1)}
    found = partitions(changelog)
    assert found["returns", 0].counts == Counts(read=2, rows=2)
    assert found["orders", 1].counts == Counts(read=2, rows=1, duplicates=1)
    assert (found["returns", 0].replaced, found["orders", 0].replaced) == (1, 1)


@pytest.mark.parametrize("partition", [0, 3], ids=["both topics have records", "one topic has records"])
def test_a_table_whose_topics_another_engine_dropped_pauses(changelog: NewestOfTopics, partition: int) -> None:
    """Rows without their topic would not be found, and their keys would get a second one."""
    changelog.send_at(("a", 1, 5, partition), ("b", 1, 9, 3))
    changelog.catch_up()
    with changelog.world.lake.catalog.load_table(changelog.spec.identifier).update_schema() as update:
        update.delete_column("kafka_topic")
    changelog.send_at(("a", 2, 6, 0))

    with pytest.raises(IncompatibleSchemaError, match="kafka_topic: was dropped by another tool: the rows before have"):
        changelog.catch_up()


def test_of_equal_timestamps_the_later_topic_wins(changelog: NewestOfTopics) -> None:
    changelog.send_at(("a", 1, 5, 2), ("b", 1, 5, 1))
    changelog.catch_up()
    changelog.send_at(("a", 2, 5, 1), ("b", 2, 5, 2))
    changelog.catch_up()

    prove(changelog)
    assert changelog.records() == {"a": (5, 2, 0), "b": (5, 2, 1)}


def test_a_delete_in_one_topic_is_remembered_for_the_other(changelog: NewestOfTopics) -> None:
    changelog.send_at(("a", 1, 5, 0), ("a", None, 7, 2), ("b", None, 7, 1))
    changelog.catch_up()
    changelog.send_at(("a", 2, 6, 1), ("b", 1, 7, 2), ("a", 3, 7, 0))
    changelog.catch_up()

    prove(changelog)
    assert changelog.records() == {"b": (7, 2, 1)}


@pytest.mark.parametrize("write", [*MADE])
def test_a_topic_may_be_added_and_removed(tmp_path: Path, write: str) -> None:
    """Rows from before there was a second topic name none. They are replaced, and counted, in the first one."""
    made = MADE[write].at(tmp_path)
    both = made.spec
    made.spec = replace(both, topics=TOPICS[:1])
    made.send_at(("a", 1, 5, 0), ("b", 1, 5, 1), ("c", None, 5, 1), ("d", 1, 3, 1), ("e", 1, 3, 0))
    made.catch_up()
    prove(made)

    made.spec = both
    made.send_at(("a", 2, 6, 2), ("b", 2, 4, 3), ("c", 1, 4, 2), ("d", None, 3, 3), ("e", 1, 3, 3))
    made.catch_up()
    prove(made)

    made.spec = replace(both, topics=TOPICS[1:])
    made.send_at(("b", 3, 9, 2), ("a", 3, 5, 3))
    made.catch_up()
    prove(made)
    if write == "upsert":
        assert made.records() == {"a": (6, 2, 0), "b": (9, 2, 2), "e": (3, 3, 2)}
        assert {at: each.replaced for at, each in partitions(made).items()} == {
            ("orders", 0): 2,
            ("orders", 1): 2,
            ("returns", 0): 0,
            ("returns", 1): 0,
        }


def without_topic(made: OrderedChangelog, spec: TableSpec) -> Verification:
    made.spec = spec
    cast("TwoTopics", made.world).dropped.add(TOPICS[0])
    return made.against_kafka()


def test_deletes_of_a_topic_that_is_gone_explain_lost_keys(changelog: NewestOfTopics) -> None:
    changelog.send_at(("a", 1, 5, 2), ("b", 1, 5, 2), ("c", 1, 9, 0))
    changelog.catch_up()
    changelog.send_at(("a", None, 6, 0))
    changelog.catch_up()
    prove(changelog)

    verification = without_topic(changelog, replace(changelog.spec, topics=TOPICS[1:]))

    assert verification.findings == ()
    gone, lost = verification.notes
    assert gone.startswith("orders: not compared")
    assert lost.startswith("returns-0: missing: the row of 1 key") and "deletes that Kafka does not have" in lost


def test_a_history_knows_of_deletes_in_a_topic_that_is_gone(history: HistoryOfTopics) -> None:
    history.send_at(("a", 1, 5, 2), ("a", None, 6, 0), ("b", 1, 5, 0))
    history.catch_up()

    verification = without_topic(history, replace(history.spec, topics=TOPICS[1:]))

    assert verification.findings == ()
    assert any("may end at other records" in note for note in verification.notes)


def test_a_record_of_another_topic_splits_an_interval(history: HistoryOfTopics) -> None:
    history.send_at(("a", 1, 2, 0), ("a", 2, 6, 3))
    history.catch_up()
    history.send_at(("a", 3, 4, 2), ("a", None, 6, 2), ("a", None, 7, 1))
    history.catch_up()

    prove(history)
    assert history.stored() == {"a": [((2, 0, 0), 4), ((4, 2, 0), 6), ((6, 3, 0), 7)]}


@dataclass
class OrderedEvents(Events):
    """A table that `kafka_timestamp` orders, whose model has the partitions of both topics by their numbers."""

    def stored(self, *more: str) -> list[tuple[Any, ...]]:
        rows = super().stored("kafka_topic", *more)
        return sorted((key, number_of(name, at), offset, *rest) for key, at, offset, name, *rest in rows)

    def letters(self) -> set[Place]:
        found = list_dead_letters(self.world.lake, self.spec, limit=99)
        return {(number_of(letter.topic, letter.partition), letter.offset) for letter in found.newest}


@pytest.mark.parametrize("write", [*MADE])
def test_dead_letters_of_both_topics_are_replayed(tmp_path: Path, write: str) -> None:
    events = OrderedEvents.at(tmp_path, write=write, on_tombstone="delete", **BY_TIME)
    events.send(("a", 1, 5), ("c", None, 5), partition=0)
    events.send(("a", 2, 4), ("b", 2, 3), ("c", 2, 4), partition=1, late=True)
    events.send(("a", 3, 6), ("b", None, 2), ("c", 3, 6), partition=2, late=True)
    events.catch_up()
    events.fix()

    result = events.replay()

    assert result.replayed == 6
    events.check()
    if write == "upsert":
        assert (result.duplicates, result.deletes) == (2, 1)
        assert events.stored() == [("a", 2, 0), ("b", 1, 1), ("c", 2, 2)]


def test_a_letter_whose_key_another_topic_may_have_deleted_stays(tmp_path: Path) -> None:
    events = OrderedEvents.at(tmp_path, write="upsert", on_tombstone="delete", **BY_TIME)
    events.send(("a", 1, 5), partition=1, late=True)
    events.send(("a", None, 6), partition=2)
    events.catch_up()
    events.fix()
    events.later(days=9)

    assert events.replay().stayed == {"order_unknown": 1}
    assert events.against_kafka().findings == ()


def findings(made: OrderedChangelog) -> list[tuple[FindingKind, str, str]]:
    return [(each.kind, each.where, each.what) for each in made.against_kafka().findings]


@pytest.fixture(params=[2, 8_000_000])
def most_held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_identity, "MOST_HELD", request.param)
    monkeypatch.setattr(history_ends, "MOST_HELD", request.param)
    monkeypatch.setattr(intervals, "MOST_HELD", request.param)


def with_source(rows: pa.Table, key: str, **values: object) -> pa.Table:
    for name, value in values.items():
        index, is_key = rows.schema.get_field_index(name), pc.equal(rows["kafka_key"], key)
        field = rows.schema.field(index)
        rows = rows.set_column(index, field, pc.if_else(is_key, pa.scalar(value, field.type), rows[name]))
    return rows


@pytest.mark.usefixtures("most_held")
def test_kafka_names_a_stale_row_and_a_deleted_key_by_their_topics(changelog: NewestOfTopics) -> None:
    changelog.send_at(("a", 1, 5, 1), ("b", 1, 5, 3), ("c", 1, 5, 1))
    changelog.catch_up()
    before = rows_of(changelog, "value")
    changelog.send_at(("a", 2, 6, 2), ("b", 2, 6, 0), ("c", None, 6, 3))
    changelog.catch_up()
    prove(changelog)

    for row in before:
        values = {name: row[name] for name in (*SOURCE, "kafka_timestamp", "value")}
        changelog.replace_rows(lambda rows, row=row, values=values: with_source(rows, row["kafka_key"], **values))

    stale = [each for each in findings(changelog) if each[0] is FindingKind.STALE_ROW]
    assert stale == [
        (
            FindingKind.STALE_ROW,
            "orders-0@0",
            "the row of the record's key is from returns-1@0, and the record is newer",
        ),
        (
            FindingKind.STALE_ROW,
            "returns-0@0",
            "the row of the record's key is from orders-1@0, and the record is newer",
        ),
    ]


@pytest.mark.usefixtures("most_held")
def test_wrong_intervals_are_named_by_their_topic(history: HistoryOfTopics) -> None:
    history.send_at(("a", 1, 2, 0), ("a", 2, 4, 2), ("a", None, 6, 1), ("b", 1, 1, 3), ("c", 1, 1, 0))
    history.catch_up()
    prove(history)
    (time,) = (row["valid_to"] for row in rows_of(history, "valid_to") if order_of(row) == (4, 2, 0))
    history.replace_rows(lambda rows: with_source(rows, "a", valid_to=time))

    named = [(kind, where) for kind, where, _ in findings(history) if kind is FindingKind.WRONG_INTERVAL]

    assert named == [(FindingKind.WRONG_INTERVAL, "returns-0@0"), (FindingKind.WRONG_INTERVAL, "orders-0@0")]


def test_a_rebuild_reads_both_topics_again(changelog: NewestOfTopics) -> None:
    changelog.send_at(("a", 1, 5, 0), ("a", 2, 6, 2), ("b", 1, 9, 3), ("c", None, 9, 1))
    changelog.catch_up()
    changelog.send_at(("a", 3, 7, 1), ("b", None, 8, 1), ("c", 1, 8, 2))
    changelog.catch_up()

    rebuild(changelog).perform()

    assert changelog.records() == changelog.live
    assert (changelog.verify().findings, changelog.against_kafka().findings) == ((), ())


@dataclass
class ShapesOfTopics(Shapes):
    """A log, the present state and the history of both topics."""

    def rows_unsorted(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        found = self.world.lake.read(self.stands(table).view, columns=[*columns, "kafka_topic"], equal={})
        rows = [row for part in found for row in part.to_pylist()]
        numbered = ({**row, "kafka_partition": number_of(row["kafka_topic"], row["kafka_partition"])} for row in rows)
        return [tuple(row[name] for name in columns) for row in numbered]

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        return sorted(self.rows_unsorted(table, *columns))


def test_shapes_of_two_topics_have_equal_records(tmp_path: Path) -> None:
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path)))
    shapes = ShapesOfTopics(TwoTopics(lake), specs(topics=TOPICS))
    shapes.send(("a", 1, 10, 0), ("b", 1, 11, 3), ("a", 2, 10, 2), ("c", 1, 8, 1))
    shapes.catch_up()
    shapes.send(("a", 3, 9, 1), ("b", None, 12, 0), ("b", 2, 11, 2), ("c", None, 9, 3), ("a", 4, 12, 2))
    shapes.catch_up()

    shapes.check()
    assert [finding for each in shapes.against_kafka() for finding in each.findings] == []


@pytest.mark.parametrize("write", [*MADE])
@settings(max_examples=examples(2, 100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(STAMPED, min_size=1, max_size=6), min_size=1, max_size=4), added=st.integers(0, 3))
def test_any_records_of_two_topics_are_the_model(
    tmp_path_factory: pytest.TempPathFactory, write: str, batches: list[list[Stamped]], added: int
) -> None:
    """The second topic is added before the batch with the number `added`, with the records that it has by then."""
    made = MADE[write].at(tmp_path_factory.mktemp("lake"))
    both, waiting = made.spec, list[tuple[str, bool, Order]]()
    for number, batch in enumerate(batches):
        made.spec = both if number >= added else replace(both, topics=TOPICS[:1])
        made.send_at(*batch)
        given, waiting = [*waiting, *made.pending], []
        if number < added:
            waiting = [each for each in given if each[2][1] >= OF_A_TOPIC]
        made.pending = [each for each in given if each not in waiting]
        made.catch_up()
        made.check()

    assert made.against_kafka().findings == ()
