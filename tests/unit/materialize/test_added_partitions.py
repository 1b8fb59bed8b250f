"""Partitions that are added to the topic of a table whose records offsets order (docs/decisions/0036)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ordered_changelogs import STAMPED, OrderedChangelog, Stamped
from rebuilt_tables import KilledError, killed_at, move, rebuild, rewind
from test_verify_keyed import kafka, with_values
from values_of_tables import NOW
from whole_batches import drained

from frazil.materialize.added_partitions import note_on_order, offsets_first
from frazil.materialize.rebuild.perform import RebuildProgress
from frazil.materialize.rebuild.rewind import ToOffsets
from frazil.materialize.state import Standing, standing
from frazil.model.errors import RebuildError, SourceChangedError, SpecChangeError
from frazil.model.progress import Counts
from frazil.model.spec import StartEarliest, StartOffsets
from frazil.proof.verification import FindingKind
from frazil.verify import by_identity
from tests.sampling import examples, sampled

BEFORE = st.tuples(st.sampled_from("abcd"), st.integers(0, 9) | st.none(), st.integers(1, 12), st.just(0))


@dataclass
class GrowingChangelog(OrderedChangelog):
    """A table of a topic of one partition; a second one is added later."""

    by_offset: bool = True

    @classmethod
    def at(cls, folder: Path, **changes: object) -> GrowingChangelog:
        made = super().at(folder, order_by=None, **changes)
        assert isinstance(made, GrowingChangelog)
        del made.partitions.records[1]
        return made

    def grow(self) -> None:
        self.partitions.records[1] = []

    def settle(self) -> None:
        """Offsets order the records of the first partition that are there when the second one is seen."""
        later = [each for each in self.pending if each[2][1] == 1]
        if not self.by_offset:
            super().settle()
            return
        for key, is_delete, order in self.pending:
            if order[1] == 0:
                self.counts += Counts(read=1) + (Counts(deletes=1) if is_delete else Counts(rows=1))
                for column in (self.newest, self.live):
                    column.pop(key, None)
                    if not is_delete:
                        column[key] = order
        self.by_offset = 1 not in self.partitions.records
        self.pending = later
        super().settle()

    @property
    def standing(self) -> Standing:
        return standing(self.view, pipeline=self.spec.pipeline)


@pytest.fixture
def grown(tmp_path: Path) -> GrowingChangelog:
    """The row of a is that of the first partition's last record, with an earlier timestamp than the one before it."""
    made = GrowingChangelog.at(tmp_path)
    made.send_at(("a", 1, 5, 0), ("b", 1, 6, 0), ("c", 1, 6, 0))
    made.catch_up()
    made.grow()
    made.send_at(("a", 2, 4, 0), ("c", None, 7, 0), ("b", 2, 7, 1), ("c", 2, 6, 1))
    return made


def test_the_former_partitions_are_read_first_and_timestamps_order_what_follows(grown: GrowingChangelog) -> None:
    grown.catch_up()

    assert grown.records() == {"a": (4, 0, 3), "b": (7, 1, 0), "c": (6, 1, 1)}
    grown.check()
    assert grown.against_kafka().findings == ()
    grown.send_at(("b", None, 9, 0), ("b", 3, 8, 1))
    grown.catch_up()
    assert "b" not in grown.records()
    grown.check()


def test_an_added_partition_waits_until_the_others_are_read_to_the_end_they_had(grown: GrowingChangelog) -> None:
    grown.spec = replace(grown.spec, trigger=replace(grown.spec.trigger, rows=1))
    table = grown.world.table(grown.spec)
    seen: list[tuple[str | None, int]] = []
    while 1 not in grown.standing.state.sources[0].partitions:
        table.batch()
        seen.append((note_on_order(grown.spec, grown.standing), grown.next_offset))

    ends = "partitions were added: they wait until the others are read up to the offsets 0: 5; then kafka_timestamp"
    assert seen[:3] == [(f"{ends} orders the records of a key", offset) for offset in (3, 4, 5)]
    assert seen[3] == ("since partitions were added, kafka_timestamp orders the records of a key", 5)


def test_an_added_partition_is_read_though_the_table_has_read_nothing_yet(tmp_path: Path) -> None:
    log = GrowingChangelog.at(tmp_path)
    log.catch_up()
    log.grow()
    log.send_at(("a", 1, 5, 1), ("b", 1, 6, 1))

    log.catch_up()

    assert log.records() == {"a": (5, 1, 0), "b": (6, 1, 1)}
    log.send_at(("a", 2, 4, 0), ("b", 2, 7, 0))
    log.catch_up()
    assert log.records() == {"a": (5, 1, 0), "b": (7, 0, 1)}
    assert log.against_kafka().findings == ()


