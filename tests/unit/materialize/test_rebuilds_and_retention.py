"""Kafka deletes records because of their age while a table is rebuilt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from changelogs import Changelog
from rebuilt_tables import KilledError, appended, of_mode, rebuild, rows, stands
from whole_batches import once

from frazil.materialize.rebuild.perform import RebuildProgress
from frazil.materialize.rebuild.rewind import Target, ToOffsets
from frazil.model.errors import RecordsLostError, SourceChangedError
from tests.fakes.clients_in_memory import TopicsInMemory

KINDS = pytest.mark.parametrize(
    ("target", "first"), [(None, 0), (ToOffsets({"orders": {0: 3}}), 3)], ids=["rebuild", "rewind"]
)


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    """Eight records, of which a batch takes three."""
    return appended(tmp_path)


def check_whole(log: Changelog, *, generation: int) -> None:
    assert [row["kafka_offset"] for row in rows(log, log.spec)] == [*range(8)]
    assert log.verify().findings == ()
    assert stands(log).state.generation == generation


@KINDS
def test_records_that_are_deleted_before_the_first_batch_are_missed(
    changelog: Changelog, target: Target | None, first: int
) -> None:
    act = rebuild(changelog, target=target)
    act.clients = replace(
        act.clients, observe=once(("before", "plan"), lambda: setattr(changelog.world, "earliest", first + 2))
    )

    for _ in range(2):
        with pytest.raises(RecordsLostError, match=rf"orders-0 .*{first}\D.* left in Kafka is {first + 2}.*as it was"):
            act.perform()
        act = rebuild(changelog, target=target)

    check_whole(changelog, generation=0)


@KINDS
def test_records_that_are_deleted_before_they_are_read_are_missed(
    changelog: Changelog, target: Target | None, first: int
) -> None:
    def delete(progress: RebuildProgress) -> None:
        changelog.world.earliest = first + 4

    said = rf"orders-0 .* offset {first + 3}\D.* left in Kafka is {first + 4}.* 1 offset .*as it was"
    act = rebuild(changelog, target=target, report=delete)
    for _ in range(2):
        with pytest.raises(RecordsLostError, match=said):
            act.perform()
        act = rebuild(changelog, target=target)

    check_whole(changelog, generation=0)


@KINDS
@pytest.mark.parametrize("dies", [False, True], ids=["in one process", "in two processes"])
def test_records_that_are_deleted_after_they_were_read_are_not_missed(
    changelog: Changelog, target: Target | None, first: int, *, dies: bool
) -> None:
    def delete(progress: RebuildProgress) -> None:
        changelog.world.earliest = first + 2
        if dies:
            raise KilledError

    act = rebuild(changelog, target=target, report=delete)
    if dies:
        with pytest.raises(KilledError):
            act.perform()
        act = rebuild(changelog, target=target)

    act.perform()

    check_whole(changelog, generation=1)


def test_a_rebuild_that_begins_again_misses_what_an_earlier_one_has_read(changelog: Changelog) -> None:
    def delete(progress: RebuildProgress) -> None:
        changelog.world.earliest = 2
        raise KilledError

    with pytest.raises(KilledError):
        rebuild(changelog, report=delete).perform()
    of_mode("typed", changelog)

    with pytest.raises(RecordsLostError, match="from offset 0 on, and the oldest record left in Kafka is 2"):
        rebuild(changelog).perform()


@KINDS
def test_a_topic_that_was_made_again_with_fewer_partitions_is_named(
    changelog: Changelog, target: Target | None, first: int
) -> None:
    act, topics = rebuild(changelog, target=target), changelog.world.topics
    facts = {name: replace(each, topic_id="another", partitions={}) for name, each in topics.facts.items()}
    act.clients = replace(act.clients, topics=TopicsInMemory(facts))

    with pytest.raises(SourceChangedError, match="the topic orders was re-created"):
        act.perform()

    check_whole(changelog, generation=0)
