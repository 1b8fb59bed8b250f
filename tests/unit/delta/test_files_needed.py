"""The files that readers of a Delta log need."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import cast

from delta_tables import NOON, log

from frazil.delta.needed import files_left, files_needed
from frazil.model.delta import DeltaLog, Removals
from frazil.ports import DeltaLogs

HOUR = timedelta(hours=1)


class Removed:
    """A log whose versions removed one file each, so long before noon. `read_so_far` counts those that were read."""

    def __init__(self, *names: str, newest: DeltaLog | None, ages: Sequence[timedelta] = ()) -> None:
        self._names, self._newest = names, newest
        self._ages = ages or [HOUR * number for number in range(len(names))]
        self.read_so_far = 0

    def read(self, location: str) -> DeltaLog | None:
        return self._newest

    def removed(self, location: str) -> frozenset[str]:
        return frozenset(f"data/{name}" for name in self._names)

    def removals(self, location: str, *, newest: int) -> object:
        for age, name in zip(self._ages, self._names, strict=True):
            self.read_so_far += 1
            yield Removals(NOON - age, (f"data/{name}",))


def test_files_of_the_newest_version_and_what_was_removed_since_are_needed() -> None:
    logs = Removed("a", "b", "c", "d", "e", newest=log(1, "x", "y"))

    needed = files_needed(cast(DeltaLogs, logs), "s3://lake/trades", since=NOON - HOUR)

    assert needed == {"data/x", "data/y", "data/a", "data/b"}
    assert logs.read_so_far == 4, "an hour more is read, and no older version"


def test_a_version_with_an_earlier_time_than_the_one_before_it_counts_as_that_one_and_hides_none() -> None:
    ages = [0 * HOUR, 1.5 * HOUR, 0.5 * HOUR, 1.2 * HOUR, 3 * HOUR]
    logs = Removed("a", "earlier", "b", "old", "older", newest=log(1, "x"), ages=ages)

    needed = files_needed(cast(DeltaLogs, logs), "s3://lake/trades", since=NOON - HOUR)

    assert needed == {"data/x", "data/a", "data/earlier", "data/b"}


def test_without_a_log_no_file_is_needed() -> None:
    assert files_needed(cast(DeltaLogs, Removed(newest=None)), "s3://lake/trades", since=NOON) == frozenset()


def test_what_no_version_of_the_time_needs_was_left() -> None:
    logs = Removed("a", "b", "c", "d", "e", newest=log(1, "x", "e"))

    left = files_left(cast(DeltaLogs, logs), "s3://lake/trades", since=NOON - HOUR)

    assert left == {"data/c", "data/d"}, "a version that is needed has e again"
