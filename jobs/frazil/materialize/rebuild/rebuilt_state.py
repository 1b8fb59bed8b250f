"""The state of a rebuilt table, and the receipt of the snapshot that makes it visible."""

from __future__ import annotations

from dataclasses import replace

from frazil.model.plan import BatchPlan, WriterSchemas
from frazil.model.progress import ForeignChanges, PartitionProgress, SourceProgress, TableState
from frazil.model.receipt import RangeReceipt, Receipt
from frazil.model.snapshot import Snapshot


def state_after(table: TableState, built: TableState, *, writer: str, batch_id: str) -> TableState:
    """Return what was built as the table's next state: one batch that read all offsets.

    Both end at the same offsets, so the table is complete through the same time.
    """
    return replace(
        built,
        epoch=table.epoch + 1,
        generation=table.generation + 1,
        writer=writer,
        batch_id=batch_id,
        sources=tuple(map(_read_at_once, built.sources)),
        complete_through=table.complete_through,
        observations=table.observations,
        foreign=ForeignChanges(),
    )


def _read_at_once(source: SourceProgress) -> SourceProgress:
    return replace(source, partitions={n: replace(p, start=p.origin) for n, p in source.partitions.items()})


def plan_of(table: TableState, after: TableState, *, identifier: str, uuid: str, head: int) -> BatchPlan:
    """Return the batch that the rebuild is, for the dead letters that become visible with it."""
    return BatchPlan(identifier, after.batch_id, head, table, (), WriterSchemas({}, {}), (), table_uuid=uuid)


def receipt_of(identifier: str, after: TableState, head: Snapshot) -> Receipt:
    """Return the receipt of all offsets that were read; `head` is the last snapshot of what was built."""
    return Receipt(
        table=identifier,
        epoch=after.epoch,
        batch_id=after.batch_id,
        ranges=tuple(_range(s.topic, n, p) for s in after.sources for n, p in sorted(s.partitions.items())),
        counts=after.total(),
        skipped_by_reason=after.skipped_by_reason,
        dead_letters_by_reason={},
        payload_bytes=0,
        file_bytes=head.figure("total-files-size"),
        files=head.figure("total-data-files"),
        truncated_nanos=0,
        complete_through=after.complete_through,
    )


def _range(topic: str, number: int, at: PartitionProgress) -> RangeReceipt:
    return RangeReceipt(topic, number, at.origin, at.next, at.counts, at.next - at.origin - at.counts.read)


def offsets_in(state: TableState) -> int:
    """Return how many offsets have been read."""
    return sum(p.next - p.origin for source in state.sources for p in source.partitions.values())
