"""Shapes whose records offsets order: the topic gets more partitions (docs/decisions/0036 and 0044)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ordered_changelogs import STAMPED, Stamped
from shaped_tables import TABLES, Shapes, specs
from test_added_partitions import BEFORE, GrowingChangelog
from test_added_partitions_of_histories import GrowingHistory
from test_groups import KilledError, kill
from test_shapes import roll_back

from frazil.materialize.added_partitions import note_on_order, offsets_first
from frazil.materialize.preview.explain import explain
from frazil.model.errors import SourceChangedError
from frazil.model.plan import BatchPlan
from frazil.model.summary import EPOCH
from tests.fakes.watched_lake import Around, Commit, WatchedLake, at_commit
from tests.sampling import examples, sampled

FOLLOW_KEYS = ("now", "history")


@dataclass
class GrowingShapes(Shapes):
    """A topic of one partition, to which a second one is added; `now` and `history` are the models of these tables."""

    now: GrowingChangelog = field(init=False)
    history: GrowingHistory = field(init=False)

    def __post_init__(self) -> None:
        log, now, history = (replace(each, order_by=None) for each in specs())
        self.tables = (log, now, history)
        self.now, self.history = GrowingChangelog(self.world, now), GrowingHistory(self.world, history)
        del self.world.records[1]

    def grow(self) -> None:
        self.world.records[1] = []

    def send_at(self, *records: Stamped) -> None:
        self.now.send_at(*records)
        self.history.pending = list(self.now.pending)

    def settle(self) -> None:
        self.now.settle()
        self.history.settle()

    def catch_up_and_settle(self) -> None:
        self.catch_up()
        self.settle()

    def check(self) -> None:
        """Check that each table is that of its model, and that all tables agree with each other and with Kafka."""
        assert self.now.records() == self.now.live
        assert self.history.stored() == self.history.model()
        sent = [(number, offset) for number, there in self.world.records.items() for offset in range(len(there))]
        assert self.rows("log", "kafka_partition", "kafka_offset") == sorted(sent)
        assert [str(finding) for each in self.against_kafka() for finding in each.findings] == []
        assert len({self.stands(table).state.itself for table in TABLES}) == 1
        orders = {name: offsets_first(spec, self.stands(name)) for name, spec in zip(TABLES, self.tables, strict=True)}
        assert orders["log"] == {}
        assert orders["now"] == orders["history"]

    def notes(self) -> list[str | None]:
        return [note_on_order(spec, self.stands(spec.table)) for spec in self.tables]


BY_TIME = "since partitions were added, kafka_timestamp orders the records of a key"


@pytest.fixture
def grown(tmp_path: Path) -> GrowingShapes:
    made = GrowingShapes.at(tmp_path)
    assert isinstance(made, GrowingShapes)
    made.send_at(("a", 1, 5, 0), ("b", 1, 6, 0), ("c", 1, 6, 0))
    made.catch_up_and_settle()
    made.grow()
    made.send_at(("a", 2, 4, 0), ("c", None, 7, 0), ("b", 2, 7, 1), ("c", 2, 6, 1), ("b", 3, 8, 0))
    return made


def test_former_partitions_are_read_first_in_all_shapes_and_timestamps_order_what_follows(
    grown: GrowingShapes,
) -> None:
    grown.catch_up_and_settle()

    grown.check()
    assert grown.now.records() == {"a": (4, 0, 3), "b": (8, 0, 5), "c": (6, 1, 1)}
    assert grown.notes() == [None, BY_TIME, BY_TIME]
    grown.send_at(("b", None, 9, 0), ("b", 3, 8, 1), ("a", None, 3, 1))
    grown.catch_up_and_settle()
    assert {*grown.now.records()} == {"a", "c"}
    grown.check()


def test_no_shape_reads_an_added_partition_before_all_have_read_the_former_ones(grown: GrowingShapes) -> None:
    grown.tables = tuple(replace(each, trigger=replace(each.trigger, rows=2)) for each in grown.tables)
    run, seen = grown.driver(), []
    while 1 not in grown.stands("log").state.sources[0].partitions:
        run.batch()
        seen.append((grown.notes()[1:], grown.stands("log").state.sources[0].partitions[0].next))

    waits = "partitions were added: they wait until the others are read up to the offsets 0: 6; then kafka_timestamp"
    assert seen[:3] == [([f"{waits} orders the records of a key"] * 2, offset) for offset in (3, 5, 6)]
    assert seen[3] == ([BY_TIME] * 2, 6)
    grown.catch_up_and_settle()
    grown.check()


def test_explain_shows_that_the_added_partition_waits(grown: GrowingShapes) -> None:
    plan = explain(grown.driver()).plan

    assert isinstance(plan, BatchPlan)
    assert {each.partition for each in plan.ranges} == {0}
    grown.catch_up()
    grown.send_at(("d", 1, 20, 1))
    plan = explain(grown.driver()).plan
    assert isinstance(plan, BatchPlan)
    assert {each.partition for each in plan.ranges} == {1}


@settings(max_examples=examples(1, 200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.lists(st.lists(BEFORE, min_size=1, max_size=5), min_size=1, max_size=3),
    unread=st.lists(BEFORE, max_size=6),
    after=st.lists(st.lists(STAMPED, min_size=1, max_size=5), min_size=1, max_size=3),
)
def test_the_tables_are_those_of_the_models(
    tmp_path_factory: pytest.TempPathFactory,
    before: Sequence[Sequence[Stamped]],
    unread: Sequence[Stamped],
    after: Sequence[Sequence[Stamped]],
) -> None:
    shapes = GrowingShapes.at(tmp_path_factory.mktemp("lake"))
    assert isinstance(shapes, GrowingShapes)
    for batch in before:
        shapes.send_at(*batch)
        shapes.catch_up_and_settle()
    shapes.grow()
    shapes.send_at(*unread)
    for batch in after:
        shapes.send_at(*batch)
        shapes.catch_up_and_settle()

    shapes.check()


def noting(names: list[str], act: Around) -> Around:
    def around(name: str, commit: Commit) -> object:
        names.append(name)
        return act(name, commit)

    return around


def test_a_process_may_die_at_any_commit(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Those that record the orders of the tables are among them, and what comes meanwhile changes no order."""
    names: list[str] = []
    for number, before in sampled(product(range(1, 21), [True, False]), keep=[(12, True)].__contains__):
        shapes = GrowingShapes.at(tmp_path_factory.mktemp("lake"))
        assert isinstance(shapes, GrowingShapes)
        shapes.send_at(("a", 1, 5, 0), ("b", 1, 6, 0), ("c", None, 6, 0))
        shapes.catch_up_and_settle()
        shapes.grow()
        shapes.send_at(("a", 2, 4, 0), ("b", None, 7, 0), ("b", 2, 7, 1), ("c", 2, 6, 1))
        lake = WatchedLake(shapes.world.lake._settings, around=noting(names, at_commit(number, kill, before=before)))
        with suppress(KilledError):
            shapes.catch_up(shapes.driver(lake=lake))
        shapes.now.by_offset = shapes.history.by_offset = True
        shapes.settle()
        shapes.send_at(("a", 3, 5, 1), ("b", 4, 6, 1), ("c", 3, 7, 1))
        shapes.catch_up_and_settle()

        shapes.check()
    assert "rows set_property_at" in names


