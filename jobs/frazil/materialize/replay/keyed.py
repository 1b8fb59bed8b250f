"""Replays into tables that follow keys: which dead letters can be compared with what came after them (decision 0046).

A replayed record is compared with the rows of its identity, as a late record of a batch is. Only a delete leaves no
row to compare with, and a row does not say which of its values were those of the row before it (decision 0050).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.materialize.added_partitions import offsets_first
from frazil.materialize.clients import Clients
from frazil.materialize.dead_letter_marks import EPOCH_COLUMN, Offsets, Source, offsets_of
from frazil.materialize.find_rows import find_rows
from frazil.materialize.foreign import count_foreign
from frazil.materialize.replay.replayed_state import NO_OFFSETS, ReplayedRows, joined
from frazil.materialize.state import Standing
from frazil.materialize.table_change import TableAccess, change_table
from frazil.materialize.update_rows import update_rows
from frazil.model.remembered import RememberedDeletes
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.modes.incomplete import NO_ROW_TO_KEEP
from frazil.modes.mode import BatchChange
from frazil.modes.undecided import ORDER_UNKNOWN, VALUES_UNKNOWN, Followed, undecided
from frazil.modes.wanted import Numbers
from frazil.proof.sources import progress_by_source

Flags = npt.NDArray[np.bool_]

WHY = {
    ORDER_UNKNOWN: "the table does not know whether its key was deleted later, or which of two partitions is newer",
    VALUES_UNKNOWN: "later events of its key may have taken values from the row before it: only a rebuild reads all",
    NO_ROW_TO_KEEP: "it keeps the row of its key, which has none",
}
"""What is wrong with letters that stay, by the reason."""

MARGIN = timedelta(hours=1)
"""So far apart may the clocks of driver and tasks be: a letter is read before the deletes of its batch count."""


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """A table at the head on which a replay is staged. `prefix` begins the names of files with rows written anew.

    `now` is one time for a portion: no delete is forgotten between the decision about a letter and what it changes.
    """

    clients: Clients
    spec: TableSpec
    at: Standing
    prefix: str
    now: datetime

    @property
    def access(self) -> TableAccess:
        find = partial(find_rows, self.clients, self.spec, self.at.view, self.at.state.partition_numbers)
        update = partial(update_rows, self.clients, self.spec, self.prefix, self.at.view)
        return TableAccess(self.clients.lake, self.spec, self.at.view, find, update)

    def change(self, rows: ReplayedRows) -> tuple[BatchChange, RememberedDeletes | None]:
        """Return what the replay changes, and the deletes that the table remembers after it."""
        return change_table(self.access, rows.written, self.at.state.remembered, now=self.now)

    def undecided(
        self, rows: ReplayedRows, dead_letters: TableView, rows_uuid: str
    ) -> dict[str, dict[Source, Offsets]]:
        """Return the letters that stay, because the table cannot say what they change, by the reason.

        `rows_uuid` is the table that they name: in a group, the ledger.
        """
        if self.spec.write not in ("upsert", "history"):
            return {}
        access = self.access
        memory = access.recall(self.at.state.remembered, now=self.now)
        written = replace(rows.written, memory=memory)
        followed = Followed(
            by_deletes=partial(self._may_lack_deletes, partial(self._recent, dead_letters, rows_uuid)),
            by_incomplete=self._may_have_given,
            lost_events=NO_ROW_TO_KEEP in self.at.state.skipped_by_reason,
        )
        stay = {
            reason: {self._source(number): offsets for number, offsets in found.items()}
            for reason, found in undecided(self.spec, written, access.find, followed).items()
        }
        both = joined([stay.get(ORDER_UNKNOWN, {}), self._ordered_by_offset(rows)])
        stay[ORDER_UNKNOWN] = {at: np.unique(offsets) for at, offsets in both.items() if len(offsets)}
        return {reason: letters for reason, letters in stay.items() if letters}

    def _source(self, number: int) -> Source:
        topic, partition = self.at.state.partition_numbers.source(number)
        generation = next(source.generation for source in self.at.state.sources if source.topic == topic)
        return topic, generation, partition

    def _ordered_by_offset(self, rows: ReplayedRows) -> dict[Source, Offsets]:
        """Return the letters that offsets ordered before partitions were added, in a table that a column orders now."""
        ends = offsets_first(self.spec, self.at) if self.spec.order_by is not None else {}
        number = self.at.state.partition_numbers.number  # offsets ordered the first topic, when there was no other one
        return {at: each[each < ends.get(number(at[0], at[2]), 0)] for at, each in rows.letters.items()}

    def _may_lack_deletes(
        self, recent: Callable[[Source, Offsets], Offsets], partition: Numbers, offset: Numbers
    ) -> Flags:
        """Return whether the table may lack a delete that is newer than each letter, by number of partition and offset.

        It has none if it never read one; and where a column orders, it remembers those that came after a letter that
        is not old. Rows that others removed, those that were erased on request, and deletes that a rebuild did not
        find any more, are like deletes that are not remembered.
        """
        numbers, found = self.at.state.partition_numbers, progress_by_source(self.at.state)
        deletes = {numbers.number(*source): each.counts.deletes for source, each in found.items()}
        gone = {numbers.number(*source): each.forgotten + each.compacted_deletes for source, each in found.items()}
        if count_foreign(self.at).sourced_removed:
            gone = dict.fromkeys(gone, 1)
        if not self.spec.order:
            return np.isin(partition, [number for number, count in deletes.items() if count or gone[number]])
        if any(gone.values()):
            return np.ones(len(offset), np.bool_)
        lacking = np.full(len(offset), bool(sum(deletes.values())))
        for number in np.unique(partition[lacking]).tolist():
            here = lacking & (partition == number)
            lacking[here] = ~np.isin(offset[here], recent(self._source(number), offset[here]))
        return lacking

    def _may_have_given(self, partition: Numbers, offset: Numbers) -> Flags:
        """Return whether a change event that came after each letter took values from the row before it."""
        numbers, found = self.at.state.partition_numbers, progress_by_source(self.at.state)
        last = {numbers.number(*source): each.last_incomplete for source, each in found.items()}
        if self.spec.order:
            return np.full(len(offset), any(each is None or each >= 0 for each in last.values()))
        given = np.ones(len(offset), np.bool_)
        for number, end in last.items():
            if end is not None:
                here = partition == number
                given[here] = offset[here] < end
        return given

    def _recent(self, dead_letters: TableView, rows_uuid: str, source: Source, offsets: Offsets) -> Offsets:
        """Return the letters that were read so recently that all deletes since are remembered."""
        remembered = self.at.state.remembered
        if remembered is not None and remembered.forgotten:
            return np.empty(0, np.int64)
        topic, generation, partition = source
        equal = {
            "table_uuid": rows_uuid,
            "topic": topic,
            "generation": generation,
            "partition": partition,
        }
        known_since = [self.now - self.spec.delete_memory]
        if remembered is not None and remembered.forgotten_until is not None:  # by another clock or delete_memory
            known_since.append(remembered.forgotten_until)
        earliest = pa.scalar(max(known_since) + MARGIN, pa.timestamp("us", "UTC"))
        recent = [np.empty(0, np.int64)]
        for letters in self.clients.lake.read(
            dead_letters,
            columns=("offset", "read_at", EPOCH_COLUMN),
            equal=equal,
            between=("offset", int(offsets.min()), int(offsets.max()) + 1),
        ):
            read = pa.compute.greater_equal(letters.column("read_at"), earliest)
            recent.append(offsets_of(letters.filter(pa.compute.and_(read, letters.column(EPOCH_COLUMN).is_null()))))
        return np.concatenate(recent)


def in_any(tables: Iterable[Mapping[str, Mapping[Source, Offsets]]]) -> dict[str, dict[Source, Offsets]]:
    """Return the letters that stay in any of the tables, by the reason of the first one: a letter stays in all."""
    stay: dict[str, dict[Source, Offsets]] = {}
    for reason, letters in ((reason, letters) for table in tables for reason, letters in table.items()):
        known = joined(stay.values())
        new = {at: np.setdiff1d(offsets, known.get(at, NO_OFFSETS)) for at, offsets in letters.items()}
        stay[reason] = joined([stay.get(reason, {}), {at: offsets for at, offsets in new.items() if len(offsets)}])
    return {reason: letters for reason, letters in stay.items() if letters}
