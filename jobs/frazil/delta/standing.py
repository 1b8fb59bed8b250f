"""Compare a table's Delta log with the table's head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from frazil.delta.follow import DELETES, snapshots_to_log
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


def current_or_withheld(view: TableView, current: LogIsCurrent) -> LogIsCurrent | Withheld:
    """Return Withheld if the log is current with an older snapshot than the view's head, which has delete files."""
    if view.head is None or current.snapshot_id == view.head:
        return current
    return Withheld(view.head, DELETES, current.version)


def log_standing(view: TableView, logs: DeltaLogs) -> LogStanding:
    """Return the state of a table's Delta log. Raises nothing: a read error becomes the state `unreadable`."""
    log = None
    try:
        log = logs.read(view.location)
        at = snapshots_to_log(view, log)
        plan = next_version(at[-1], log, logs) if at else None
    except FrazilError as problem:
        return LogStanding("unreadable", reason=problem.what)
    version, snapshot_id = (None, None) if log is None else (log.version, log.snapshot_id)
    match current_or_withheld(view, plan) if isinstance(plan, LogIsCurrent) else plan:
        case None | LogIsCurrent():
            return LogStanding("current", version, snapshot_id)
        case Withheld(reason=reason):
            return LogStanding("withheld", version, snapshot_id, reason)
        case _:
            return LogStanding("behind", version, snapshot_id)
