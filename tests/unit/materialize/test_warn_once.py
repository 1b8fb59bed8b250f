"""What is no failure, but the operator should know: a warning each, once a process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from values_of_tables import SPEC, snapshot, state, topic, view

from frazil.cli.logs import fields_of
from frazil.materialize.state import CHECKPOINT_TAG, Standing, standing
from frazil.materialize.warn_once import WarnOnce
from frazil.model.ingested import WrittenFile
from frazil.model.plan import TopicFacts


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Any:
    """What two batches of one process say in such a place."""

    def say_twice(here: Standing, *topics: TopicFacts) -> list[tuple[str, object]]:
        said = WarnOnce(SPEC.identifier)
        said.warn_of_changes(here, topics)
        said.warn_of_changes(here, topics)
        return [(each.getMessage(), fields_of(each)["about"]) for each in caplog.records]

    return say_twice


def test_a_table_that_is_as_it_was_left_says_nothing(said: Any) -> None:
    here = standing(view(snapshot(1, None, carries=state())), pipeline=SPEC.pipeline)

    assert said(here, topic({0: (0, 9)})) == []


def test_a_broker_without_topic_ids_is_told(said: Any) -> None:
    here = standing(view(snapshot(1, None, carries=state())), pipeline=SPEC.pipeline)

    assert said(here, topic({0: (0, 9)}, topic_id=None)) == [("no_topic_id", "orders")]


def test_a_table_that_somebody_rolled_back_is_told_with_its_epoch(said: Any) -> None:
    before, after = snapshot(1, None, carries=state(epoch=3)), snapshot(2, 1, carries=state(epoch=4))
    here = standing(view(before, after, head=1, tags={CHECKPOINT_TAG: 2}), pipeline=SPEC.pipeline)

    assert said(here, topic({0: (0, 9)})) == [("rolled_back_to_epoch", "3")]


def test_each_commit_of_others_is_told(said: Any) -> None:
    ours, theirs = snapshot(1, None, carries=state()), snapshot(2, 1, operation="delete")
    here = standing(view(ours, theirs), pipeline=SPEC.pipeline)

    assert said(here, topic({0: (0, 9)})) == [("changed_by_others", theirs.name)]


def test_what_is_over_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    """A process that runs for months would otherwise keep the name of each foreign snapshot."""
    said = WarnOnce(SPEC.identifier)
    said.warn("delta_log_withheld", "a reason")

    for theirs in range(2, 9):
        foreign = snapshot(1, None, carries=state()), snapshot(theirs, 1, operation="delete")
        said.warn_of_changes(standing(view(*foreign), pipeline=SPEC.pipeline), [topic({0: (0, 9)}, topic_id=None)])

    assert len(caplog.records) == 9
    assert len(said.warned) == 3


def test_a_batch_of_many_small_files_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    small = [WrittenFile(f"{n}.parquet", rows=12, size=3_000, partition=(n,), spec_id=0) for n in range(1_000)]
    said = WarnOnce(SPEC.identifier)

    said.warn_of_small_files(small[1:], ["symbol"])
    said.warn_of_small_files([replace(file, size=1 << 20) for file in small], ["symbol"])
    assert caplog.records == []
    said.warn_of_small_files(small, ["symbol"])
    said.warn_of_small_files([*small, small[0]], ["symbol"])

    (told,) = caplog.records
    assert (told.getMessage(), fields_of(told)["about"]) == (
        "many_small_files",
        "1,000 files of about 12 rows by symbol",
    )
