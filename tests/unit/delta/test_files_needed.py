"""The files that readers of a Delta log need."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

from delta_tables import NOON, log

from frazil.delta.needed import files_needed
from frazil.model.delta import DeltaLog, Removals
from frazil.ports import DeltaLogs

HOUR = timedelta(hours=1)


class Removed:
    """A log whose versions removed one file each, an hour apart. `read_so_far` counts the versions that were read."""

    def __init__(self, *names: str, newest: DeltaLog | None) -> None:
        self._names, self._newest = names, newest
        self.read_so_far = 0

    def read(self, location: str) -> DeltaLog | None:
        return self._newest

    def removals(self, location: str, *, newest: int) -> object:
        for age, name in enumerate(self._names):
            self.read_so_far += 1
            yield Removals(NOON - age * HOUR, (f"data/{name}",))


def test_files_of_the_newest_version_and_what_was_removed_since_are_needed() -> None:
    logs = Removed("a", "b", "c", "d", newest=log(1, "x", "y"))

    needed = files_needed(cast(DeltaLogs, logs), "s3://lake/trades", since=NOON - HOUR)

    assert needed == {"data/x", "data/y", "data/a", "data/b"}
    assert logs.read_so_far == 3, "older versions are not read"


def test_without_a_log_no_file_is_needed() -> None:
    assert files_needed(cast(DeltaLogs, Removed(newest=None)), "s3://lake/trades", since=NOON) == frozenset()
