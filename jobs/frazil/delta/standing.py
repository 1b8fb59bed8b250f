"""Compare a table's Delta log with the table's head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from frazil.delta.follow import snapshots_to_log
from frazil.delta.plan import plan_log
from frazil.model.delta import DeltaLog, LogIsCurrent, LogPlan, Withheld
from frazil.model.errors import FrazilError
from frazil.model.snapshot import TableView
from frazil.ports import DeltaLogs


@dataclass(frozen=True, slots=True)
class LogStanding:
    """The state of a Delta log: its newest `version` and the `snapshot_id` of that version, None if unknown.

    `behind`: the next run writes the missing version. `withheld`: `reason` says what prevents it, and until when.
    """

    state: Literal["current", "behind", "withheld", "unreadable"]
    version: int | None = None
    snapshot_id: int | None = None
    reason: str = ""

    def __str__(self) -> str:
        if self.state == "unreadable":
            return f"Delta log: {self.reason}"
        log = "no Delta log yet" if self.version is None else f"Delta log version {self.version}"
        of = "" if self.snapshot_id is None else f" of snapshot {self.snapshot_id}"
        said = {"behind": "behind: the next run updates it", "withheld": f"withheld: {self.reason}"}
        return f"{log}{of}, {said.get(self.state, self.state)}"


def next_version(view: TableView, log: DeltaLog | None, logs: DeltaLogs) -> LogPlan | None:
    """Plan the next version of the log for the view's head."""
    return plan_log(view, logs.files(view), log, shapes=lambda files: logs.shapes(view, files))


def _to_the_head(view: TableView, log: DeltaLog | None, logs: DeltaLogs) -> LogPlan | None:
    """Plan the log's next version for the head, or for an older snapshot that the log lacks if the head is withheld."""
    plans = [next_version(at, log, logs) for at in snapshots_to_log(view, log)[::-1]]
    if not plans or not isinstance(plans[0], Withheld):
        return plans[0] if plans else None
    return next((each for each in plans if not isinstance(each, None | LogIsCurrent | Withheld)), plans[0])


def log_standing(view: TableView, logs: DeltaLogs) -> LogStanding:
    """Return the state of a table's Delta log. Raises nothing: a read error becomes the state `unreadable`."""
    log = None
    try:
        log = logs.read(view.location)
        plan = _to_the_head(view, log, logs)
    except FrazilError as problem:
        return LogStanding("unreadable", reason=problem.what)
    version, snapshot_id = (None, None) if log is None else (log.version, log.snapshot_id)
    match plan:
        case None | LogIsCurrent():
            return LogStanding("current", version, snapshot_id)
        case Withheld(reason=reason):
            return LogStanding("withheld", version, snapshot_id, reason)
        case _:
            return LogStanding("behind", version, snapshot_id)
