"""Take out rows that are older than `maintain.retain_rows` says: whole partitions of time, between batches.

The age of a row is that of the first column that `partition_by` has a time of. The partition of the current limit stays
until all of it is too old, so files only leave the table, and none is written. The state counts the rows
(docs/decisions/0065).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from frazil.maintain.expiring import elapsed_seconds
from frazil.materialize.branches import STAGE_PREFIX, branch_names
from frazil.materialize.clients import Clients
from frazil.materialize.foreign import count_foreign
from frazil.materialize.layout import retention_problems
from frazil.materialize.letter_retention import is_settled, last_carrier
from frazil.materialize.maintenance.own_tables import own_dead_letters, own_rows
from frazil.materialize.state import Standing, standing
from frazil.materialize.verdicts import OvertakenError
from frazil.materialize.without_rows import WithoutRows, not_as_written, tallied
from frazil.model.errors import CommitError, FrazilError
from frazil.model.exports import EXPORT_TAG
from frazil.model.ingested import DroppedFile
from frazil.model.join_history import JOINED_TAG
from frazil.model.outputs import OUTPUT_TAG
from frazil.model.partitioning import PartitionField
from frazil.model.probe import StoredFile
from frazil.model.row_age import age_of_rows
from frazil.model.snapshot import REBUILD_PREFIX, TableView
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.model.transforms import TRANSFORM_TAG
from frazil.modes.mode import BatchChange
from frazil.proof.sources import source_columns
from frazil.proof.tally import Tallies

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 3600.0
"""How often a process looks for old rows: a look that finds none reads the list of manifests."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST, _LATEST = ((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1) for year in (2, 9999))
"""Before and after these times, the library fails to find the month."""
_NEEDED_BY = {
    TRANSFORM_TAG: "a transformation follows it, and would have to take the rows out of its results",
    JOINED_TAG: "a transformation joins it, and its rebuild needs the rows",
    OUTPUT_TAG: "an output topic continues from its snapshots",
    EXPORT_TAG: "an export has pinned it, and would export periods again without these rows",
    REBUILD_PREFIX: "a rebuild of it has begun",
}


@dataclass(slots=True)
class RowRetention:
    """Takes old rows out of one table. An error here does not fail a batch: it is logged, and tried again later."""

    spec: TableSpec
    writer: str
    clock: Callable[[], float] = elapsed_seconds
    _names: Iterator[str] = field(init=False)
    _looked_at: float = -math.inf

    def __post_init__(self) -> None:
        self._names = branch_names(f"{STAGE_PREFIX}retention_", self.writer)

    def between_batches(self, clients: Clients, *, now: Callable[[timedelta], datetime]) -> bool:
        """Take out what is too old, if the last look was long enough ago. Return whether any row was.

        `now` gives the time by which rows may be as old as the given time. That of the storage may be earlier.
        """
        kept = self.spec.maintain.retain_rows
        if kept is None or self.clock() - self._looked_at < LOOK_SECONDS:
            return False
        self._looked_at = self.clock()
        try:
            return self._take_out(clients, kept, now(kept))
        except (OvertakenError, CommitError) as overtaken:
            LOG.info("rows_not_expired", extra={"table": self.spec.identifier, "problem": str(overtaken)})
        except FrazilError as failed:
            LOG.warning("rows_not_expired", extra={"table": self.spec.identifier, "problem": failed.what})
        return False

    def _is_settled(self, clients: Clients, rows: TableView) -> bool:
        """Return whether no batch with dead letters is under way, or was left by a process that died."""
        letters = own_dead_letters(clients.lake, self.spec)
        carrier = None if letters is None else last_carrier(letters)
        return letters is None or carrier is None or is_settled(self.spec, letters, carrier, rows)

    def _take_out(self, clients: Clients, kept: timedelta, now: datetime) -> bool:
        here = standing(own_rows(clients.lake, self.spec), pipeline=self.spec.pipeline)
        age = age_of_rows(self.spec.partition_by)
        if age is None or here.rolled_back or not self._is_settled(clients, here.view):
            return False
        if no_age := retention_problems(self.spec, here.view.columns):
            raise no_age[0]
        files = _old_files(clients, here.view, age, now - kept)
        by_storage = clients.lake.storage_time(here.view) if files else now
        if by_storage < now:  # a clock that is ahead would take out rows that are not old
            now = by_storage
            files = _old_files(clients, here.view, age, now - kept)
        if not files:
            return False
        needed = [*needed_by(here)]
        if needed:
            return self._stay(needed)
        old, columns = {file.path for file in files}, source_columns(self.spec, here.state)
        others = {file.path for file in clients.lake.stored_files(here.view) if file.path not in old}
        gone = tallied(columns, here, clients.lake.read(here.view, columns=columns.names, equal={}, without=others))
        wrong = [*_hidden(here, gone), *not_as_written(gone)]
        if wrong:
            return self._stay(wrong)
        figures = {"added-records": 0, "deleted-records": sum(file.rows for file in files)}
        dropped = [DroppedFile(each.path, tuple(own.path for own in each.own_deletes)) for each in files]
        change = BatchChange((), figures, deletes=dropped)
        without = WithoutRows(clients.lake, self.spec, self.writer, self._names)
        without.publish(here, change, gone, batch_id=clients.new_id(), began=None)
        counts = {"rows": gone.rows, "files": len(files), "before": (now - kept).isoformat()}
        LOG.info("rows_expired", extra={"table": self.spec.identifier, **counts})
        return True

    def _stay(self, reasons: Sequence[str]) -> bool:
        problem = f"the rows stay: {'; '.join(reasons)}"
        LOG.warning("rows_not_expired", extra={"table": self.spec.identifier, "problem": problem})
        return False


def needed_by(here: Standing) -> Iterator[str]:
    """Yield what else needs the rows of a table: its rows are not taken out then."""
    names = (*here.view.tags, *here.view.branches)
    return (why for prefix, why in _NEEDED_BY.items() if any(name.startswith(prefix) for name in names))


def _hidden(here: Standing, gone: Tallies) -> Iterator[str]:
    """Yield a problem if more rows have no source than others have added: Frazil's own would count as theirs."""
    theirs = count_foreign(here).unsourced_added
    if gone.unsourced > theirs:
        what = f"{plural(gone.unsourced, 'old row has', 'old rows have')} no source, and others have added {theirs:,}"
        yield f"{what}: another tool may have made a column of the source again; run `frazil verify`"


def start_of(age: PartitionField, at: datetime) -> datetime:
    """Return when the partition begins that has a time: all earlier partitions end by then."""
    hour = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    month = day.replace(day=1)
    return {"hour": hour, "day": day, "month": month, "year": month.replace(month=1)}[age.transform]


def _old_files(clients: Clients, view: TableView, age: PartitionField, before: datetime) -> list[StoredFile]:
    """Return the files whose rows are all of partitions that end before a time, by their statistics.

    Rows without a time are never old.
    """
    limit = _microseconds(start_of(age, before))
    some = clients.lake.stored_files(view, within={age.column: (_EARLIEST, limit - 1)})
    if not some:
        return []
    recent = {file.path for file in clients.lake.stored_files(view, within={age.column: (limit, _LATEST)})}
    return [file for file in some if file.path not in recent]


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)