def test_a_table_that_gets_its_order_late_has_that_of_the_other(grown: GrowingShapes) -> None:
    """The process dies when one table knows where its order ends, and a record comes before the other one does."""

    def around(name: str, commit: Commit) -> object:
        if lake.doing == "set_property_at":
            commit()
            raise KilledError
        return commit()

    lake = WatchedLake(grown.world.lake._settings, around=around)
    with pytest.raises(KilledError):
        grown.catch_up(grown.driver(lake=lake))
    assert grown.notes()[1] is not None and grown.notes()[2] is None
    grown.settle()
    grown.send_at(("a", 3, 3, 0))

    grown.catch_up_and_settle()

    assert offsets_first(grown.tables[1], grown.stands("now")) == {0: 6}
    grown.check()


def test_shapes_that_were_rolled_back_have_the_same_order_again(grown: GrowingShapes) -> None:
    grown.catch_up_and_settle()
    rows, versions = grown.now.records(), grown.history.stored()
    assert int(grown.stands("now").carrier.summary[EPOCH]) > 1

    roll_back(grown, 1)
    grown.catch_up()

    assert (grown.now.records(), grown.history.stored()) == (rows, versions)
    grown.check()


def test_shapes_without_a_column_of_timestamps_stop(tmp_path: Path) -> None:
    shapes = GrowingShapes.at(tmp_path)
    assert isinstance(shapes, GrowingShapes)
    keep = tuple(name for name in shapes.tables[0].metadata.keep if name != "timestamp")
    without = replace(shapes.tables[0].metadata, keep=keep)
    log, now, _ = (replace(each, metadata=without) for each in shapes.tables)
    shapes.send_at(("a", 1, 5, 0))
    tables = (log, now, replace(now, table="history"))
    shapes.catch_up(shapes.driver(tables=tables))
    shapes.grow()

    says = r"lake\.now: orders has 1 partition more(.|\n)*lake\.history(.|\n)*add timestamp to metadata\.keep"
    with pytest.raises(SourceChangedError, match=says):
        shapes.driver(tables=tables).batch()
