"""Through which moment a table is complete: against a model of a topic, and case by case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from values_of_tables import progress, state, topic

from frazil.materialize.complete_through import OBSERVATIONS_KEPT, OFFSETS_KEPT, observation, with_observation
from frazil.model.plan import PartitionFacts, TopicFacts
from frazil.model.progress import Observation, ObservedTopic, SourceProgress, TableState


def at(second: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def after_batch(before: TableState, planned_at: datetime, *facts: TopicFacts, read_to: Mapping[int, int]) -> TableState:
    """The state after a batch that was planned at some moment and read each partition of each topic to an offset."""
    known = {source.topic: source for source in before.sources}
    read_now = tuple(
        replace(
            known.get(each.topic, SourceProgress(each.topic, each.topic_id, 0, {})),
            partitions={n: progress(0, read_to[n]) for n in each.partitions},
        )
        for each in facts
    )
    removed = known.keys() - {each.topic for each in facts}
    sources = (*read_now, *(known[name] for name in sorted(removed)))
    read = replace(before, sources=sources)
    through, ahead = with_observation(read, observation(planned_at, facts, sources))
    return replace(read, complete_through=through, observations=ahead)


# --- against a model ------------------------------------------------------------------------------------------------


@dataclass
class Log:
    """A partition: when each record was appended, and the transaction that it belongs to, if any."""

    appended: list[int] = field(default_factory=list)
    transactions: list[int | None] = field(default_factory=list)

    def append(self, now: int, transaction: int | None) -> None:
        self.appended.append(now)
        self.transactions.append(transaction)

    def facts(self, is_open: set[int]) -> PartitionFacts:
        held = [offset for offset, each in enumerate(self.transactions) if each in is_open]
        stable = min(held, default=len(self.appended))
        return PartitionFacts(0, stable, held_back=len(self.appended) - stable)


@dataclass
class Model:
    """A topic, a table that reads it in batches, and every observation that it ever made.

    `is_open` has the open transaction of each producer, named after the moment when it began.
    """

    logs: list[Log] = field(default_factory=lambda: [Log(), Log()])
    is_open: dict[int, int] = field(default_factory=dict)
    now: int = 0
    states: list[TableState] = field(default_factory=lambda: [state({}, topic_id=None)])
    observed: list[list[tuple[datetime, list[int]]]] = field(default_factory=lambda: [[]])

    def do(self, action: str, number: int) -> None:
        self.now += 1
        match action:
            case "send":
                self.logs[number % len(self.logs)].append(self.now, None)
            case "send in a transaction":
                transaction = self.is_open.setdefault(number % 3, self.now)
                self.logs[number % len(self.logs)].append(self.now, transaction)
            case "end a transaction":
                self.is_open.pop(number % 3, None)
            case "add a partition":
                self.logs.append(Log())
            case "roll back" if len(self.states) > 1:
                self.states.pop()
                self.observed.pop()
            case "batch":
                self.batch(at_most=number)

    def batch(self, *, at_most: int) -> None:
        planned_at, before = self.now, self.states[-1]
        facts = topic({n: log.facts(set(self.is_open.values())) for n, log in enumerate(self.logs)}, topic_id=None)
        next_before = self.read_to(before)
        read_to = {n: min(p.end, next_before.get(n, 0) + at_most) for n, p in facts.partitions.items()}
        self.do("send", at_most)  # while the batch runs
        after = after_batch(before, at(planned_at), facts, read_to=read_to)
        ends = [p.high_watermark for p in facts.partitions.values()]
        self.observed.append([*self.observed[-1], (at(planned_at), ends)])
        self.states.append(after)

    @staticmethod
    def read_to(of: TableState) -> dict[int, int]:
        return {n: p.next for source in of.sources for n, p in source.partitions.items()}

    def ideal(self) -> datetime | None:
        """What a table would claim that remembers every observation."""
        read_to = self.read_to(self.states[-1])
        reached = [t for t, ends in self.observed[-1] if all(read_to[n] >= end for n, end in enumerate(ends))]
        return max(reached, default=None)

    def check(self) -> None:
        now, claim = self.states[-1], self.states[-1].complete_through
        read_to = self.read_to(now)
        if claim is not None:
            arrived = [sum(at(t) <= claim for t in log.appended) for log in self.logs]
            assert all(end == 0 or read_to[n] >= end for n, end in enumerate(arrived))
            assert claim in [t for t, _ in self.observed[-1]]
        claims = [each.complete_through for each in self.states]
        assert claims == sorted(claims, key=lambda each: each or at(-1)), "never decreases"
        ideal = self.ideal()
        assert (ideal is None) == (claim is None)
        assert len(now.observations) <= OBSERVATIONS_KEPT
        if len(self.observed[-1]) <= OBSERVATIONS_KEPT:
            assert claim == ideal
        elif claim is not None and ideal is not None:
            assert claim <= ideal


ACTIONS = st.tuples(
    st.sampled_from(
        ["send"] * 4
        + ["batch"] * 4
        + ["send in a transaction", "end a transaction", "end a transaction", "add a partition", "roll back"]
    ),
    st.integers(0, 4),
)


@given(st.lists(ACTIONS, max_size=80))
def test_everything_that_had_arrived_by_then_is_read(actions: list[tuple[str, int]]) -> None:
    model = Model()
    for action, number in actions:
        model.do(action, number)
        model.check()

    model.is_open.clear()
    model.do("batch", 1_000)
    model.check()

    assert model.states[-1].complete_through == model.observed[-1][-1][0]
    assert model.states[-1].observations == ()


# --- case by case ---------------------------------------------------------------------------------------------------


def test_it_is_absent_until_the_first_backfill_has_come_to_where_the_topic_ended() -> None:
    facts = [topic({0: (0, end)}) for end in (10, 14, 18)]

    one = after_batch(state(), at(1), facts[0], read_to={0: 5})
    two = after_batch(one, at(2), facts[1], read_to={0: 9})
    three = after_batch(two, at(3), facts[2], read_to={0: 10})

    assert [each.complete_through for each in (one, two, three)] == [None, None, at(1)]
    assert [each.at for each in three.observations] == [at(2), at(3)]


def test_an_open_transaction_holds_it_back() -> None:
    held = topic({0: PartitionFacts(0, 6, held_back=4)})
    current = replace(state(), complete_through=at(0))

    waiting = after_batch(current, at(1), held, read_to={0: 6})
    ended = after_batch(waiting, at(2), topic({0: (0, 12)}), read_to={0: 10})

    assert (waiting.complete_through, ended.complete_through) == (at(0), at(1))


def test_a_partition_added_later_is_no_part_of_what_was_seen_before() -> None:
    one = after_batch(state(), at(1), topic({0: (0, 10)}), read_to={0: 5})

    two = after_batch(one, at(2), topic({0: (0, 10), 1: (0, 10)}), read_to={0: 10, 1: 0})

    assert two.complete_through == at(1)
    assert two.observations == (Observation(at(2), (ObservedTopic("orders", 0, {1: 10}),)),)


def test_every_topic_counts() -> None:
    behind = topic({0: (0, 9)})
    read = TopicFacts("refunds", None, {0: PartitionFacts(0, 5)})

    one = after_batch(state(), at(1), behind, read, read_to={0: 5})

    assert one.complete_through is None
    assert [t.topic for t in one.observations[0].topics] == ["orders"]


def test_an_added_topic_holds_it_back_until_its_backlog_is_read_and_never_takes_it_back() -> None:
    orders, refunds = topic({0: (0, 5)}), TopicFacts("refunds", None, {1: PartitionFacts(0, 50)})
    one = after_batch(state(), at(1), orders, read_to={0: 5})

    two = after_batch(one, at(2), orders, refunds, read_to={0: 5, 1: 20})
    three = after_batch(two, at(3), orders, refunds, read_to={0: 5, 1: 50})

    assert [each.complete_through for each in (one, two, three)] == [at(1), at(1), at(3)]


def test_a_removed_topic_holds_nothing_back_and_counts_again_when_it_is_back() -> None:
    orders, refunds = topic({0: (0, 5)}), TopicFacts("refunds", None, {1: PartitionFacts(0, 50)})
    behind = after_batch(state(), at(1), orders, refunds, read_to={0: 5, 1: 20})

    without = after_batch(behind, at(2), orders, read_to={0: 5})
    again = after_batch(without, at(3), orders, refunds, read_to={0: 5, 1: 30})
    caught_up = after_batch(again, at(4), orders, refunds, read_to={0: 5, 1: 50})

    found = [each.complete_through for each in (behind, without, again, caught_up)]
    assert found == [None, at(2), at(2), at(4)]


def test_what_was_seen_of_a_topic_that_was_made_again_is_forgotten() -> None:
    seen = Observation(at(1), (ObservedTopic("orders", 0, {0: 10}),))
    again = SourceProgress("orders", "id-2", 1, {0: progress(0, 50)})

    through, ahead = with_observation(
        replace(state(), sources=(again,), observations=(seen,), complete_through=at(0)),
        observation(at(2), [topic({0: (0, 90)})], [again]),
    )

    assert through == at(0)
    assert [(each.at, each.topics[0].generation) for each in ahead] == [(at(2), 1)]


def test_a_clock_that_goes_back_does_not_take_it_back() -> None:
    current = after_batch(state(), at(100), topic({0: (0, 5)}), read_to={0: 5})

    behind = after_batch(current, at(50), topic({0: (0, 9)}), read_to={0: 9})
    half = after_batch(current, at(50), topic({0: (0, 9)}), read_to={0: 7})

    assert (behind.complete_through, behind.observations) == (at(100), ())
    assert (half.complete_through, half.observations) == (at(100), ())


def test_a_table_that_never_catches_up_stays_close_behind_what_it_has_read() -> None:
    """A lag of 1,000 seconds, a batch each second: what is kept is spread over the lag."""
    now = replace(state({0: progress(0, 0)}), complete_through=at(0))
    gaps = []
    for second in range(1, 5_000):
        read = max(second - 1_000, 0)
        now = after_batch(now, at(second), topic({0: (0, second)}), read_to={0: read})
        if second > 3_000:
            assert now.complete_through is not None
            gaps.append((at(read) - now.complete_through).total_seconds())

    assert max(gaps) <= 1_000 / 3
    assert min(gaps) >= 0


@pytest.mark.parametrize(("partitions", "kept"), [(12, OBSERVATIONS_KEPT), (1_000, 4), (10_000, 2)])
def test_what_is_kept_is_bounded_whatever_the_number_of_partitions(partitions: int, kept: int) -> None:
    sources = (SourceProgress("orders", "id-1", 0, dict.fromkeys(range(partitions), progress(0, 0))),)
    now = replace(state(), sources=sources)
    for second in range(20):
        facts = topic(dict.fromkeys(range(partitions), (0, second + 1)))
        through, ahead = with_observation(now, observation(at(second), [facts], sources))
        now = replace(now, complete_through=through, observations=ahead)

    assert len(now.observations) == kept
    assert kept * partitions <= max(OFFSETS_KEPT, 2 * partitions)
    assert [now.observations[0].at, now.observations[-1].at] == [at(0), at(19)]
