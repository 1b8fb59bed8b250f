from __future__ import annotations

import pytest

from frazil.materialize.pause.by_operator import pause, resume
from frazil.materialize.pause.pausing import PAUSED_PROPERTY, Pause, accepted_through, pause_by_run, pause_of
from frazil.model.errors import BadRecordLimitError, Misuse
from tests.table.small_lake import NOON, SmallLake, spec_of


def test_pause_says_who_when_and_why(lake: SmallLake) -> None:
    pause(lake.lake, lake.spec, by="ann", why="the producer is being fixed", at=NOON)

    assert pause_of(lake.view.properties) == Pause("ann", "2026-01-31T12:00:00Z", "the producer is being fixed")


def test_second_pause_leaves_the_first_as_it_is(lake: SmallLake) -> None:
    pause(lake.lake, lake.spec, by="ann", why="first", at=NOON)

    already = pause(lake.lake, lake.spec, by="bob", why="second", at=NOON)

    assert already is not None
    assert (already.by, pause_of(lake.view.properties)) == ("ann", already)


def test_resume_ends_the_pause_and_accepts_nothing(lake: SmallLake) -> None:
    pause(lake.lake, lake.spec, by="ann", why="first", at=NOON)

    ended = resume(lake.lake, lake.spec)

    assert ended is not None
    assert pause_of(lake.view.properties) is None
    assert accepted_through(lake.view.properties) == {}


def test_resume_after_too_many_bad_records_accepts_them(lake: SmallLake) -> None:
    _paused_with(lake, {"orders": {0: 150, 1: 60}})
    resume(lake.lake, lake.spec)
    _paused_with(lake, {"orders": {0: 140, 2: 7}})

    resume(lake.lake, lake.spec)

    assert pause_of(lake.view.properties) is None
    assert accepted_through(lake.view.properties) == {"orders": {0: 150, 1: 60, 2: 7}}


def test_resume_of_a_table_that_goes_on_changes_nothing(lake: SmallLake) -> None:
    before = lake.table.metadata_location

    assert resume(lake.lake, lake.spec) is None
    assert lake.table.metadata_location == before


def test_pause_that_is_no_json_is_told_as_it_is(lake: SmallLake) -> None:
    lake.lake.set_properties(lake.spec.identifier, put={PAUSED_PROPERTY: "by hand"})

    assert pause_of(lake.view.properties) == Pause("?", "?", "by hand")


def test_table_that_is_not_there_cannot_be_paused(lake: SmallLake) -> None:
    with pytest.raises(Misuse, match=r"the catalog has no table lake\.sales"):
        pause(lake.lake, spec_of("orders", table="sales"), by="ann", why="x", at=NOON)


def _paused_with(lake: SmallLake, accept: dict[str, dict[int, int]]) -> None:
    said = pause_by_run(because=BadRecordLimitError("too many", hint=""), at=NOON, accept=accept)
    lake.lake.set_properties(lake.spec.identifier, put={PAUSED_PROPERTY: said})
