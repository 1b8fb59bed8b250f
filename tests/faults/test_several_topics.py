"""Topics are added to a spec and removed from it: the table continues, and its proof covers them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import And, EqualTo, IsNull

from frazil.local.supervisor import LocalServices
from frazil.materialize.outcome import Published
from frazil.materialize.run import TableRun
from frazil.model.errors import BrokerError, FencedError, ForeignOwnerError, RecordsLostError, SourceChangedError
from frazil.model.plan import NothingToDo, TopicFacts
from frazil.model.spec import MetadataColumns, Start, StartEarliest, StartLatest, TableSpec
from frazil.proof.verification import FindingKind, Verification
from frazil.status import TableStatus, table_statuses
from frazil.verify.table import verify_table
from tests.faults.moments import Moment, at
from tests.faults.test_topics import TopicsThatSay, delete_records, recreate, wait_until
from tests.faults.world import World, admin_of, jdbc_catalog, kafka_side, new_world, topics_of, until_caught_up
from tests.sampling import sampled

KEEP = MetadataColumns().keep
CRASHES: list[Moment] = sampled(
    [
        ("after", "create"),
        ("after", "follow_spec"),
        ("after", "evolve"),
        ("after", "plan"),
        ("after", "ingest"),
        ("after", "prepare"),
        ("after", "stage"),
        ("after", "publish"),
        ("after", "reveal"),
    ],
    keep=lambda moment: moment[1] in ("follow_spec", "evolve", "prepare", "stage", "publish"),
)


class ProcessDiedError(Exception):
    """A driver ends here."""


@dataclass
class Topics:
    """Two topics, each with its own reckoning, and one table."""

    first: World
    second: World

    def spec(self, *topics: World, start: Start | None = None) -> TableSpec:
        """The spec of the table as its file says it: several topics keep the column for theirs."""
        keep = KEEP if len(topics) == 1 else ("topic", *KEEP)
        return replace(
            self.first.spec,
            topics=tuple(each.topic for each in topics),
            metadata=MetadataColumns(keep=keep),
            start=start or StartEarliest(),
        )

    @property
    def both(self) -> TableSpec:
        return self.spec(self.first, self.second)

    @property
    def one(self) -> TableSpec:
        return self.spec(self.first)

    def run(self, spec: TableSpec, moment: Moment | None = None) -> TableRun:
        """A new process, which dies at a moment."""
        clients = self.first.setting.clients(
            lake=self.first.lake, observe=None if moment is None else at(moment, self._die)
        )
        return replace(self.first.setting, spec=spec).run(clients)

    def _die(self) -> None:
        raise ProcessDiedError

    def verified(self, spec: TableSpec) -> Verification:
        return verify_table(self.first.lake, spec, kafka=kafka_side(self.first))

    def status(self, spec: TableSpec) -> TableStatus:
        topics, now = topics_of(self.first.setting.services), self.first.setting.clients().now()
        (found,) = table_statuses(
            self.first.lake, topics, [spec], delta_logs=self.first.setting.clients().delta_logs, now=now
        )
        return found

    def assert_exactly_once(self, spec: TableSpec) -> None:
        """Check that each record of each topic is one row or one dead letter, in the topic that it came from."""
        rows = self.first.scanned(spec.identifier, "n", "kafka_topic", "kafka_partition", "kafka_offset")
        dead = self.first.scanned(spec.dead_letters_identifier, "topic", "partition", "offset")
        named = [(n, topic or self.first.topic, *place) for n, topic, *place in rows]

        assert Counter(named) == Counter(
            (n, each.topic, *place) for each in (self.first, self.second) for place, n in each.rows.items()
        )
        assert Counter(dead) == Counter(
            (each.topic, *place) for each in (self.first, self.second) for place in each.bad
        )
        proof = self.verified(spec)
        assert proof.clean, [str(finding) for finding in proof.findings]


@pytest.fixture
def topics(services: LocalServices, tmp_path: Path) -> Topics:
    catalog = jdbc_catalog(tmp_path / "warehouse")
    return Topics(new_world(services, catalog), new_world(services, catalog))


def test_a_topic_is_added_removed_and_added_again(topics: Topics) -> None:
    topics.first.produce(6)
    topics.second.produce(6)
    until_caught_up(topics.run(topics.one))
    through = complete_through(topics, topics.one)
    until_caught_up(topics.run(topics.both))
    topics.assert_exactly_once(topics.both)
    assert {row[0] for row in topics.first.scanned(topics.one.identifier, "kafka_topic")} == {None, topics.second.topic}

    later = complete_through(topics, topics.both)
    assert later > through
    topics.first.produce(6)
    before_removal = dict(topics.second.rows), dict(topics.second.bad)
    topics.second.produce(6)
    after_removal = topics.second.rows, topics.second.bad
    topics.second.rows, topics.second.bad = before_removal
    until_caught_up(topics.run(topics.one))
    topics.assert_exactly_once(topics.one)
    assert complete_through(topics, topics.one) > later
    assert topics.status(topics.one).removed_topics == (topics.second.topic,)
    assert topics.status(topics.one).lag == 0

    topics.second.rows, topics.second.bad = after_removal
    until_caught_up(topics.run(topics.both))
    topics.assert_exactly_once(topics.both)
    assert topics.status(topics.both).removed_topics == ()
    named = Counter(row[0] for row in topics.first.scanned(topics.one.identifier, "kafka_topic"))
    assert set(named) == {None, topics.first.topic, topics.second.topic}


def complete_through(topics: Topics, spec: TableSpec) -> datetime:
    found = topics.status(spec).complete_through
    assert found is not None
    return found


def test_the_first_topic_can_leave_and_its_rows_without_a_topic_stay_its_own(topics: Topics) -> None:
    topics.first.produce(6)
    until_caught_up(topics.run(topics.one))
    topics.second.produce(6)
    until_caught_up(topics.run(topics.both))
    second = topics.spec(topics.second)
    topics.second.produce(6)

    until_caught_up(topics.run(second))

    topics.assert_exactly_once(second)
    assert topics.status(second).removed_topics == (topics.first.topic,)


def without_first(rows: pa.Table) -> pa.Table:
    return rows.slice(1)


def renamed_to(topic: str | None) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        column = rows.schema.get_field_index("kafka_topic")
        named = [topic, *rows.column(column).to_pylist()[1:]]
        return rows.set_column(column, rows.schema.field(column), pa.array(named, rows.schema.field(column).type))

    return change


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (without_first, FindingKind.LOST_ROWS),
        (renamed_to(None), FindingKind.DOUBLED_ROWS),
        (renamed_to("another"), FindingKind.OUT_OF_BOUNDS),
    ],
    ids=["a lost row", "a row that lost its topic", "a row of another topic"],
)
def test_damage_to_the_rows_of_a_removed_topic_is_found(
    topics: Topics, change: Callable[[pa.Table], pa.Table], kind: FindingKind
) -> None:
    topics.first.produce(6)
    topics.second.produce(6)
    until_caught_up(topics.run(topics.one))
    until_caught_up(topics.run(topics.both))
    until_caught_up(topics.run(topics.one))
    assert verify_table(topics.first.lake, topics.one).clean
    path = next(path for path in files_of(topics) if "kafka_topic" in pq.read_schema(path).names)
    there = pq.read_table(path)
    pq.write_table(change(there).cast(there.schema), path, compression="zstd")

    found = {each.kind for each in verify_table(topics.first.lake, topics.one).findings}

    assert {kind, FindingKind.LOST_ROWS} <= found


def files_of(topics: Topics) -> list[str]:
    files = topics.first.table(topics.one.identifier).inspect.files()["file_path"].to_pylist()
    return [str(path).removeprefix("file://") for path in files]


@pytest.mark.parametrize("moment", CRASHES, ids=" ".join)
def test_a_process_that_dies_while_a_topic_is_added_leaves_nothing_twice(topics: Topics, moment: Moment) -> None:
    topics.first.produce(6)
    until_caught_up(topics.run(topics.one))
    topics.first.produce(6)
    topics.second.produce(6)

    with pytest.raises(ProcessDiedError):
        topics.run(topics.both, moment).batch()
    unread = topics.verified(topics.both)
    assert unread.clean, [str(finding) for finding in unread.findings]
    until_caught_up(topics.run(topics.both))

    topics.assert_exactly_once(topics.both)


def test_a_process_that_dies_while_a_topic_is_added_leaves_a_table_that_goes_on_without_it(topics: Topics) -> None:
    topics.first.produce(6)
    until_caught_up(topics.run(topics.one))
    topics.first.produce(6)
    with pytest.raises(ProcessDiedError):
        topics.run(topics.both, ("after", "stage")).batch()

    until_caught_up(topics.run(topics.one))

    assert topics.verified(topics.one).clean
    assert topics.status(topics.one).removed_topics == ()


def test_an_added_topic_begins_where_start_says_even_if_nothing_was_to_be_read(topics: Topics) -> None:
    topics.first.produce(6)
    until_caught_up(topics.run(topics.one))
    topics.second.produce(6)
    topics.second.rows, topics.second.bad = {}, {}
    latest = topics.spec(topics.first, topics.second, start=StartLatest())

    outcomes = until_caught_up(topics.run(latest))

    assert [type(outcome) for outcome in outcomes] == [Published, NothingToDo]
    topics.second.produce(6)
    until_caught_up(topics.run(latest))
    topics.assert_exactly_once(latest)


def test_retention_before_the_first_batch_with_a_topic_only_moves_its_beginning(topics: Topics) -> None:
    topics.first.produce(6)
    until_caught_up(topics.run(topics.one))
    topics.second.produce(6)
    first_gone = at(("after", "plan"), lambda: delete_records(topics.second, 1))
    clients = topics.first.setting.clients(lake=topics.first.lake, observe=first_gone)

    until_caught_up(replace(topics.first.setting, spec=topics.both).run(clients))

    for place in [(0, 0), (1, 0)]:
        topics.second.rows.pop(place, None)
        topics.second.bad.pop(place, None)
    topics.assert_exactly_once(topics.both)


@pytest.mark.parametrize("expired", [False, True], ids=["with its snapshots", "with expired dead letters"])
def test_a_topic_that_was_added_is_taken_back_with_a_rollback_and_read_again(topics: Topics, *, expired: bool) -> None:
    topics.first.produce(6)
    until_caught_up(topics.run(topics.one))
    topics.second.produce(6)
    until_caught_up(topics.run(topics.both))
    topics.first.roll_back()
    if expired:
        topics.first.expire(topics.one.dead_letters_identifier)
    topics.second.produce(6)

    until_caught_up(topics.run(topics.both))

    topics.assert_exactly_once(topics.both)


@pytest.mark.parametrize("expired", [False, True], ids=["with its snapshots", "with expired dead letters"])
def test_dead_letters_of_a_topic_whose_addition_was_rolled_back_are_taken_out(topics: Topics, *, expired: bool) -> None:
    topics.first.produce(6)
    until_caught_up(topics.run(topics.one))
    topics.second.produce(6)
    until_caught_up(topics.run(topics.both))
    topics.first.roll_back()
    if expired:
        topics.first.expire(topics.one.dead_letters_identifier)
    topics.first.produce(6)

    until_caught_up(topics.run(topics.one))

    topics.second.rows, topics.second.bad = {}, {}
    topics.assert_exactly_once(topics.one)


def test_rows_without_a_topic_that_others_delete_are_counted_as_removed_rows(topics: Topics) -> None:
    topics.first.produce(6)
    until_caught_up(topics.run(topics.one))
    topics.second.produce(6)
    until_caught_up(topics.run(topics.both))
    table = topics.first.table(topics.one.identifier)
    unnamed = next(iter(topics.first.rows.values()))

    table.delete(And(EqualTo("n", unnamed), IsNull("kafka_topic")))
    topics.second.produce(6)
    until_caught_up(topics.run(topics.both))

    proof = topics.verified(topics.both)
    assert proof.clean, [str(finding) for finding in proof.findings]
    assert (proof.foreign.sourced_removed, proof.foreign.unsourced_added) == (1, 0)


def test_a_driver_with_the_earlier_spec_is_fenced_by_one_that_added_a_topic(topics: Topics) -> None:
    topics.first.produce(6)
    topics.second.produce(6)
    successor = topics.run(topics.both)
    earlier = topics.first.setting.clients(
        lake=topics.first.lake, observe=at(("before", "stage"), lambda: until_caught_up(successor))
    )

    with pytest.raises(FencedError):
        replace(topics.first.setting, spec=topics.one).run(earlier).batch()

    topics.assert_exactly_once(topics.both)


def test_a_topic_that_comes_back_is_read_on_only_if_it_is_the_same_and_whole(topics: Topics) -> None:
    topics.first.produce(6)
    topics.second.produce(6)
    until_caught_up(topics.run(topics.both))
    until_caught_up(topics.run(topics.one))
    read = dict(topics.second.rows), dict(topics.second.bad)
    topics.second.produce(6)
    delete_records(topics.second, 5)

    with pytest.raises(RecordsLostError, match="retention overtook"):
        topics.run(topics.both).batch()
    recreate(topics.second)
    with pytest.raises(SourceChangedError, match="re-created"):
        topics.run(topics.both).batch()

    topics.second.rows, topics.second.bad = read
    proof = topics.verified(topics.one)
    assert proof.clean
    assert any("does not name the topic any more" in note and "re-created" in note for note in notes(proof))
    assert FindingKind.SOURCE_CHANGED in {finding.kind for finding in topics.verified(topics.both).findings}


def test_a_removed_topic_that_the_cluster_has_no_more_is_proven_by_the_table(topics: Topics) -> None:
    topics.first.produce(6)
    topics.second.produce(6)
    until_caught_up(topics.run(topics.both))
    admin_of(topics.first.setting.services).delete_topics([topics.second.topic])[topics.second.topic].result()
    wait_until(lambda: topics_of(topics.first.setting.services).describe(topics.second.topic) is None)

    until_caught_up(topics.run(topics.one))

    topics.assert_exactly_once(topics.one)
    assert any("the cluster has no such topic" in note for note in notes(topics.verified(topics.one)))


class TopicsWithout(TopicsThatSay):
    """A broker that refuses one topic (`ports.Topics`)."""

    def __init__(self, world: World, refused: str) -> None:
        super().__init__(world, lambda facts: facts)
        self._refused = refused

    def describe(self, topic: str) -> TopicFacts | None:
        if topic == self._refused:
            raise BrokerError(f"not authorized for {topic}", hint="grant describe")
        return super().describe(topic)


def test_a_removed_topic_that_this_user_may_not_read_any_more_is_named_in_a_note(topics: Topics) -> None:
    topics.first.produce(6)
    topics.second.produce(6)
    until_caught_up(topics.run(topics.both))
    refusing = replace(kafka_side(topics.first), topics=TopicsWithout(topics.first, topics.second.topic))

    proof = verify_table(topics.first.lake, topics.one, kafka=refusing)

    assert proof.clean
    assert any(f"not authorized for {topics.second.topic}" in note for note in notes(proof))
    with pytest.raises(BrokerError):
        verify_table(topics.first.lake, topics.both, kafka=refusing)


def test_a_spec_without_any_topic_of_the_table_is_another_pipeline(topics: Topics) -> None:
    until_caught_up(topics.run(topics.one))

    with pytest.raises(ForeignOwnerError, match="is owned by the pipeline"):
        topics.run(topics.spec(topics.second)).batch()


def notes(proof: Verification) -> Sequence[str]:
    return [note for check in proof.checks for note in check.notes]
