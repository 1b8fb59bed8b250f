"""The last records of a table are read again, from a snapshot on."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from changelogs import Changelog, Sent
from rebuilt_tables import (
    RECORDS,
    SPECS,
    KilledError,
    appended,
    check_as_new,
    killed_at,
    of_mode,
    rebuild,
    rewind,
    rows,
    stands,
)
from values_of_tables import NOW

from frazil.materialize.rebuild.perform import RebuildProgress
from frazil.materialize.rebuild.rewind import Target, ToEarliest, ToOffsets, ToTimestamp
from frazil.model.errors import (
    Misuse,
    RebuildError,
    RecordsLostError,
)
from frazil.model.ingested import DeletedRows
from frazil.model.progress import Counts
from tests.sampling import LONG, sampled


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    return appended(tmp_path)


def test_a_rewind_reads_the_topic_again_from_the_last_batch_that_ended_before(changelog: Changelog) -> None:
    before = changelog.view
    seen: list[int | None] = []
    files = {file.path for file in changelog.files()}

    def look(progress: RebuildProgress) -> None:
        seen.append(changelog.view.head)

    (receipt,) = rewind(changelog, ToOffsets({"orders": {0: 7}}), report=look).perform()

    check_as_new(changelog)
    assert [(each.start, each.end) for each in receipt.ranges] == [(6, 8)]
    assert receipt.counts == Counts(read=2, rows=2)
    assert changelog.view.uuid == before.uuid and seen == [before.head]
    assert len(files & {file.path for file in changelog.files()}) == 2
    changelog.send(("a", 7), (None, 8))
    changelog.catch_up()
    check_as_new(changelog)


REWINDS = [
    (mode, target) for mode in SPECS for target in (ToEarliest(), ToOffsets({"orders": {0: 4}}), ToTimestamp(NOW))
]


SHORT = [("upsert", ToOffsets), ("history", ToEarliest), ("typed", ToTimestamp)]


@pytest.mark.parametrize(
    ("mode", "target"),
    sampled(REWINDS, lambda each: (each[0], type(each[1])) in SHORT),
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_a_rewound_table_is_what_a_new_one_would_be(tmp_path: Path, mode: str, target: Target) -> None:
    log = Changelog.at(tmp_path)
    of_mode(mode, log)
    log.send(*RECORDS)
    log.catch_up()

    (receipt,) = rewind(log, target).perform()

    start = {ToEarliest: 0, ToOffsets: 3, ToTimestamp: 3}[type(target)]
    assert [(each.start, each.end) for each in receipt.ranges] == [(start, 8)]
    check_as_new(log)
    log.send(("a", None), ("b", 4), (None, 5))
    log.catch_up()
    check_as_new(log)


def test_a_rewind_to_the_earliest_offset_begins_with_what_kafka_still_has(changelog: Changelog) -> None:
    changelog.world.earliest = 2
    (receipt,) = rewind(changelog, ToEarliest()).perform()
    assert [(each.start, each.end) for each in receipt.ranges] == [(3, 8)]
    assert [row["kafka_offset"] for row in rows(changelog, changelog.spec)] == [*range(8)]
    assert changelog.verify().findings == ()

    with pytest.raises(RecordsLostError, match="from offset 0 on, and the oldest record left in Kafka is 2"):
        rewind(changelog, ToOffsets({"orders": {0: 2}})).perform()


def test_a_rewind_is_refused_if_compaction_removed_a_delete_of_a_row_that_it_begins_with(tmp_path: Path) -> None:
    log = Changelog.at(tmp_path)
    of_mode("upsert", log)
    log.send(("a", 1), ("b", 1), ("c", 1), ("a", None), ("d", 2))
    log.catch_up()
    log.compact(tombstones=True)

    with pytest.raises(RecordsLostError, match=r"made of 5 records .* Kafka has 4 of them"):
        rewind(log, ToOffsets({"orders": {0: 3}})).perform()

    log.check()
    rebuild(log).perform()
    check_as_new(log)
    assert log.rows() == log.state


@pytest.mark.parametrize(("offset", "says"), [(9, "has the offsets 0 to 8"), (8, "nothing to read again")])
def test_a_rewind_to_where_nothing_was_read_is_refused(changelog: Changelog, offset: int, says: str) -> None:
    with pytest.raises(Misuse, match=says):
        rewind(changelog, ToOffsets({"orders": {0: offset}})).perform()


@pytest.mark.parametrize("after", sampled([False, True], bool), ids=lambda after: "after" if after else "before")
def test_a_rewind_that_dies_at_any_commit_is_finished_by_the_next_one(tmp_path: Path, after: bool) -> None:
    number = 0
    while True:
        log = Changelog.at(tmp_path)
        of_mode("typed", log)
        log.send(*RECORDS)
        log.catch_up()
        try:
            with killed_at(log, number, after=after):
                rewind(log, ToOffsets({"orders": {0: 3}})).perform()
            break
        except KilledError:
            number += 1 if LONG else 6
        if not stands(log).state.generation:
            rewind(log, ToOffsets({"orders": {0: 3}})).perform()
        log.send(("z", 9), (None, 1))
        log.catch_up()
        check_as_new(log)
    assert number > 6


def test_a_half_finished_rewind_is_not_taken_for_a_rebuild_nor_for_another_rewind(changelog: Changelog) -> None:
    for act in (rebuild(changelog), rewind(changelog, ToOffsets({"orders": {0: 6}}))):
        with killed_at(changelog, 3, after=True), pytest.raises(KilledError):
            rewind(changelog, ToOffsets({"orders": {0: 3}})).perform()
        act.perform()
        check_as_new(changelog)


def test_a_driver_that_publishes_during_a_rewind_is_followed(changelog: Changelog) -> None:
    left: list[Sent] = [("e", 1), (None, 9), ("c", None)]

    def publish(progress: RebuildProgress) -> None:
        if left:
            changelog.send(left.pop())
            changelog.catch_up()

    rewind(changelog, ToOffsets({"orders": {0: 3}}), report=publish).perform()

    assert not left
    check_as_new(changelog)


def test_what_others_did_after_the_point_of_a_rewind_is_not_undone_unless_asked(changelog: Changelog) -> None:
    (file, *_) = changelog.files()
    changelog.others(deletes=[DeletedRows(file.path, [0])])
    changelog.send(("x", 1))
    changelog.catch_up()
    with pytest.raises(RebuildError, match="removed 1"):
        rewind(changelog, ToOffsets({"orders": {0: 3}})).perform()

    rewind(changelog, ToOffsets({"orders": {0: 3}}), drop_foreign=True).perform()
    check_as_new(changelog)


@pytest.mark.parametrize("target", [None, ToOffsets({"orders": {0: 3}})], ids=["rebuild", "rewind"])
def test_what_another_rewind_has_begun_meanwhile_is_not_taken_for_what_was_built(
    changelog: Changelog, target: Target | None
) -> None:
    """The branch of the other one lacks the dead letters from before its snapshot."""

    left = [ToOffsets({"orders": {0: 6}})]

    def begin_another(progress: RebuildProgress) -> None:
        if left:
            with suppress(KilledError), killed_at(changelog, 3, after=True):
                rewind(changelog, left.pop()).perform()

    with pytest.raises(RebuildError, match="has begun another rebuild"):
        rebuild(changelog, target=target, report=begin_another).perform()

    rebuild(changelog, target=target).perform()
    check_as_new(changelog)
