"""What the next batch reads: a truth table over the offsets of the table and its topic."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from values_of_tables import SPEC, progress, snapshot, spec, stands, state, topic, view

from frazil.materialize.pause.pausing import ACCEPTED_PROPERTY, PAUSED_PROPERTY
from frazil.materialize.plan import plan_batch, replaced_since
from frazil.materialize.state import Standing, standing
from frazil.model.errors import FrazilError, PausedError, RecordsLostError, SourceChangedError
from frazil.model.plan import BatchPlan, Halt, NothingToDo, PartitionFacts, Plan, TopicFacts, WriterSchemas
from frazil.model.progress import SourceProgress
from frazil.model.spec import TableSpec

NO_SCHEMAS = WriterSchemas({}, {})


def plan(at: Standing, facts: TopicFacts, wanted: TableSpec = SPEC) -> Plan:
    return plan_batch(wanted, at, (facts,), schemas=NO_SCHEMAS, batch_id="b")


def ranges(planned: Plan) -> dict[int, tuple[int, int]]:
    assert isinstance(planned, BatchPlan), planned
    return {each.partition: (each.start, each.end) for each in planned.ranges}


def halted(planned: Plan) -> FrazilError:
    assert isinstance(planned, Halt), planned
    return planned.error


def test_a_table_at_the_end_of_every_partition_has_nothing_to_do() -> None:
    at = stands(state({0: progress(0, 7), 1: progress(5, 5)}))

    assert plan(at, topic({0: (0, 7), 1: (5, 5)})) == NothingToDo("lake.orders", at.state)


def test_a_topic_without_partitions_has_nothing_to_do() -> None:
    assert isinstance(plan(stands(state()), topic({})), NothingToDo)


def test_a_batch_reads_from_where_the_table_stands_to_the_end() -> None:
    planned = plan(stands(state({0: progress(0, 7), 1: progress(5, 9)})), topic({0: (0, 10), 1: (2, 9)}))

    assert ranges(planned) == {0: (7, 10)}
    assert isinstance(planned, BatchPlan)
    assert (planned.base_snapshot_id, planned.epoch, planned.offsets) == (1, 4, 3)
    assert planned.ranges[0].partition_end == 10


def test_a_partition_added_since_the_table_began_is_read_from_offset_0() -> None:
    assert ranges(plan(stands(state({0: progress(0, 7)})), topic({0: (0, 7), 1: (0, 44)}))) == {1: (0, 44)}


def test_a_partition_added_since_the_table_began_whose_head_is_gone_has_lost_records() -> None:
    failure = halted(plan(stands(state({0: progress(0, 7)})), topic({0: (0, 7), 1: (40, 44)})))

    assert type(failure) is RecordsLostError
    assert "orders-1 was added after the table began and would be read from offset 0" in failure.what
    assert "the oldest record left is 40; 40 offsets are gone" in failure.what


def test_every_partition_that_retention_overtook_is_reported() -> None:
    facts = topic({0: (8, 9), 1: (0, 9), 2: (30, 40), 3: (5, 6)})

    failure = halted(plan(stands(state({n: progress(0, 7) for n in range(3)})), facts))

    assert type(failure) is RecordsLostError
    assert failure.what.startswith("3 problems:\n")
    for said in (
        "orders-0 was read up to offset 7, but the oldest record left is 8",
        "orders-2 was read up to offset 7, but the oldest record left is 30",
        "the oldest record left is 5",
    ):
        assert said in failure.what


def test_more_problems_than_can_be_listed_are_counted() -> None:
    failure = halted(
        plan(stands(state({n: progress(0, 7) for n in range(50)})), topic(dict.fromkeys(range(50), (8, 9))))
    )

    assert failure.what.startswith("50 problems:\n")
    assert failure.what.endswith("- and 30 more")


RETURNS = SourceProgress("returns", None, 0, {0: progress(4, 4)})


def plan_with_returns(at: Standing, *added: SourceProgress, end: int = 9) -> Plan:
    facts = TopicFacts("returns", None, {0: PartitionFacts(2, end)})
    both = spec(topics=("orders", "returns"))
    return plan_batch(both, at, (topic({0: (0, 9)}), facts), schemas=NO_SCHEMAS, batch_id="b", added=added)


def test_an_added_topic_is_read_from_its_first_offset_and_the_other_topic_stays_the_one_of_unnamed_rows() -> None:
    planned = plan_with_returns(stands(state({0: progress(0, 7)})), RETURNS)

    assert isinstance(planned, BatchPlan)
    assert [(each.topic, each.start, each.end) for each in planned.ranges] == [("orders", 7, 9), ("returns", 4, 9)]
    assert (planned.begins, planned.state.unnamed_topic) == (("returns",), "orders")


def test_a_batch_with_nothing_to_read_is_planned_to_add_a_topic() -> None:
    planned = plan_with_returns(stands(state({0: progress(0, 9)})), RETURNS, end=4)

    assert isinstance(planned, BatchPlan)
    assert (planned.ranges, planned.begins) == ((), ("returns",))
    assert isinstance(plan_with_returns(stands(planned.state), end=4), NothingToDo)


def test_a_topic_that_was_added_before_goes_on_from_where_it_was() -> None:
    there = state({0: progress(0, 9)}).with_topics([replace(RETURNS, partitions={0: progress(4, 6)})])

    planned = plan_with_returns(stands(there))

    assert isinstance(planned, BatchPlan)
    assert [(each.topic, each.start, each.end) for each in planned.ranges] == [("returns", 6, 9)]


def test_rows_without_a_topic_belong_to_the_first_topic_for_ever() -> None:
    first = state({0: progress(0, 9)})

    several = first.with_topics([RETURNS])
    more = several.with_topics([replace(RETURNS, topic="refunds")])
    made_with_two = replace(first, sources=(*first.sources, RETURNS)).with_topics([replace(RETURNS, topic="refunds")])

    assert [each.topic_of_unnamed_rows for each in (first, several, more)] == ["orders"] * 3
    assert made_with_two.topic_of_unnamed_rows is None


def test_a_plan_takes_the_name_of_the_owner_without_topics() -> None:
    """The first tables stored the topics with it."""
    planned = plan(stands(state({0: progress(0, 7)}, pipeline="lake.orders<-orders")), topic({0: (0, 9)}))

    assert isinstance(planned, BatchPlan)
    assert planned.state.pipeline == "lake.orders"


def test_a_table_without_a_batch_begins_later_where_retention_has_passed_its_origin() -> None:
    at = stands(state({0: progress(0, 0), 1: progress(5, 5), 2: progress(0, 0)}, epoch=0, batch_id=""))

    planned = plan(at, topic({0: (8, 9), 1: (2, 9), 2: (4, 4), 3: (40, 44)}))

    assert ranges(planned) == {0: (8, 9), 1: (5, 9), 3: (40, 44)}
    assert isinstance(planned, BatchPlan)
    assert {n: (p.origin, p.next) for n, p in planned.state.sources[0].partitions.items()} == {
        0: (8, 8),
        1: (5, 5),
        2: (4, 4),
    }


READ_TO_7 = {0: progress(0, 7, leader_epoch=5)}


@pytest.mark.parametrize(
    ("facts", "error", "said"),
    [
        (
            topic({0: (0, 9)}, topic_id="id-2"),
            SourceChangedError,
            "was read from topic id id-1, the broker now has id-2",
        ),
        (topic({1: (0, 9)}), SourceChangedError, "partition 0 of orders was read up to offset 7 and no longer exists"),
        (topic({0: (0, 6)}), SourceChangedError, "orders-0 was read up to offset 7, but ends at 6"),
        (topic({0: (8, 9)}), RecordsLostError, "the oldest record left is 8; 1 offsets are gone"),
        (
            topic({0: PartitionFacts(0, 9, leader_epoch=4)}),
            SourceChangedError,
            "leader epoch 5, but the broker is at 4",
        ),
    ],
    ids=["topic id changed", "partition gone", "end before next", "retention overtook", "older leader epoch"],
)
def test_a_topic_that_is_not_what_was_read_halts_the_table(
    facts: TopicFacts, error: type[FrazilError], said: str
) -> None:
    failure = halted(plan(stands(state(READ_TO_7)), facts))

    assert type(failure) is error
    assert said in failure.what


@pytest.mark.parametrize(
    "facts",
    [
        topic({0: (0, 9)}, topic_id=None),
        topic({0: (7, 9)}),
        topic({0: PartitionFacts(0, 9, leader_epoch=5)}),
        topic({0: PartitionFacts(0, 9, leader_epoch=None)}),
    ],
    ids=["no topic ids", "retention came exactly as far", "same leader epoch", "no leader epochs"],
)
def test_a_topic_that_may_be_what_was_read_is_read_on(facts: TopicFacts) -> None:
    assert ranges(plan(stands(state(READ_TO_7)), facts)) == {0: (7, 9)}


@pytest.mark.parametrize(
    ("now", "replaced"),
    [
        (topic({0: (0, 9)}), False),
        (topic({0: (9, 12), 1: (0, 3)}), False),
        (topic({0: (0, 9)}, topic_id="id-2"), True),
        (topic({0: (0, 8)}), True),
        (topic({1: (0, 9)}), True),
        (topic({0: PartitionFacts(0, 9, leader_epoch=4)}, topic_id=None), True),
        (topic({0: PartitionFacts(0, 9, leader_epoch=6)}, topic_id=None), False),
    ],
    ids=["the same", "grown", "another id", "shorter", "partition gone", "an older leader", "a newer leader"],
)
def test_a_topic_that_was_replaced_after_the_plan_is_noticed(now: TopicFacts, replaced: bool) -> None:
    planned = plan(stands(state(READ_TO_7)), topic({0: PartitionFacts(0, 9, leader_epoch=5)}))

    assert isinstance(planned, BatchPlan)
    assert replaced_since(planned, (now,)) is replaced


def test_a_table_from_before_topic_ids_is_read_on() -> None:
    assert ranges(plan(stands(state(READ_TO_7, topic_id=None)), topic({0: (0, 9)}))) == {0: (7, 9)}


def test_a_paused_table_halts_whatever_else_is_wrong() -> None:
    at = stands(state(READ_TO_7), properties={PAUSED_PROPERTY: "by somebody"})

    failure = halted(plan(at, topic({0: (0, 1)}, topic_id="id-2")))

    assert type(failure) is PausedError
    assert "lake.orders is paused by an unknown user: by somebody" in failure.what
    assert failure.hint.endswith("`frazil resume lake.orders`")


@pytest.mark.parametrize(("accepted", "end"), [(6, 20), (7, 20), (8, 8), (19, 19), (20, 20), (99, 20)])
def test_a_range_ends_where_resume_accepted_bad_records(accepted: int, end: int) -> None:
    at = stands(state({0: progress(0, 7)}), properties={ACCEPTED_PROPERTY: json.dumps({"orders": {"0": accepted}})})

    assert ranges(plan(at, topic({0: (0, 20)}))) == {0: (7, end)}


def test_a_plan_on_top_of_others_commits_reads_nothing_from_storage() -> None:
    def unreadable(*_: object) -> None:
        raise AssertionError("read a manifest")

    ours = snapshot(1, None, carries=state({0: progress(0, 7)}), total_records=7)
    theirs = snapshot(2, 1, operation="delete", deleted_records=2)
    ours, theirs = (replace(each, count_live=unreadable, sources_since=unreadable) for each in (ours, theirs))
    at = standing(view(ours, theirs), pipeline=SPEC.pipeline)

    planned = plan(at, topic({0: (0, 9)}))

    assert isinstance(planned, BatchPlan)
    assert planned.base_snapshot_id == 2
