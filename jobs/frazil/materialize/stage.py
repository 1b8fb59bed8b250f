"""The rows of a batch that is read go onto a branch of their table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from frazil.materialize.account import Ingested, next_state, receipt_of
from frazil.materialize.branches import BaseExpiredError, Staged, has_expired, stage_with_state
from frazil.materialize.foreign import count_foreign
from frazil.materialize.group.ledger import LedgerEntry
from frazil.materialize.state import Standing
from frazil.materialize.table_change import TableAccess, change_table
from frazil.materialize.verdicts import new_base
from frazil.model.errors import CatalogError, SourceChangedError, UnsupportedChangeError
from frazil.model.ingested import WrittenFile
from frazil.model.partition_numbers import PartitionNumbers
from frazil.model.plan import BatchPlan
from frazil.model.probe import FoundRows
from frazil.model.progress import Fitted, TableState
from frazil.model.receipt import Receipt
from frazil.model.remembered import RememberedDeletes
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.model.summary import receipt_in
from frazil.model.updates import RowUpdates
from frazil.modes.mode import BatchChange, KeyInTwoPartitionsError
from frazil.modes.truncation import OutOfTable, Truncation
from frazil.modes.wanted import Numbers
from frazil.ports import Lake


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """A batch that is read and about to become visible. It can be staged on any head of `main`.

    Its records were read between `planned_at` and `read_by`, from when its deletes are remembered: no dead letter of it
    is newer. `names` gives the next branch name of this writer; `seconds` are those of the steps so far. `fitted`
    records the plan's schemas, with the table's schema that they were compared with. `find` returns the rows of a view
    that have one of these identities, and `update` writes rows anew, in the schema of a view.
    """

    lake: Lake
    spec: TableSpec
    writer: str
    names: Iterator[str]
    plan: BatchPlan
    got: Ingested
    planned_at: datetime
    read_by: datetime
    seconds: Mapping[str, float]
    find: Callable[[TableView, PartitionNumbers, Numbers, Numbers], Sequence[FoundRows]]
    update: Callable[[TableView, RowUpdates], Sequence[WrittenFile]]
    fitted: Fitted | None = None
    entry: LedgerEntry | None = None
    """What the batch adds to the state of a group, if the table is its ledger."""

    @property
    def dead_letter_files(self) -> Sequence[WrittenFile]:
        """The files of the dead letters, which are those of the group."""
        return (self.got if self.entry is None else self.entry.got).dead_letter_files

    def stage_on(self, here: Standing) -> Staged:
        """Stage on top of the table's head.

        Raises the same errors as `publish`, and SourceChangedError where a key has records in two partitions.
        """
        try:
            return self._stage_on(here)
        except BaseExpiredError:
            return self._stage_on(new_base(self.lake, self.plan))
        except CatalogError:  # an erasure deletes files at once
            if here.view.head is None or not has_expired(self.lake, self.spec.identifier, here.view.head):
                raise
            return self._stage_on(new_base(self.lake, self.plan))

    def _stage_on(self, here: Standing) -> Staged:
        assert here.view.head is not None  # noqa: S101 - a standing has a snapshot that carries it
        # the rest of the state is as planned, with later origins
        plan = replace(self.plan, state=replace(self.plan.state, foreign=count_foreign(here)))
        change, remembered = self._change(here.view)
        foreign = plan.state.foreign.without_copies(change.copies)
        foreign = foreign.of_emptied_table() if self.got.truncates else foreign
        plan = replace(plan, state=replace(plan.state, foreign=foreign))
        got = self.got.without_late(change.late, plan.state.partition_numbers).without_unkept(change.unkept)
        state = next_state(
            plan,
            got,
            writer=self.writer,
            planned_at=self.planned_at,
            fitted=self.fitted,
            replaced=change.replaced,
            remembered=remembered,
        )
        state = state if self.entry is None else self.entry.added_to(plan.state.group, state)
        receipt = self._receipt(plan, got, state)
        return stage_with_state(self.lake, here.view, names=self.names, change=change, state=state, receipt=receipt)

    def _change(self, view: TableView) -> tuple[BatchChange, RememberedDeletes | None]:
        find = partial(self.find, view, self.plan.state.partition_numbers)
        access = TableAccess(self.lake, self.spec, view, find, partial(self.update, view))
        written = replace(self.got.written, truncation=self._truncation(view))
        try:
            return change_table(access, written, self.plan.state.remembered, now=self.read_by)
        except KeyInTwoPartitionsError as moved:
            topic, prefix = self.plan.state.sources[0].topic, self.spec.metadata.prefix
            by_column = f"order_by: {prefix}timestamp" if self.spec.cdc == "none" else "cdc_order: source"
            raise SourceChangedError(
                f"{self.spec.identifier}: batch {self.plan.batch_id}: {plural(moved.keys, 'key')} of {topic}"
                f" {'has' if moved.keys == 1 else 'have'} records in two partitions, such as {moved}: their offsets do"
                " not say which is newer; nothing was published",
                hint="let all producers of the topic use one partitioner (Java and librdkafka have different defaults);"
                f" write `{by_column}` in {self.spec.source_file} and"
                f" run `frazil rebuild {self.spec.identifier}`: all records are read again in that order",
            ) from moved

    def _truncation(self, view: TableView) -> Truncation | None:
        """Return what the last truncate takes out. Raises UnsupportedChangeError if that cannot be known."""
        if not self.got.truncates:
            return None
        source, offsets = self.plan.state.sources[0], sorted(n for each in self.got.truncates for n in each.offset)
        topics, events = self.plan.observed or self.plan.topics, self.spec.value_settings.change_events
        partitions = len(topics[0].partitions)  # also those that wait for the table's own
        soft = events is not None and events.soft_deletes
        if partitions > 1 or soft or self.spec.order:
            why, before = "soft deletes" if soft else "cdc_order: source", ""
            if partitions > 1:
                why = f"{partitions} partitions"
                before = "; if the table had applied it before partitions were added, `frazil rebuild` applies it again"
            raise UnsupportedChangeError(
                f"{self.spec.identifier}: the record of {source.topic} at offset {offsets[0]} is a truncate, which"
                f" takes out all earlier rows: with {why}, this release cannot apply it; nothing was published{before}",
                hint="the table waits before it: see what pauses a table in docs/debezium.md",
            )
        rows = {number: OutOfTable(each.live_rows, each.sums) for number, each in source.partitions.items()}
        return Truncation(offsets, self.lake.stored_files(view), rows)

    def receipt(self, now: Standing, *, schema_changes: tuple[str, ...]) -> Receipt:
        """Return the receipt of the published batch, with the seconds of all steps so far."""
        staged = receipt_in(now.carrier)
        assert staged is not None  # noqa: S101 - a batch was published
        snapshot, seconds = now.carrier.id, dict(self.seconds)
        return replace(staged, snapshot_id=snapshot, schema_changes=schema_changes, seconds=seconds)

    def _receipt(self, plan: BatchPlan, got: Ingested, state: TableState) -> Receipt:
        receipt = receipt_of(plan, got, state, seconds=self.seconds)
        if self.entry is None:
            return receipt
        of_all = receipt_of(plan, self.entry.got, state, seconds=self.seconds)
        return replace(
            receipt,
            skipped_by_reason=of_all.skipped_by_reason,
            dead_letters_by_reason=of_all.dead_letters_by_reason,
            group=of_all.counts,
        )
