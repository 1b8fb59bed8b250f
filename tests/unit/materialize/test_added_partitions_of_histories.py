"""`write: history` without `order_by`: the topic gets more partitions (docs/decisions/0036)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ordered_changelogs import STAMPED, Order, OrderedChangelog, Stamped, milliseconds
from rebuilt_tables import move, rebuild, rewind
from test_added_partitions import BEFORE

from frazil.materialize.added_partitions import note_on_order, offsets_first
from frazil.materialize.rebuild.rewind import ToOffsets
from frazil.materialize.state import Standing, standing
from frazil.model.progress import Counts
from frazil.proof.verification import FindingKind
from frazil.verify import history_ends, intervals
from tests.sampling import examples

Version = tuple[Order, int, int | None]
"""The timestamp, partition and offset of the record of a row, and its interval in milliseconds."""
FIRST = -1
"""The partition of a delete that offsets ordered: it is the first thing at its time."""


@dataclass(frozen=True, order=True)
class Event:
    """A record with the time from which on it counts, and the records of its time that it follows."""

    time: int
    partition: int
    offset: int
    is_end: bool
    """Whether a delete that offsets ordered ends the row of this partition and offset at once."""
    stamp: int | None = field(compare=False)
    """The timestamp of the record of a row; None for a delete."""


@dataclass
class GrowingHistory(OrderedChangelog):
    """A table with every version of a key, of a topic of one partition; a second one is added later."""

    events: dict[str, list[Event]] = field(default_factory=dict)
    by_offset: bool = True

    @classmethod
    def at(cls, folder: Path, **changes: object) -> GrowingHistory:
        made = super().at(folder, order_by=None, write="history", **changes)
        assert isinstance(made, cls)
        del made.partitions.records[1]
        return made

    def grow(self) -> None:
        self.partitions.records[1] = []

    def settle(self) -> None:
        """Offsets order the records of the first partition that are there when the second one is seen."""
        for key, is_delete, order in sorted(self.pending, key=lambda each: each[2][1]):
            self.counts += Counts(read=1) + (Counts(deletes=1) if is_delete else Counts(rows=1))
            events = self.events.setdefault(key, [])
            if not self.by_offset or order[1] == 1:
                events.append(Event(*order, is_end=False, stamp=None if is_delete else order[0]))
            else:
                self._add_by_offset(events, order, is_delete=is_delete)
        self.by_offset = self.by_offset and 1 not in self.partitions.records
        self.pending = []

    def _add_by_offset(self, events: list[Event], order: Order, *, is_delete: bool) -> None:
        stamp, partition, offset = order
        before = events[-1] if events else None
        time = stamp if before is None else max(stamp, before.time)
        if not is_delete:
            events.append(Event(time, partition, offset, is_end=False, stamp=stamp))
        elif before is not None and before.stamp is not None:
            at_once = time == before.time
            place = (before.partition, before.offset) if at_once else (FIRST, FIRST)
            events.append(Event(time, *place, is_end=at_once, stamp=None))

    def model(self) -> dict[str, list[Version]]:
        return {key: [*self._versions(sorted(events))] for key, events in self.events.items()}

    def _versions(self, events: list[Event]) -> list[Version]:
        ends = [*(each.time for each in events[1:]), None]
        return [
            ((each.stamp, each.partition, each.offset), each.time, end)
            for each, end in zip(events, ends, strict=False)
            if each.stamp is not None
        ]

    def stored(self) -> dict[str, list[Version]]:
        found: dict[str, list[Version]] = {key: [] for key in self.events}
        names = ["kafka_key", "kafka_timestamp", "kafka_partition", "kafka_offset", "valid_from", "valid_to"]
        rows = [row for part in self.world.lake.read(self.view, columns=names, equal={}) for row in part.to_pylist()]
        for row in sorted(rows, key=lambda row: [row[name] for name in ("valid_from", *names[2:4])]):
            record = (milliseconds(row["kafka_timestamp"]), row["kafka_partition"], row["kafka_offset"])
            end = None if row["valid_to"] is None else milliseconds(row["valid_to"])
            found[row["kafka_key"]].append((record, milliseconds(row["valid_from"]), end))
        return found

    def check(self) -> None:
        assert self.stored() == self.model()
        for verification in (self.verify(), self.against_kafka()):
            assert (verification.findings, verification.notes) == ((), ())
            assert verification.counts == self.counts

    @property
    def standing(self) -> Standing:
        return standing(self.view, pipeline=self.spec.pipeline)


@pytest.fixture
def grown(tmp_path: Path) -> GrowingHistory:
    """The second record of a counts as of the time of the first one, and the delete of c ends no row."""
    made = GrowingHistory.at(tmp_path)
    made.send_at(("a", 1, 5, 0), ("b", 1, 6, 0), ("c", None, 6, 0))
    made.catch_up()
    made.grow()
    made.send_at(("a", 2, 4, 0), ("b", None, 8, 0), ("b", 2, 7, 1), ("c", 1, 5, 1), ("a", 3, 3, 1))
    return made


def test_former_partitions_are_read_first_and_late_records_split_their_intervals(grown: GrowingHistory) -> None:
    grown.catch_up()

    grown.check()
    assert grown.stored() == {
        "a": [((3, 1, 2), 3, 5), ((5, 0, 0), 5, 5), ((4, 0, 3), 5, None)],
        "b": [((6, 0, 1), 6, 7), ((7, 1, 0), 7, 8)],
        "c": [((5, 1, 1), 5, None)],
    }
    assert note_on_order(grown.spec, grown.standing) == (
        "since partitions were added, kafka_timestamp orders the records of a key"
    )
    grown.send_at(("a", None, 9, 1), ("c", None, 4, 0), ("b", 3, 8, 0))
    grown.catch_up()
    grown.send_at(("c", 2, 3, 1), ("a", 4, 8, 0), ("b", None, 10, 1))
    grown.catch_up()
    grown.check()


@settings(max_examples=examples(4, 300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.lists(st.lists(BEFORE, min_size=1, max_size=5), min_size=1, max_size=3),
    unread=st.lists(BEFORE, max_size=4),
    after=st.lists(st.lists(STAMPED, min_size=1, max_size=5), min_size=1, max_size=3),
    most=st.sampled_from([2, 9]),
)
def test_the_table_is_that_of_the_model_and_kafka_agrees(
    tmp_path_factory: pytest.TempPathFactory,
    before: Sequence[Sequence[Stamped]],
    unread: Sequence[Stamped],
    after: Sequence[Sequence[Stamped]],
    most: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_ends, "MOST_HELD", most)
        patch.setattr(intervals, "MOST_HELD", most)
        history = GrowingHistory.at(tmp_path_factory.mktemp("lake"))
        for batch in before:
            history.send_at(*batch)
            history.catch_up()
        history.grow()
        history.send_at(*unread)
        for batch in after:
            history.send_at(*batch)
            history.catch_up()
            assert history.stored() == history.model()

        history.check()


@pytest.mark.parametrize("point", [None, 0, 3])
def test_a_rebuilt_or_rewound_history_is_what_it_was(grown: GrowingHistory, point: int | None) -> None:
    grown.catch_up()
    before, first = grown.stored(), offsets_first(grown.spec, grown.standing)

    act = rebuild(grown) if point is None else rewind(grown, ToOffsets({"orders": {0: point}}))
    act.perform()

    assert offsets_first(grown.spec, grown.standing) == first == {0: 5}
    assert grown.stored() == before
    grown.check()


def test_a_history_that_was_rolled_back_has_the_same_order_again(grown: GrowingHistory) -> None:
    first = grown.view.head
    assert first is not None
    grown.catch_up()
    before = grown.stored()

    move(grown, first)
    grown.catch_up()

    assert grown.stored() == before
    assert grown.against_kafka().findings == ()


Change = Callable[[pa.Table], pa.Table]


def with_time(column: str, place: tuple[int, int], stamp: int | None) -> Change:
    def change(rows: pa.Table) -> pa.Table:
        index = rows.schema.get_field_index(column)
        of_row = pc.and_(pc.equal(rows["kafka_partition"], place[0]), pc.equal(rows["kafka_offset"], place[1]))
        time = None if stamp is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=stamp)
        values = pc.if_else(of_row, pa.scalar(time, rows.schema.field(index).type), rows[column])
        return rows.set_column(index, rows.schema.field(index), values)

    return change


@pytest.mark.parametrize(
    ("change", "where", "says"),
    [
        (with_time("valid_from", (1, 0), 6), "orders-1@0", "valid_from is not kafka_timestamp"),
        (with_time("valid_to", (1, 0), 9), "orders-1@0", "valid_to is after the next record of the key in Kafka"),
        (with_time("valid_to", (0, 1), 8), "orders-1@0", "the row before it of its key is valid after its valid_from"),
        (with_time("valid_from", (0, 0), 6), "orders-0@0", "the row before it of its key is of a later record"),
    ],
)
def test_wrong_intervals_are_named_whichever_order_a_row_has(
    grown: GrowingHistory, change: Change, where: str, says: str
) -> None:
    grown.catch_up()
    grown.replace_rows(change)

    found = {
        (each.where, each.what) for each in grown.against_kafka().findings if each.kind is FindingKind.WRONG_INTERVAL
    }

    assert (where, says) in found