def test_records_that_come_meanwhile_do_not_keep_it_waiting(grown: GrowingChangelog) -> None:
    table = grown.world.table(grown.spec)
    for _ in range(4):
        table.batch()
        grown.send_at(("d", 1, 20, 0))

    assert 1 in grown.standing.state.sources[0].partitions


@settings(max_examples=examples(3, 300), suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        patch.setattr(by_identity, "MOST_HELD", most)
        changelog = GrowingChangelog.at(tmp_path_factory.mktemp("lake"))
        for batch in before:
            changelog.send_at(*batch)
            changelog.catch_up()
        changelog.grow()
        changelog.send_at(*unread)
        for batch in after:
            changelog.send_at(*batch)
            changelog.catch_up()

        changelog.check()
        verification = changelog.against_kafka()
    assert (verification.findings, verification.notes) == ((), ())


def test_a_stale_row_is_named_whichever_order_it_has(grown: GrowingChangelog) -> None:
    grown.catch_up()
    grown.replace_rows(lambda rows: with_values(rows, "a", kafka_offset=0, kafka_timestamp=_at(5), value='{"n": 1}'))

    says = "orders-0@3: the row of the record's key is from offset 0, and the record is newer"
    assert dict(kafka(grown))[FindingKind.STALE_ROW] == says


def test_a_table_that_cannot_be_ordered_by_time_is_left_alone(tmp_path: Path) -> None:
    changelog = GrowingChangelog.at(tmp_path)
    keep = tuple(name for name in changelog.spec.metadata.keep if name != "timestamp")
    changelog.spec = replace(changelog.spec, metadata=replace(changelog.spec.metadata, keep=keep))
    changelog.send_at(("a", 1, 5, 0))
    changelog.catch_up()
    changelog.grow()

    with pytest.raises(SourceChangedError, match="offsets of two partitions do not say which record is newer"):
        drained(changelog.world, changelog.spec)


def test_the_timestamps_stay_and_may_get_another_prefix(grown: GrowingChangelog) -> None:
    grown.catch_up()
    metadata = grown.spec.metadata
    without = replace(metadata, keep=tuple(name for name in metadata.keep if name != "timestamp"))

    with pytest.raises(SpecChangeError, match="kafka_timestamp orders the records of a key, since partitions were"):
        drained(grown.world, replace(grown.spec, metadata=without))
    renamed = replace(grown.spec, metadata=replace(metadata, prefix="k_"))
    grown.send_at(("a", 3, 3, 1), ("a", 4, 9, 1))
    drained(grown.world, renamed)
    drained(grown.world, replace(renamed, order_by="k_timestamp"))
    (row,) = [
        row
        for batch in grown.world.lake.read(grown.view, columns=["k_key", "k_partition", "k_offset"], equal={})
        for row in batch.to_pylist()
        if row["k_key"] == "a"
    ]
    assert (row["k_partition"], row["k_offset"]) == (1, 3)


def _at(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def test_rows_that_are_older_than_the_column_of_timestamps_are_older_than_any_record(tmp_path: Path) -> None:
    """The table gets `kafka_timestamp` when it has rows already: these have none."""
    changelog = GrowingChangelog.at(tmp_path)
    kept = changelog.spec.metadata
    without = tuple(name for name in kept.keep if name != "timestamp")
    changelog.spec = replace(changelog.spec, metadata=replace(kept, keep=without))
    changelog.send_at(("a", 1, 9, 0), ("b", 1, 9, 0), ("c", 1, 9, 0))
    changelog.catch_up()
    changelog.spec = replace(changelog.spec, metadata=kept)
    changelog.grow()
    changelog.send_at(("a", 2, 5, 1), ("b", None, 5, 1))
    drained(changelog.world, changelog.spec)

    found = changelog.world.lake.read(changelog.view, columns=["kafka_key", "kafka_partition"], equal={})
    rows = sorted((row["kafka_key"], row["kafka_partition"]) for part in found for row in part.to_pylist())
    assert rows == [("a", 1), ("c", 0)]
    assert changelog.against_kafka().findings == ()


def test_a_rewound_table_has_the_same_order_again(grown: GrowingChangelog) -> None:
    grown.catch_up()
    before = grown.records()

    rewind(grown, ToOffsets({"orders": {0: 3}})).perform()

    check_goes_on_by_time(grown, before)


def test_a_table_that_was_rolled_back_has_the_same_order_again(grown: GrowingChangelog) -> None:
    first = grown.view.head
    assert first is not None
    grown.catch_up()
    before = grown.records()

    move(grown, first)
    drained(grown.world, grown.spec)

    check_goes_on_by_time(grown, before)


def test_timestamps_that_the_spec_names_by_now_order_what_is_read_again(grown: GrowingChangelog) -> None:
    first = grown.view.head
    assert first is not None
    grown.catch_up()
    grown.spec = replace(grown.spec, order_by="kafka_timestamp")

    move(grown, first)
    drained(grown.world, grown.spec)

    assert grown.records() == {"a": (5, 0, 0), "b": (7, 1, 0)}, "the delete of c has a later timestamp"
    assert grown.against_kafka().findings == ()


@pytest.fixture
def reordered(tmp_path: Path) -> GrowingChangelog:
    """Timestamps order the later records of the former partition, too."""
    made = GrowingChangelog.at(tmp_path)
    made.spec = replace(made.spec, trigger=replace(made.spec.trigger, rows=4))
    made.send_at(*(("b", n, 20 - n, 0) for n in range(6)), ("a", 1, 6, 0), ("c", 1, 9, 0))
    made.catch_up()
    made.grow()
    made.send_at(("a", 2, 7, 1), ("a", None, 8, 1))
    made.catch_up()
    made.send_at(("c", 2, 12, 0), ("c", 3, 10, 0), ("b", None, 30, 0), ("b", 9, 25, 1))
    made.catch_up()
    assert made.records() == {"c": (12, 0, 8)}
    return made


@pytest.mark.parametrize("point", [None, 0, 5, 9])
def test_a_rebuilt_or_rewound_table_is_what_it_was(reordered: GrowingChangelog, point: int | None) -> None:
    before, first = reordered.records(), offsets_first(reordered.spec, reordered.standing)

    act = rebuild(reordered) if point is None else rewind(reordered, ToOffsets({"orders": {0: point}}))
    act.perform()

    assert offsets_first(reordered.spec, reordered.standing) == first == {0: 8}
    assert reordered.records() == before
    assert reordered.against_kafka().findings == ()


@pytest.mark.parametrize("after", [False, True])
def test_a_rebuild_that_dies_at_any_commit_has_the_same_order_again(
    reordered: GrowingChangelog, tmp_path: Path, after: bool
) -> None:
    before, deaths = reordered.records(), 0
    for number in sampled(range(20), keep=lambda number: number in (4, 9)):
        with suppress(KilledError), killed_at(reordered, number, after=after):
            rebuild(reordered).perform()
            continue
        deaths += 1
        rebuild(reordered).perform()

        assert reordered.records() == before
        assert reordered.against_kafka().findings == ()
    assert deaths


def test_partitions_that_are_added_during_a_rebuild_are_ordered_as_in_the_table(tmp_path: Path) -> None:
    changelog = GrowingChangelog.at(tmp_path)
    changelog.send_at(("a", 1, 6, 0), ("b", 1, 9, 0))
    changelog.catch_up()

    def grow(progress: RebuildProgress) -> None:
        if 1 not in changelog.partitions.records:
            changelog.grow()
            changelog.send_at(("a", 2, 5, 0), ("a", 3, 4, 1), ("a", None, 7, 1), ("b", 2, 8, 1))
            changelog.catch_up()

    rebuild(changelog, report=grow).perform()

    assert changelog.records() == {"b": (9, 0, 1)}
    assert changelog.against_kafka().findings == ()


def test_a_rebuild_by_a_spec_without_that_order_is_refused(grown: GrowingChangelog) -> None:
    grown.catch_up()
    before = grown.view.head
    grown.spec = replace(grown.spec, start=StartOffsets({0: 1}))

    with pytest.raises(
        RebuildError, match=r"does not say which record of a key is the newest.*\n\n.*order_by: kafka_t"
    ):
        rebuild(grown).perform()

    assert grown.view.head == before
    grown.spec = replace(grown.spec, start=StartEarliest(), order_by="kafka_timestamp")
    rebuild(grown).perform()
    assert grown.records() == {"a": (5, 0, 0), "b": (7, 1, 0)}


def test_a_table_is_not_complete_as_long_as_a_partition_waits(grown: GrowingChangelog) -> None:
    was = grown.standing.state.complete_through
    grown.spec = replace(grown.spec, trigger=replace(grown.spec.trigger, rows=2))
    table = grown.world.table(grown.spec)
    ticks = count(1)
    table.clients = replace(table.clients, now=lambda: NOW + timedelta(minutes=next(ticks)))
    while 1 not in grown.standing.state.sources[0].partitions:
        assert grown.standing.state.complete_through == was
        table.batch()
    drained(grown.world, grown.spec)

    assert grown.standing.state.complete_through != was


def check_goes_on_by_time(changelog: GrowingChangelog, before: dict[str, tuple[int, int, int]]) -> None:
    """The table is as it was, and timestamps order what follows."""
    assert note_on_order(changelog.spec, changelog.standing) == (
        "since partitions were added, kafka_timestamp orders the records of a key"
    )
    assert changelog.records() == before
    changelog.send_at(("b", 5, 9, 0), ("b", 6, 8, 1))
    drained(changelog.world, changelog.spec)
    assert changelog.records()["b"] == (9, 0, 5)
    assert changelog.against_kafka().findings == ()
