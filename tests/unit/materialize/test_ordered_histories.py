"""Tables with `write: history` and `order_by`: late records and deletes, held against a model in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from changelogs import UPSERT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ordered_changelogs import STAMPED, Order, OrderedChangelog, Stamped, milliseconds
from whole_batches import World, drained, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.state import standing
from frazil.model.dead_letter import Reason
from frazil.model.errors import IncompatibleSchemaError, SpecError
from frazil.model.progress import Counts
from frazil.model.settings import CatalogSettings
from frazil.proof.verification import FindingKind
from frazil.verify import history_ends, intervals
from tests.fakes.clients_in_memory import a_field, record
from tests.sampling import examples

Version = tuple[Order, int | None]
"""The record of a row, and the end of its interval in milliseconds; None while it is valid."""


@dataclass
class OrderedHistory(OrderedChangelog):
    """A table that has every version of a key, in the order of `kafka_timestamp`."""

    sent: dict[str, list[tuple[Order, bool]]] = field(default_factory=dict)
    """The records of each key in whatever order they came, and whether they delete it."""

    @classmethod
    def at(cls, folder: Path, **changes: object) -> OrderedHistory:
        made = super().at(folder, write="history", **changes)
        assert isinstance(made, cls)
        return made

    def settle(self) -> None:
        for key, is_delete, order in self.pending:
            self.sent.setdefault(key, []).append((order, is_delete))
            self.counts += Counts(read=1) + (Counts(deletes=1) if is_delete else Counts(rows=1))
        self.pending = []

    def model(self) -> dict[str, list[Version]]:
        return {key: [*self._versions(sorted(records))] for key, records in self.sent.items()}

    def _versions(self, records: list[tuple[Order, bool]]) -> list[Version]:
        ends = [*(order[0] for order, _ in records[1:]), None]
        return [(order, end) for (order, is_delete), end in zip(records, ends, strict=True) if not is_delete]

    def stored(self) -> dict[str, list[Version]]:
        found: dict[str, list[Version]] = {key: [] for key in self.sent}
        source = ("kafka_timestamp", "kafka_partition", "kafka_offset")
        names = ["kafka_key", *source, "valid_from", "valid_to", "is_current"]
        rows = [row for part in self.world.lake.read(self.view, columns=names, equal={}) for row in part.to_pylist()]
        for row in sorted(rows, key=lambda row: [row[name] for name in source]):
            time, partition, offset = (row[name] for name in source)
            assert row["valid_from"] == time
            assert row["is_current"] is (row["valid_to"] is None)
            end = None if row["valid_to"] is None else milliseconds(row["valid_to"])
            found[row["kafka_key"]].append(((milliseconds(time), partition, offset), end))
        return found

    def check(self) -> None:
        assert self.stored() == self.model()
        verification = self.verify()
        assert verification.findings == ()
        assert verification.counts == self.counts


@pytest.fixture
def history(tmp_path: Path) -> OrderedHistory:
    return OrderedHistory.at(tmp_path)


def test_late_records_split_intervals_and_late_deletes_end_them(history: OrderedHistory) -> None:
    history.send_at(("a", 1, 10, 0), ("a", 2, 20, 1))
    history.catch_up()
    history.send_at(("a", 3, 13, 0), ("a", None, 16, 1), ("a", 4, 5, 1))
    history.catch_up()

    history.check()
    ends = [(order[0], end) for order, end in history.stored()["a"]]
    assert ends == [(5, 10), (10, 13), (13, 16), (20, None)]
    assert history.against_kafka().findings == ()


def test_a_delete_ends_a_row_that_comes_after_it(history: OrderedHistory) -> None:
    history.send_at(("a", None, 10, 0))
    history.catch_up()
    history.send_at(("a", 1, 7, 1), ("b", 1, 7, 1))
    history.catch_up()

    history.check()
    assert history.stored() == {"a": [((7, 1, 0), 10)], "b": [((7, 1, 1), None)]}


def test_every_delete_of_a_key_is_remembered(history: OrderedHistory) -> None:
    for stamp in (10, 20):
        history.send_at(("a", None, stamp, 0))
        history.catch_up()
    history.send_at(("a", 1, 7, 1), ("a", 2, 15, 1))
    history.catch_up()

    history.check()
    remembered = standing(history.view, pipeline=history.spec.pipeline).state.remembered
    assert remembered is not None and remembered.count == 2


def test_a_delete_that_is_forgotten_still_ends_the_interval_that_it_ended(history: OrderedHistory) -> None:
    history.send_at(("a", 1, 5, 0), ("a", None, 9, 0), ("b", None, 9, 0))
    history.catch_up()
    history.spec = replace(history.spec, delete_memory=timedelta(seconds=-1))
    history.send_at(("a", 2, 7, 1), ("b", 1, 7, 1))
    history.catch_up()

    assert history.stored()["a"] == history.model()["a"]
    assert history.stored()["b"] == [((7, 1, 1), None)], "a delete that ended no interval leaves no trace"


def test_a_batch_without_any_key_changes_no_row(history: OrderedHistory) -> None:
    history.send_at(("a", None, 9, 0))
    history.catch_up()
    history.partitions.records[0].append((None, b"{}", 1))
    history.catch_up()
    history.counts += Counts(read=1, dead_letters=1)
    history.send_at(("a", 1, 7, 1))
    history.catch_up()

    history.check()


def test_partitions_may_be_added(history: OrderedHistory) -> None:
    history.send_at(("a", 1, 5, 1))
    history.catch_up()
    history.partitions.records[2] = []
    history.send_at(("a", 2, 4, 2), ("a", None, 6, 2))
    history.catch_up()

    history.check()


@settings(max_examples=examples(4, 300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(STAMPED, min_size=1, max_size=6), min_size=1, max_size=5))
def test_whatever_the_order_and_the_batches_the_table_is_the_model(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Stamped]]
) -> None:
    history = OrderedHistory.at(tmp_path_factory.mktemp("lake"))
    for batch in batches:
        history.send_at(*batch)
        history.catch_up()
        assert history.stored() == history.model()

    history.check()
    assert history.against_kafka().findings == ()


Change = Callable[[pa.Table], pa.Table]


def time_of(column: str, offset: int, stamp: int) -> Change:
    def change(rows: pa.Table) -> pa.Table:
        index = rows.schema.get_field_index(column)
        time = pa.scalar(
            datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=stamp), rows.schema.field(index).type
        )
        values = pc.if_else(pc.equal(rows["kafka_offset"], offset), time, rows[column])
        return rows.set_column(index, rows.schema.field(index), values)

    return change


@pytest.mark.parametrize("most", [2, intervals.MOST_HELD])
@pytest.mark.parametrize(
    ("change", "named"),
    [
        (time_of("valid_to", 0, 15), [(2, "is valid after its valid_from")]),
        (time_of("valid_from", 2, 14), [(2, "valid_from is not kafka_timestamp")]),
        (time_of("kafka_timestamp", 1, 21), [(1, "valid_from is not kafka_timestamp")]),
    ],
)
def test_verify_names_a_wrong_interval(
    history: OrderedHistory, change: Change, named: list[tuple[int, str]], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "MOST_HELD", most)
    history.send_at(("a", 1, 10, 0), ("a", 2, 20, 0), ("a", 3, 13, 0), ("b", 1, 12, 0))
    history.catch_up()
    history.replace_rows(change)

    found = [each for each in history.verify().findings if each.kind is FindingKind.WRONG_INTERVAL]

    assert [(each.offsets[0], what) for each, (_, what) in zip(found, named, strict=True) if what in each.what] == named


def ends(history: OrderedHistory) -> list[tuple[int, str]]:
    """Return what Kafka says of the ends of intervals, by the offset of the row."""
    (kafka,) = (check for check in history.against_kafka().checks if check.name == "kafka")
    found = [each for each in kafka.findings if each.kind is FindingKind.WRONG_INTERVAL]
    return sorted((each.offsets[0], each.what) for each in found)


@pytest.mark.parametrize("most", [1, history_ends.MOST_HELD])
def test_kafka_names_an_end_that_is_not_the_next_record(
    history: OrderedHistory, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_ends, "MOST_HELD", most)
    history.send_at(("a", 1, 10, 0), ("a", None, 30, 1), ("a", 2, 40, 0), ("b", 1, 10, 0), ("c", None, 5, 1))
    history.catch_up()
    assert history.against_kafka().findings == ()

    history.replace_rows(time_of("valid_to", 0, 35))
    assert ends(history) == [(0, "valid_to is after the next record of the key in Kafka")]
    history.replace_rows(time_of("valid_to", 0, 25))
    assert ends(history) == [(0, "1 row ends before the next record of the key in Kafka: offset 0")]


BY_VALUE = replace(UPSERT, value="avro", table="prices", write="history", order_by="since", on_tombstone="dead_letter")
DAY = {"type": "int", "logicalType": "date"}
MICROSECONDS = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL_MICROSECONDS = {"type": "long", "logicalType": "local-timestamp-micros"}


class Prices:
    """A table whose rows are valid from a time in their value on."""

    def __init__(self, folder: Path, since: object) -> None:
        self.spec = BY_VALUE
        self.world = World(IcebergLake(CatalogSettings("jdbc", str(folder))))
        self.schema = record(a_field("since", ["null", since]))
        self.id = self.world.registry.register("orders-value", self.schema).id

    def send(self, *times: int | None) -> None:
        for each in times:
            self.world.keys[len(self.world.values)] = b"a"
            self.world.values.append(framed(self.id, self.schema, {"since": each}))

    def read(self, table: str, *columns: str) -> list[tuple[object, ...]]:
        view = self.world.lake.load(table)
        assert view is not None
        parts = self.world.lake.read(view, columns=list(columns), equal={})
        return sorted(tuple(row[name] for name in columns) for part in parts for row in part.to_pylist())

    def intervals(self) -> list[tuple[object, ...]]:
        drained(self.world, self.spec)
        return self.read(self.spec.identifier, "valid_from", "valid_to")

    def reasons(self) -> list[tuple[object, ...]]:
        return self.read(self.spec.dead_letters_identifier, "reason")


@pytest.mark.parametrize(
    ("since", "one", "times"),
    [(DAY, 1, 24 * 3600), (MICROSECONDS, 3 * 10**6, 3), (LOCAL_MICROSECONDS, 3 * 10**6, 3)],
)
def test_rows_are_valid_from_the_time_in_a_column_on(tmp_path: Path, since: object, one: int, times: int) -> None:
    prices = Prices(tmp_path, since)
    prices.send(one, 3 * one)
    prices.intervals()
    prices.send(2 * one)

    at = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=n * times) for n in range(4)]
    assert prices.intervals() == [(at[1], at[2]), (at[2], at[3]), (at[3], None)]


def test_a_record_without_a_time_is_a_dead_letter(tmp_path: Path) -> None:
    prices = Prices(tmp_path, MICROSECONDS)
    prices.send(5, None)

    assert len(prices.intervals()) == 1
    assert prices.reasons() == [(Reason.NULL_ORDER.value,)]


@pytest.mark.parametrize(
    ("since", "least", "greatest"), [(DAY, -(2**31), 2**31 - 1), (MICROSECONDS, -(2**63), 2**63 - 1)]
)
def test_a_time_that_no_interval_can_have_is_a_dead_letter(
    tmp_path: Path, since: object, least: int, greatest: int
) -> None:
    prices = Prices(tmp_path, since)
    prices.send(5, least, greatest)

    assert len(prices.intervals()) == 1
    assert prices.reasons() == [(Reason.OUT_OF_RANGE.value,)] * 2


@pytest.mark.parametrize("kind", ["int", "long", "string"])
def test_a_column_without_times_cannot_order_a_history(tmp_path: Path, kind: str) -> None:
    prices = Prices(tmp_path, kind)

    with pytest.raises(SpecError, match=rf"since: is {kind}, and intervals begin at dates and timestamps"):
        drained(prices.world, prices.spec)


def test_a_column_of_times_that_becomes_another_one_pauses_the_table(tmp_path: Path) -> None:
    prices = Prices(tmp_path, MICROSECONDS)
    prices.send(5)
    prices.intervals()
    prices.schema = record(a_field("since", ["null", "string"]))
    prices.id = prices.world.registry.register("orders-value", prices.schema).id
    prices.world.values.append(framed(prices.id, prices.schema, {"since": "now"}))

    with pytest.raises(IncompatibleSchemaError, match="since"):
        prices.intervals()
