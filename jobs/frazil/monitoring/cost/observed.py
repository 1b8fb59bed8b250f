"""What a table has used, from its retained snapshots: bytes, files, batches and the time that they took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

from frazil.model.receipt import Receipt
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import carries_state, receipt_in
from frazil.model.transforms import TransformSpec, batch_seconds
from frazil.ports import Lake

READ_AT_ONCE = 8
MOST_BATCHES = 1_440
"""The newest batches whose receipts are read: a day of batches with a trigger of one minute."""

ADDS = "append"
"""The operation of snapshots that add dead letters."""


@dataclass(frozen=True, slots=True)
class ObservedBatch:
    """A published batch. `read_bytes` are keys and values from Kafka, `seconds` is its time from plan to publish."""

    at: datetime
    read_bytes: int
    written_bytes: int
    files: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ObservedTable:
    """A table since `begin`, when the first of its known batches began, until `end`.

    `letter_batches` is how many batches had dead letters, in `letter_files` files of `letter_bytes`. `stored_bytes` are
    those of all retained snapshots, dead letters included. What a group reads counts for the table with its ledger.
    """

    table: str
    begin: datetime
    end: datetime
    batches: tuple[ObservedBatch, ...]
    letter_batches: int
    letter_files: int
    letter_bytes: int
    stored_bytes: int
    target_bytes: int

    @property
    def seconds(self) -> float:
        return max((self.end - self.begin).total_seconds(), 1.0)


def observe_tables(lake: Lake, specs: Sequence[TableSpec], *, now: datetime) -> Mapping[str, ObservedTable]:
    """Return what each table has used, without tables that have no batch. Raises CatalogError and StateLostError."""
    found = ((spec.identifier, observe(lake, spec, now=now)) for spec in specs)
    return {name: observed for name, observed in found if observed is not None}


def observe(lake: Lake, spec: TableSpec, *, now: datetime) -> ObservedTable | None:
    """Return what a table has used; None if it does not exist or has no batch."""
    view = lake.load(spec.identifier)
    batches = () if view is None else tuple(_batches(view, reads=spec.ledger is None))
    if view is None or not batches:
        return None
    begin, letters = batches[0].at - timedelta(seconds=batches[0].seconds), lake.load(spec.dead_letters_identifier)
    owns_letters = letters is not None and spec.ledger is None
    adding = list(_added_since(letters, begin)) if letters is not None and owns_letters else []
    return ObservedTable(
        table=spec.identifier,
        begin=begin,
        end=now,
        batches=batches,
        letter_batches=len(adding),
        letter_files=sum(each.figure("added-data-files") for each in adding),
        letter_bytes=sum(each.figure("added-files-size") for each in adding),
        stored_bytes=_stored(view) + (_stored(letters) if letters is not None and owns_letters else 0),
        target_bytes=spec.maintain.target_file_bytes,
    )


def observe_transforms(lake: Lake, specs: Sequence[TransformSpec], *, now: datetime) -> Iterator[ObservedTable]:
    """Yield what the table of each transformation has used, without those that have no batch. Raises CatalogError.

    What a query reads is in tables that Frazil wrote, so these batches read nothing from Kafka.
    """
    for spec in specs:
        view = lake.load(spec.identifier)
        batches = () if view is None else tuple(_transformed(view))
        if view is not None and batches:
            yield ObservedTable(
                table=spec.identifier,
                begin=batches[0].at - timedelta(seconds=batches[0].seconds),
                end=now,
                batches=batches,
                letter_batches=0,
                letter_files=0,
                letter_bytes=0,
                stored_bytes=_stored(view),
                target_bytes=spec.target_file_bytes,
            )


def _transformed(view: TableView) -> Iterator[ObservedBatch]:
    """Yield the newest batches of a transformation, oldest first."""
    timed = ((each, batch_seconds(each)) for each in view.ancestry(view.head))
    made = [_observed(each, 0, seconds) for each, seconds in timed if seconds is not None][:MOST_BATCHES]
    return reversed(made)


def _batches(view: TableView, *, reads: bool) -> Iterator[ObservedBatch]:
    """Yield the newest batches, oldest first. What a group reads counts for its ledger alone."""
    carriers = [each for each in view.ancestry(view.head) if carries_state(each)][:MOST_BATCHES][::-1]
    with ThreadPoolExecutor(READ_AT_ONCE, thread_name_prefix="receipts") as pool:
        for snapshot, receipt in zip(carriers, pool.map(receipt_in, carriers), strict=True):
            if receipt is not None:
                yield _batch(snapshot, receipt, reads=reads)


def _batch(snapshot: Snapshot, receipt: Receipt, *, reads: bool) -> ObservedBatch:
    return _observed(snapshot, receipt.payload_bytes, sum(receipt.seconds.values())) if reads else _observed(snapshot)


def _observed(snapshot: Snapshot, read_bytes: int = 0, seconds: float = 0.0) -> ObservedBatch:
    return ObservedBatch(
        at=snapshot.committed_at,
        read_bytes=read_bytes,
        written_bytes=snapshot.figure("added-files-size"),
        files=snapshot.figure("added-data-files") + snapshot.figure("added-delete-files"),
        seconds=seconds,
    )


def _added_since(letters: TableView, begin: datetime) -> Iterator[Snapshot]:
    for each in letters.ancestry(letters.head):
        if each.committed_at < begin:
            return
        if each.operation == ADDS and each.figure("added-data-files"):
            yield each


def _stored(view: TableView) -> int:
    """Return the bytes of the files of all retained snapshots: those of the head, and those that were removed since."""
    snapshots = list(view.ancestry(view.head))
    if not snapshots:
        return 0
    return snapshots[0].figure("total-files-size") + sum(each.figure("removed-files-size") for each in snapshots[:-1])
