"""A table's metadata, read at one time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from frazil.model.columns import Column
from frazil.model.sort_order import UNSORTED_JSON

MAIN = "main"
"""The branch of a table that readers see."""

REBUILD_PREFIX = "frazil_rebuild_"
"""The beginning of the names of a rebuild's branches and tags. Then follows the name that the rebuild gives them."""

READY = "ready"
READY_BRANCH = REBUILD_PREFIX + READY
"""The branch with what a table of a group becomes once the group's ledger is replaced."""


def no_document() -> bytes | None:
    return None


def not_counted() -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class SourceChange:
    """What snapshots did to rows with and without a source: with a value in all columns that name their record.

    Both are upper bounds, and negative where rows without a source went, or rows with one came back.
    """

    unsourced_added: int = 0
    sourced_removed: int = 0


def not_compared(before: int, names: Sequence[str]) -> SourceChange | None:
    return None


def no_columns() -> frozenset[str]:
    return frozenset()


def no_sizes(most: int) -> Sequence[int]:
    return ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot. `operation` is Iceberg's: append, replace, overwrite or delete.

    `read_document` reads the compressed state from the header of the file `manifest_list`; None if the header has none.
    `count_live` counts the visible rows from manifests and position deletes; None if that is not possible.
    `sources_since` compares with the snapshot of an id, by the names of the columns of a source; None likewise.
    `filled_columns` returns the table's columns that have a value in the snapshot's data files. `schema_id` is the
    table's schema at the time. `newest_file_sizes` returns the bytes of at most so many data files, the newest first.
    """

    id: int
    parent_id: int | None
    operation: str
    summary: Mapping[str, str]
    committed_at: datetime
    manifest_list: str = ""
    read_document: Callable[[], bytes | None] = field(default=no_document, compare=False, repr=False)
    count_live: Callable[[], int | None] = field(default=not_counted, compare=False, repr=False)
    sources_since: Callable[[int, Sequence[str]], SourceChange | None] = field(
        default=not_compared, compare=False, repr=False
    )
    schema_id: int | None = None
    filled_columns: Callable[[], frozenset[str]] = field(default=no_columns, compare=False, repr=False)
    newest_file_sizes: Callable[[int], Sequence[int]] = field(default=no_sizes, compare=False, repr=False)

    def figure(self, name: str) -> int:
        """Return a count from the summary; 0 if it is missing, as the Iceberg specification allows."""
        return int(self.summary.get(name, "0"))

    @property
    def live_rows(self) -> int:
        """The number of visible rows according to the summary, which ignores equality deletes."""
        return self.figure("total-records") - self.figure("total-position-deletes")

    @property
    def has_no_deletes(self) -> bool:
        """Return whether the table has no delete files, according to the summary."""
        return self.summary.get("total-delete-files") == "0"

    @property
    def name(self) -> str:
        return f"{self.operation} {self.id}"


@dataclass(frozen=True, slots=True)
class TableView:
    """The metadata of a table on which decisions are based, read at one time.

    `uuid` changes if a table is dropped and created again; it is empty if the table does not exist yet.

    `head` is the snapshot of `main`. `current` is the library's object for the same metadata; only the adapter that
    created it uses it. `partition_fields` have the syntax of `partition_by`, `sort_fields` that of `sort_by`.
    `partition_names` are the names of partition fields, in the current and all earlier partition specs, that are not
    names of columns: Iceberg rejects a new column with such a name.
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
    sort_order_json: str = UNSORTED_JSON
    sort_fields: tuple[str, ...] = ()

    def ancestry(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """Yield the snapshot and its ancestors, newest first, down to the first one that has expired."""
        while snapshot_id is not None and snapshot_id in self.snapshots:
            snapshot = self.snapshots[snapshot_id]
            yield snapshot
            snapshot_id = snapshot.parent_id

    def head_snapshot(self) -> Snapshot | None:
        return None if self.head is None else self.snapshots[self.head]

    @property
    def may_have_rows(self) -> bool:
        """Return whether `main` has rows, or its snapshot does not say how many."""
        head = self.head_snapshot()
        return head is not None and head.summary.get("total-records") != "0"
