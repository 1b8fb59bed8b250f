"""The Delta log of a table from which rows were erased: its newest version names other files, and earlier ones go."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.delta.standing import log_standing
from frazil.materialize.readers.delta import announce_delta
from frazil.model.delta import LogFailed, Withheld
from frazil.model.errors import ErasureError
from frazil.model.snapshot import TableView
from frazil.model.traces import SoughtValue
from frazil.ports import Lake

AGAIN = "run `frazil forget` again, which continues"


def of_log(lake: Lake, view: TableView, sought: SoughtValue) -> Iterator[str]:
    """Yield why the log of a table would keep a value. Without a log, there is no reason."""
    standing = log_standing(view, DeltaRsLogs(lake.storage))
    if standing.state == "unreadable" or (standing.version is not None and standing.state == "withheld"):
        yield f"its Delta log cannot follow ({standing})"
    if standing.version is not None and any(each.partitioned for each in sought.columns):
        yield "its Delta log lists removed files by their paths, which have the value: delete the log first"


def erase_from_log(lake: Lake, view: TableView) -> None:
    """Bring the log to the head, and leave only a checkpoint and that version: a log has no rows, but their bounds.

    A version that another process writes late is below the checkpoint, where no reader looks. Raises
    ErasureError if the log cannot follow, and CatalogError.
    """
    logs = DeltaRsLogs(lake.storage)
    announced = announce_delta(lake, lambda: logs, view)
    if isinstance(announced, LogFailed):
        raise ErasureError(
            f"{view.identifier}: rows were erased, and the Delta log was not: {announced.problem}", hint=AGAIN
        )
    if isinstance(announced, Withheld) and logs.read(view.location) is not None:
        raise ErasureError(
            f"{view.identifier}: rows were erased, and the Delta log cannot follow: {announced.reason}",
            hint=f"docs/delta.md says until when; then {AGAIN}",
        )
    logs.forget_earlier(view.location)
