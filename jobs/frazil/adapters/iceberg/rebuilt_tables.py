"""What a rebuild makes of a table, kept in its metadata until one commit makes it the table that readers see.

A table of a group is made ready before the group's ledger is replaced. After that it is taken, perhaps by another
process.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from frazil.adapters.iceberg.live_rows import LiveRows
from frazil.adapters.iceberg.puffin import as_statistics
from frazil.adapters.iceberg.refs import point_to
from frazil.adapters.iceberg.row_sources import SourceChanges
from frazil.adapters.iceberg.view import view_of
from frazil.model.errors import CommitRejectedError
from frazil.model.remembered import PuffinFile
from frazil.model.snapshot import MAIN, READY_BRANCH, REBUILD_PREFIX, TableView

REBUILD_PROPERTY = "frazil.rebuild"
"""A table property: JSON of what the table will be once its rebuild is complete. Its presence is the rebuild's."""
READY_PROPERTY = "frazil.rebuild-ready"
"""A table property: JSON of what the table becomes with the snapshot of `READY_BRANCH`, once its ledger is replaced."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What both properties hold."""

    schema_id: int
    spec_id: int
    sort_order_id: int
    properties: Mapping[str, str]

    @staticmethod
    def of(metadata: TableMetadata) -> Shape:
        return Shape(
            metadata.current_schema_id,
            metadata.default_spec_id,
            metadata.default_sort_order_id,
            dict(metadata.properties),
        )

    @staticmethod
    def read(text: str) -> Shape:
        return Shape(**json.loads(text))

    def written(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    def shown(self, head: int) -> dict[str, Any]:
        """Return the metadata of a table that has this shape and this head, as far as it differs."""
        return {
            "current_schema_id": self.schema_id,
            "default_spec_id": self.spec_id,
            "default_sort_order_id": self.sort_order_id,
            "properties": dict(self.properties),
            "current_snapshot_id": head,
        }

    def taken(self, metadata: TableMetadata, remove: Collection[str]) -> tuple[TableUpdate, ...]:
        """Return the updates that give a table this shape, and leave nothing of its rebuild.

        Other properties stay, but for those to `remove`.
        """
        leaving = {REBUILD_PROPERTY, READY_PROPERTY, *remove} - self.properties.keys()
        return (
            *without_refs(metadata),
            SetCurrentSchemaUpdate(schema_id=self.schema_id),
            SetDefaultSpecUpdate(spec_id=self.spec_id),
            SetDefaultSortOrderUpdate(sort_order_id=self.sort_order_id),
            SetPropertiesUpdate(updates=dict(self.properties)),
            RemovePropertiesUpdate(removals=[name for name in metadata.properties if name in leaving]),
        )


@dataclass(frozen=True, slots=True)
class Ready:
    """What `READY_PROPERTY` holds: the shape, and the properties that go."""

    shape: Shape
    remove: tuple[str, ...]

    @staticmethod
    def of(view: TableView) -> tuple[int, Ready] | None:
        """Return the snapshot that is ready, and what it makes of the table; None if there is none."""
        head, text = view.branches.get(READY_BRANCH), view.properties.get(READY_PROPERTY)
        if head is None or text is None:
            return None
        said = json.loads(text)
        return head, Ready(Shape(**said["shape"]), tuple(said["remove"]))

    def written(self) -> str:
        return json.dumps({"shape": json.loads(self.shape.written()), "remove": self.remove})


def without_refs(real: TableMetadata) -> tuple[RemoveSnapshotRefUpdate, ...]:
    return tuple(RemoveSnapshotRefUpdate(ref_name=name) for name in real.refs if name.startswith(REBUILD_PREFIX))


class RebuiltTables:
    """The part of a lake that takes what a rebuild has made ready (`ports.Lake`)."""

    _live: LiveRows
    _sources: SourceChanges

    def _read_document(self, io: FileIO, manifest_list: str) -> bytes | None:
        raise NotImplementedError

    def _commit(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> None:
        raise NotImplementedError

    def rebuilt(self, view: TableView) -> TableView | None:
        found = Ready.of(view)
        if found is None:
            return None
        table, (head, ready) = cast(Table, view.current), found
        kept = {n: v for n, v in table.metadata.properties.items() if n not in ready.remove}
        shape = replace(ready.shape, properties={**kept, **ready.shape.properties})
        metadata = table.metadata.model_copy(update=shape.shown(head))
        shown = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
        return view_of(view.identifier, shown, self._read_document, self._live.count, self._sources.between)

    def take_rebuilt(self, view: TableView, *, tags: Sequence[str], statistics: PuffinFile | None = None) -> None:
        found = Ready.of(view)
        if found is None:
            raise CommitRejectedError(f"nothing of {view.identifier} is ready: another process dropped or took it")
        table, (head, ready) = cast(Table, view.current), found
        requirements = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN, snapshot_id=view.head),
            AssertRefSnapshotId(ref=READY_BRANCH, snapshot_id=head),
        )
        updates = (
            point_to(MAIN, SnapshotRefType.BRANCH, head),
            *(point_to(each, SnapshotRefType.TAG, head) for each in tags),
            *(() if statistics is None else (as_statistics(statistics, head),)),
            *ready.shape.taken(table.metadata, ready.remove),
        )
        self._commit(table, requirements, updates)
