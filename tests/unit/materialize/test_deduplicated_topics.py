"""Several topics in one table without duplicates: an identity has one row, whichever topic its first record is of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyed_letters import KEY, LateKeys
from two_topics import OF_A_TOPIC, TOPICS, TwoTopics
from whole_batches import LONG

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.state import standing
from frazil.model.errors import SpecChangeError
from frazil.model.progress import Counts
from frazil.model.settings import CatalogSettings
from tests.sampling import examples


@dataclass
class Events(LateKeys):
    """A table with the first record of each key of two topics."""

    @classmethod
    def at(cls, folder: Path, **changes: Any) -> Events:
        given = {"write": "deduplicate", "on_tombstone": "row", "topics": TOPICS, **changes}
        made = super().at(folder, **given)
        assert isinstance(made, cls)
        made.world = TwoTopics(IcebergLake(CatalogSettings("jdbc", str(folder))), registry=made.world.registry)
        for name in TOPICS:
            made.world.registry.register(f"{name}-value", LONG)
            made.world.registry.register(f"{name}-key", KEY)
        return made

    def firsts(self) -> dict[str, tuple[str, int, int]]:
        """Return the topic, partition and offset of the row of each key."""
        found = {}
        for key, partition, offset, name in self.stored("kafka_topic"):
            assert key not in found
            found[key] = (name, partition, offset)
        return found

    def counts(self) -> dict[str, Counts]:
        sources = standing(self.view, pipeline=self.spec.pipeline).state.sources
        return {each.topic: sum((p.counts for p in each.partitions.values()), Counts()) for each in sources}

    def prove(self) -> None:
        for verification in (self.verify(), self.against_kafka()):
            assert (verification.findings, verification.notes) == ((), ())


@pytest.fixture
def events(tmp_path: Path) -> Events:
    return Events.at(tmp_path)


def test_a_key_has_one_row_whichever_topic_is_first(events: Events) -> None:
    events.send(("a", 1, 5), ("b", 1, 5), partition=0)
    events.send(("a", 2, 4), ("c", 2, 4), partition=2)
    events.catch_up()
    events.send(("c", 3, 1), ("d", 3, 1), partition=1)
    events.send(("b", 4, 1), ("d", 4, 1), partition=3)
    events.catch_up()

    assert events.firsts() == {
        "a": ("returns", 0, 0),
        "b": ("orders", 0, 1),
        "c": ("returns", 0, 1),
        "d": ("orders", 1, 1),
    }
    assert events.counts() == {
        "orders": Counts(read=4, rows=2, duplicates=2),
        "returns": Counts(read=4, rows=2, duplicates=2),
    }
    events.prove()


def test_a_topic_may_be_added_to_a_table_without_duplicates(events: Events) -> None:
    both = events.spec
    events.spec = replace(both, topics=TOPICS[:1])
    events.send(("a", 1, 5), ("b", 1, 5), partition=0)
    events.send(("a", 2, 4), ("c", 2, 4), partition=2)
    events.catch_up()
    assert [row[:3] for row in events.stored()] == [("a", 0, 0), ("b", 0, 1)]

    events.spec = both
    events.catch_up()

    assert events.firsts() == {"a": (None, 0, 0), "b": (None, 0, 1), "c": ("returns", 0, 1)}
    assert events.counts()["returns"] == Counts(read=2, rows=1, duplicates=1)
    events.prove()
    events.spec = replace(both, topics=TOPICS[1:])
    events.send(("b", 3, 1), ("e", 3, 1), partition=3)
    events.catch_up()
    assert events.firsts()["e"] == ("returns", 1, 1)
    assert events.verify().findings == ()


def test_a_key_that_is_lost_is_named_in_its_topic(events: Events) -> None:
    events.send(("a", 1, 5), partition=0)
    events.send(("b", 1, 5), ("b", 2, 6), partition=2)
    events.catch_up()
    events.world.lake.catalog.load_table(events.spec.identifier).delete("kafka_topic = 'returns'")

    assert events.verify().findings == ()
    notes = events.against_kafka().notes
    assert any(note.startswith("returns-0") and "whose newest record" in note for note in notes), notes


def test_dead_letters_of_both_topics_are_replayed(events: Events) -> None:
    events.send(("a", 1, 5), partition=0)
    events.send(("a", 2, 1), ("b", 2, 3), partition=1, late=True)
    events.send(("b", 3, 2), ("c", 3, 2), partition=2, late=True)
    events.catch_up()
    events.fix()

    result = events.replay()

    assert (result.replayed, result.duplicates) == (4, 2)
    assert events.firsts() == {"a": ("orders", 0, 0), "b": ("returns", 0, 0), "c": ("returns", 0, 1)}
    assert events.counts() == {
        "orders": Counts(read=3, rows=1, duplicates=2),
        "returns": Counts(read=2, rows=2),
    }
    events.prove()


def test_another_topic_is_refused_where_order_decides(tmp_path: Path) -> None:
    events = Events.at(tmp_path, write="upsert", on_tombstone="delete", topics=TOPICS[:1])
    events.send(("a", 1, 5))
    events.catch_up()
    events.spec = replace(events.spec, topics=TOPICS)

    with pytest.raises(SpecChangeError, match="have offsets of their own"):
        events.catch_up()


@settings(max_examples=examples(3, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=8),
        min_size=1,
        max_size=3,
    )
)
def test_any_records_of_two_topics_are_the_model(tmp_path: Path, batches: list[list[tuple[str, int, int]]]) -> None:
    events = Events.at(tmp_path)
    first: dict[str, tuple[str, int, int]] = {}
    for batch in batches:
        places = []
        for key, stamp, number in batch:
            events.send((key, 1, stamp), partition=number)
            places.append((key, (stamp, number // OF_A_TOPIC, number % OF_A_TOPIC, events.sent[-1].place[1])))
        for key, (_, at, partition, offset) in sorted(places, key=lambda each: each[1]):
            first.setdefault(key, (TOPICS[at], partition, offset))
        events.catch_up()

        assert events.firsts() == first
    events.prove()
