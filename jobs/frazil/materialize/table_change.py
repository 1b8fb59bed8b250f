"""What written records change in a table as it is at one head: its mode decides, with the deletes that it remembers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from frazil.materialize.remember import recall, remember
from frazil.model.ingested import WrittenFile
from frazil.model.remembered import RememberedDeletes
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.model.updates import RowUpdates
from frazil.modes.memory import Memory
from frazil.modes.mode import BatchChange, Find, Written
from frazil.modes.open import open_mode
from frazil.ports import Lake

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableAccess:
    """A table at one head: `find` returns its rows with some identities, and `update` writes rows anew."""

    lake: Lake
    spec: TableSpec
    view: TableView
    find: Find
    update: Callable[[RowUpdates], Sequence[WrittenFile]]

    def recall(self, before: RememberedDeletes | None, *, now: datetime) -> Memory:
        """Return the deletes that the table remembers. Raises StateLostError where their file is not what it was."""
        return recall(self.lake, self.view, before, now=now, keep=self.spec.delete_memory)


def change_table(
    access: TableAccess, written: Written, before: RememberedDeletes | None, *, now: datetime
) -> tuple[BatchChange, RememberedDeletes | None]:
    """Return the change, with the rows that it writes anew, and the deletes that the table remembers after it.

    `before` are those that it remembers now. The files of an attempt that is not published are left, as any others.
    Raises KeyInTwoPartitionsError where offsets do not say which record of a key is newer, and StateLostError.
    """
    memory = access.recall(before, now=now)
    change = open_mode(access.spec).change(replace(written, memory=memory), access.find)
    if change.lacking:
        about = f"{plural(change.lacking, 'event lacks', 'events lack')} values that no row had: they are null"
        LOG.warning("values_not_known", extra={"table": access.view.identifier, "about": about})
    if change.updates is not None:
        change = replace(change, files=[*change.files, *access.update(change.updates)])
    return change, remember(access.lake, access.view, before, memory, change.remembered)
