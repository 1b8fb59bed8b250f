"""The files that readers of a Delta log need."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import cast

from delta_tables import NOON, log

from frazil.delta.needed import files_needed
from frazil.model.delta import DeltaLog, Removals
from frazil.ports import DeltaLogs

HOUR = timedelta(hours=1)


class Removed:
    """A log whose versions removed one file each, `ages` before noon. `read_so_far` counts the versions read."""

    def __init__(self, *names: str, newest: DeltaLog | None, ages: Sequence[timedelta] = ()) -> None:
        self._names, self._newest = names, newest
        self._ages = ages or [HOUR * 12 * number for number in range(len(names))]
        self.read_so_far = 0

    def read(self, location: str) -> DeltaLog | None:
        return self._newest

    def removals(self, location: str, *, newest: int) -> object:
        for age, name in zip(self._ages, self._names, strict=True):
            self.read_so_far += 1
            yield Removals(NOON - age, (f"data/{name}",))


def test_files_of_the_newest_version_and_what_was_removed_since_or_a_day_before_are_needed() -> None:
    logs = Removed("a", "b", "c", "d", "e", "f", newest=log(1, "x", "y"))

    needed = files_needed(cast(DeltaLogs, logs), "s3://lake/trades", since=NOON - 12 * HOUR)

    assert needed == {"data/x", "data/y", "data/a", "data/b", "data/c", "data/d"}
    assert logs.read_so_far == 5, "older versions are not read"


def test_a_version_of_a_writer_whose_clock_is_behind_hides_none_that_was_committed_since() -> None:
    logs = Removed("a", "behind", "b", newest=log(1, "x"), ages=[HOUR * 0, HOUR * 9, HOUR / 2])

    needed = files_needed(cast(DeltaLogs, logs), "s3://lake/trades", since=NOON - HOUR)

    assert needed == {"data/x", "data/a", "data/behind", "data/b"}


def test_without_a_log_no_file_is_needed() -> None:
    assert files_needed(cast(DeltaLogs, Removed(newest=None)), "s3://lake/trades", since=NOON) == frozenset()
