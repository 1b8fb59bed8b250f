"""What is done between batches: files with many deleted rows are rewritten, and old snapshots expire.

Old dead letters and their snapshots are deleted now and then, and their small files are merged.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from frazil.maintain.expiring import Expiring
from frazil.materialize.clients import Clients
from frazil.materialize.letter_retention import delete_old_letters
from frazil.materialize.maintenance.perform import perform_and_answer
from frazil.materialize.maintenance.request import open_requests
from frazil.materialize.rewrite_files import MadeTable, Rewriting
from frazil.materialize.row_retention import RowRetention
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec

DEAD_LETTERS_EVERY = 60
"""Batches between two looks at the dead letters, their files and snapshots, which costs a read of their metadata."""


@dataclass(slots=True)
class Housekeeping:
    """Keeps one table in order between batches, and its dead letters."""

    spec: TableSpec
    writer: str
    rows: Expiring = field(init=False)
    dead_letters: Expiring = field(init=False)
    rewriting: Rewriting = field(init=False)
    retention: RowRetention = field(init=False)
    batches: int = 0

    def __post_init__(self) -> None:
        keep = self.spec.maintain.keep_snapshots
        self.rewriting = Rewriting(self.spec, self.writer)
        self.retention = RowRetention(self.spec, self.writer)
        self.rows, self.dead_letters = Expiring(keep, CHECKPOINT_TAG), Expiring(keep, CHECKPOINT_TAG)

    @property
    def letter_rewriting(self) -> Rewriting:
        """Return what merges the files of the dead letters. It is new for each look, so it may copy all of them.

        Few batches are looked at, so their rows do not show how many have come. Each copy of a row at least doubles the
        bytes of its file, which bounds the copies.
        """
        return Rewriting(MadeTable(replace(self.spec.maintain, z_order=()), "append"), self.writer)

    def change_files(self, clients: Clients, rows: TableView) -> TableView | None:
        """Rewrite files that make scans slow, if it pays, and take out rows that are too old.

        Return the table as it is then; None if it is as it was.
        """
        rewritten = self.rewriting.between_batches(clients, rows)
        taken_out = self.retention.between_batches(
            clients, now=lambda kept: self.rows.trusted_after(kept, rows, clients.now())
        )
        return clients.lake.load(rows.identifier) if rewritten or taken_out else None

    def expire_rows(self, clients: Clients, rows: TableView) -> None:
        self.rows.between_batches(clients.lake, clients.delta_logs, rows, clients.background, now=clients.now())

    def expire_dead_letters(self, clients: Clients, rows: TableView) -> None:
        self.batches += 1
        if self.batches % DEAD_LETTERS_EVERY != 1:
            return
        self._delete_old_letters(clients, rows)
        view = clients.lake.load(self.spec.dead_letters_identifier)
        if view is not None and self.letter_rewriting.between_batches(clients, view):
            view = clients.lake.load(self.spec.dead_letters_identifier)
        if view is not None:
            self.dead_letters.between_batches(
                clients.lake, clients.delta_logs, view, clients.background, now=clients.now()
            )

    def requested(self, clients: Clients, rows: TableView) -> bool:
        """Perform the requests that commands left in the table; return whether there were any. Raises nothing."""
        requests = open_requests(rows.properties)
        for request in requests:
            perform_and_answer(self, clients, rows.identifier, request)
        return bool(requests)

    def _delete_old_letters(self, clients: Clients, rows: TableView) -> None:
        kept = self.spec.maintain.keep_dead_letters
        if kept is not None:
            now = self.rows.trusted_after(kept, rows, clients.now())
            delete_old_letters(clients.lake, self.spec, writer=self.writer, now=now)
