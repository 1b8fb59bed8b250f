"""The freshness of an external table over a Delta log: its last refresh in Snowflake, and the snapshot in the log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from frazil.delta.standing import LogStanding
from frazil.model.errors import FrazilError
from frazil.model.moments import rfc3339
from frazil.model.snapshot import TableView
from frazil.model.snowflake import delta_table
from frazil.model.spec import TableSpec
from frazil.ports import Snowflake


@dataclass(frozen=True, slots=True)
class Look:
    """The freshness of one external table. `looked_at` is its last refresh; None if there was none.

    `behind_seconds` is the age of the snapshot that it has not seen. `problem` says why its freshness is unknown.
    """

    looked_at: datetime | None = None
    behind_seconds: float | None = None
    problem: str | None = None

    def __str__(self) -> str:
        if self.problem is not None:
            return f"could not read when Snowflake refreshed from the Delta log: {self.problem}"
        if self.looked_at is None:
            return (
                "Snowflake has not read the Delta log yet: the next run refreshes it as snowflake.loader of frazil.yaml"
            )
        looked = f"Snowflake read the Delta log at {rfc3339(self.looked_at.replace(microsecond=0))}"
        if self.behind_seconds is None:
            return f"{looked}, at its newest version"
        return f"{looked} and is {self.behind_seconds:.0f} s behind: the next run refreshes it"


@dataclass(slots=True)
class Looks:
    """Snowflake's view of each table. After one failure, Snowflake is not asked again."""

    account: Snowflake
    problem: str | None = None

    def of(self, spec: TableSpec, view: TableView, log: LogStanding, *, now: datetime) -> Look | None:
        """Return the freshness of a table; None if it has no Delta log. Never raises."""
        if log.version is None:
            return None
        if self.problem is None:
            try:
                return _judged(self.account.refreshed_at(delta_table(spec)), view, log, now)
            except FrazilError as problem:
                self.problem = problem.what
        return Look(problem=self.problem)


def _judged(looked_at: datetime | None, view: TableView, log: LogStanding, now: datetime) -> Look:
    """Compare the last refresh with the snapshot's time: a refresh before that has not seen the log's version."""
    published = None if log.snapshot_id is None else view.snapshots.get(log.snapshot_id)
    if published is None or (looked_at is not None and looked_at >= published.committed_at):
        return Look(looked_at)
    return Look(looked_at, (now - published.committed_at).total_seconds())
