"""A table as one read of its metadata shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from frazil.model.columns import Column


def no_document() -> bytes | None:
    return None


def not_counted() -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot. `operation` is Iceberg's: append, replace, overwrite or delete.

    `read_document` reads the compressed state from the header of the file `manifest_list`; None where it holds none.
    `count_live` counts the rows that a reader sees in manifests and position deletes; None where that is not possible.
    """

    id: int
    parent_id: int | None
    operation: str
    summary: Mapping[str, str]
    committed_at: datetime
    manifest_list: str = ""
    read_document: Callable[[], bytes | None] = field(default=no_document, compare=False, repr=False)
    count_live: Callable[[], int | None] = field(default=not_counted, compare=False, repr=False)

    def figure(self, name: str) -> int:
        """A count in the summary; 0 where it is left out, as the specification allows."""
        return int(self.summary.get(name, "0"))

    @property
    def live_rows(self) -> int:
        """Rows that a reader sees, as far as the summary says (equality deletes are not counted there)."""
        return self.figure("total-records") - self.figure("total-position-deletes")

    @property
    def has_no_deletes(self) -> bool:
        """Whether the summary says that no row is marked as deleted."""
        return self.summary.get("total-delete-files") == "0"

    @property
    def name(self) -> str:
        return f"{self.operation} {self.id}"


@dataclass(frozen=True, slots=True)
class TableView:
    """All of a table's metadata that decisions are made on, read at one moment.

    `uuid` is the table's own: a table that is dropped and made again has another. Empty for a table not made yet.

    `head` is the snapshot of `main`; `current` is the library's own object for the same metadata, which only the
    adapter that made it looks into. `partition_fields` are written as `partition_by` of a spec writes them.
    `partition_names` are the names of partition fields, of the present spec and of every earlier one, that are not
    names of columns: Iceberg refuses a new column with such a name.
    """

    identifier: str
    location: str
    head: int | None
    branches: Mapping[str, int]
    tags: Mapping[str, int]
    snapshots: Mapping[int, Snapshot]
    properties: Mapping[str, str]
    columns: tuple[Column, ...]
    format_version: int
    schema_json: str
    partition_spec_json: str
    partition_fields: tuple[str, ...]
    current: Any
    uuid: str = ""
    partition_names: frozenset[str] = frozenset()

    def ancestry(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """The snapshot and its ancestors, newest first, as far as they have not expired."""
        while snapshot_id is not None and snapshot_id in self.snapshots:
            snapshot = self.snapshots[snapshot_id]
            yield snapshot
            snapshot_id = snapshot.parent_id

    def head_snapshot(self) -> Snapshot | None:
        return None if self.head is None else self.snapshots[self.head]
