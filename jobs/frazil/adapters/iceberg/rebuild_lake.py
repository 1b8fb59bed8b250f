"""Tables as a rebuild makes them: a branch with its own columns, layout and properties, which no reader sees.

The table's metadata has the new schema, partition spec and sort order beside the present ones. A property says which
they are, and holds the properties that the table is to get. Branches and tags of the rebuild have a prefix.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot as RawSnapshot
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
)

from frazil.adapters.iceberg.changes import reorder, repartition, same_layout
from frazil.adapters.iceberg.field_ids import with_ids_of
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.puffin import as_statistics
from frazil.adapters.iceberg.rebuilt_tables import READY_PROPERTY, REBUILD_PROPERTY, Ready, Shape, without_refs
from frazil.adapters.iceberg.refs import added, point_to
from frazil.adapters.iceberg.types import to_schema
from frazil.adapters.iceberg.view import view_of
from frazil.model.columns import Column
from frazil.model.errors import CommitRejectedError, CommitUnknownError
from frazil.model.remembered import PuffinFile
from frazil.model.snapshot import MAIN, READY_BRANCH, REBUILD_PREFIX, TableView

_KEPT_APART = (
    SetPropertiesUpdate,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
    SetDefaultSortOrderUpdate,
)
"""Updates that must not change the table itself before the rebuild is complete."""


class _BuiltTable(Table):
    """A table with the metadata that it would have if its rebuild were complete now. `real` is the table as it is."""

    def __init__(self, real: Table, metadata: TableMetadata) -> None:
        super().__init__(real.name(), metadata, real.metadata_location, real.io, real.catalog)
        self.real = real


class RebuildLake(IcebergLake):
    """Shows `tables` as their rebuild makes them, and all others as they are (`ports.RebuildLake`).

    It shares the catalog of another lake, and what that has read.
    """

    def __init__(self, lake: IcebergLake, tables: Collection[str]) -> None:
        vars(self).update(vars(lake))
        self._lake = lake
        self._tables = frozenset(tables)

    @property
    def catalog(self) -> Catalog:
        """The catalog of the other lake, opened once for both."""
        return self._lake.catalog

    def load(self, identifier: str) -> TableView | None:
        real = super().load(identifier)
        if real is None or identifier not in self._tables:
            return real
        built = _built(real.current)
        if built is None:
            return None
        return view_of(identifier, built, self._read_document, self._live.count, self._sources.between)

    def create(
        self,
        identifier: str,
        columns: Sequence[Column],
        *,
        partition_by: Sequence[str],
        properties: Mapping[str, str],
        summary: Mapping[str, str],
        document: bytes = b"",
        tag: str | None = None,
        sort_by: Sequence[str] = (),
    ) -> TableView:
        """Begin the rebuild of a table that exists. Raises CommitRejectedError if one has begun already.

        Raises CommitUnknownError and CatalogError as other commits.
        """
        real = super().load(identifier)
        if real is None:
            raise CommitRejectedError(f"{identifier} no longer exists")
        begun = _BuiltTable(real.current, _begun(real.current.metadata, properties))
        transaction = Transaction(begun, autocommit=False)
        repartition(transaction, ())  # the library refuses a schema that lacks a column of the present layout
        reorder(transaction, ())
        _use_columns(transaction, columns)
        repartition(transaction, partition_by)
        reorder(transaction, sort_by)
        shaped = _BuiltTable(real.current, transaction.table_metadata)
        with self._storage_of(real):
            first = self._new_snapshot(shaped, (), parent=None, summary=summary, document=document)
        requirements = (*same_layout(begun.metadata), AssertRefSnapshotId(ref=MAIN, snapshot_id=None))
        recorded = SetPropertiesUpdate(updates=dict(properties))
        self._commit(begun, requirements, (*transaction._updates, recorded, *added(first, MAIN, tag)))
        made = self.load(identifier)
        if made is None:
            raise CommitUnknownError(f"the rebuild of {identifier} was begun but the table does not show it")
        return made

    def begin_at(self, view: TableView, snapshot_id: int, *, tag: str, properties: Mapping[str, str]) -> None:
        begun = _BuiltTable(view.current, _begun(view.current.metadata, properties))
        updates = (
            SetPropertiesUpdate(updates=dict(begun.metadata.properties)),
            point_to(MAIN, SnapshotRefType.BRANCH, snapshot_id),
            point_to(tag, SnapshotRefType.TAG, snapshot_id),
        )
        self._commit(begun, (*same_layout(begun.metadata), AssertRefSnapshotId(ref=MAIN, snapshot_id=None)), updates)

    def set_properties(self, identifier: str, *, put: Mapping[str, str], remove: Sequence[str] = ()) -> None:
        view = self.load(identifier)
        if identifier not in self._tables or view is None:
            super().set_properties(identifier, put=put, remove=remove)
            return
        there = [name for name in remove if name in view.properties]
        updates = (SetPropertiesUpdate(updates=dict(put)), RemovePropertiesUpdate(removals=there))
        self._commit(view.current, (AssertTableUUID(uuid=view.current.metadata.table_uuid),), updates)

    def replace(
        self,
        view: TableView,
        built: TableView,
        *,
        tags: Sequence[str],
        summary: Mapping[str, str],
        document: bytes,
        put: Mapping[str, str],
        remove: Collection[str],
        statistics: PuffinFile | None = None,
    ) -> None:
        real: Table = view.current
        shown: _BuiltTable = built.current
        last = self._last(view, built, summary, document)
        shape = Shape.of(shown.metadata)
        updates = (
            *added(last, MAIN),
            *(point_to(each, SnapshotRefType.TAG, last.snapshot_id) for each in tags),
            *(() if statistics is None else (as_statistics(statistics, last.snapshot_id),)),
            *replace(shape, properties={**shape.properties, **put}).taken(real.metadata, remove),
        )
        self._commit(real, _as_seen(view, built), updates)

    def make_ready(
        self,
        view: TableView,
        built: TableView,
        *,
        summary: Mapping[str, str],
        document: bytes,
        put: Mapping[str, str],
        remove: Collection[str],
    ) -> None:
        real: Table = view.current
        shape = Shape.of(built.current.metadata)
        ready = Ready(replace(shape, properties={**shape.properties, **put}), tuple(remove))
        updates = (
            *added(self._last(view, built, summary, document), READY_BRANCH),
            SetPropertiesUpdate(updates={READY_PROPERTY: ready.written()}),
        )
        self._commit(real, _as_seen(view, built), updates)

    def _last(self, view: TableView, built: TableView, summary: Mapping[str, str], document: bytes) -> RawSnapshot:
        """Return an empty snapshot on top of what was built, which says what the table is then."""
        with self._storage_of(view):
            return self._new_snapshot(built.current, (), parent=built.head, summary=summary, document=document)

    def discard(self, identifier: str, *, seen: TableView | None = None) -> bool:
        real = seen or super().load(identifier)
        if real is None:
            return False
        metadata: TableMetadata = real.current.metadata
        updates: tuple[TableUpdate, ...] = without_refs(metadata)
        known = () if seen is None else tuple(_still_at(metadata, each.ref_name) for each in without_refs(metadata))
        said = [name for name in (REBUILD_PROPERTY, READY_PROPERTY) if name in metadata.properties]
        if said:
            updates = (*updates, RemovePropertiesUpdate(removals=said))
        if updates:
            self._commit(real.current, (AssertTableUUID(uuid=metadata.table_uuid), *known), updates)
        return bool(updates)

    def _commit(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> None:
        if isinstance(table, _BuiltTable):
            required = [each for one in requirements for each in _required(table.real.metadata, one)]
            required += _still_built(table.real.metadata)
            super()._commit(table.real, tuple(required), tuple(_apart(table.metadata, updates)))
        else:
            super()._commit(table, requirements, updates)


def _built(real: Table) -> _BuiltTable | None:
    """Return the table as its rebuild makes it; None if there is no rebuild."""
    said = real.metadata.properties.get(REBUILD_PROPERTY)
    head = real.metadata.refs.get(REBUILD_PREFIX + MAIN)
    if said is None or head is None:
        return None
    shape, refs = Shape.read(said), real.metadata.refs
    shown = shape.shown(head.snapshot_id)
    shown["refs"] = {n.removeprefix(REBUILD_PREFIX): ref for n, ref in refs.items() if n.startswith(REBUILD_PREFIX)}
    return _BuiltTable(real, real.metadata.model_copy(update=shown))


def _begun(metadata: TableMetadata, properties: Mapping[str, str]) -> TableMetadata:
    own = {name: value for name, value in properties.items() if name != REBUILD_PROPERTY}
    return metadata.model_copy(update={"properties": own, "refs": {}, "current_snapshot_id": None})


def _use_columns(transaction: Transaction, columns: Sequence[Column]) -> None:
    metadata = transaction.table_metadata
    unused = max(schema.schema_id for schema in metadata.schemas) + 1
    known = metadata.schema()
    wanted = with_ids_of(to_schema(columns), known, schema_id=unused, last_id=metadata.last_column_id)
    if wanted.fields != known.fields:
        transaction._apply((AddSchemaUpdate(schema_=wanted), SetCurrentSchemaUpdate(schema_id=-1)), ())


def _required(real: TableMetadata, requirement: TableRequirement) -> Iterator[TableRequirement]:
    """Yield what the table must fulfil where a rebuild requires something of the table that it makes.

    Both have one list of schemas, of partition specs and of sort orders: none may have come from elsewhere.
    """
    match requirement:
        case AssertRefSnapshotId():
            yield AssertRefSnapshotId(ref=REBUILD_PREFIX + requirement.ref, snapshot_id=requirement.snapshot_id)
        case AssertCurrentSchemaId():
            yield AssertCurrentSchemaId(current_schema_id=real.current_schema_id)
            yield AssertLastAssignedFieldId(last_assigned_field_id=real.last_column_id)
        case AssertDefaultSpecId():
            yield AssertDefaultSpecId(default_spec_id=real.default_spec_id)
            yield AssertLastAssignedPartitionId(last_assigned_partition_id=real.last_partition_id)
        case AssertDefaultSortOrderId():
            yield AssertDefaultSortOrderId(default_sort_order_id=real.default_sort_order_id)
        case _:
            yield requirement


def _still_built(real: TableMetadata) -> Iterator[TableRequirement]:
    """Yield what keeps a commit from leaving branches behind in a table whose rebuild was dropped meanwhile."""
    head = real.refs.get(REBUILD_PREFIX + MAIN)
    if head is not None:
        yield AssertRefSnapshotId(ref=REBUILD_PREFIX + MAIN, snapshot_id=head.snapshot_id)


def _apart(shown: TableMetadata, updates: Sequence[TableUpdate]) -> Iterator[TableUpdate]:
    """Yield the updates of the table itself for those of the table that a rebuild makes.

    Raises CommitRejectedError where an update does not fit what the table has become.
    """
    context, after = _TableMetadataUpdateContext(), shown
    for update in updates:
        try:
            after = _apply_table_update(update, after, context)
        except ValueError as outdated:
            raise CommitRejectedError(f"the table has changed: {outdated}") from outdated
        if isinstance(update, SetSnapshotRefUpdate | RemoveSnapshotRefUpdate):
            yield update.model_copy(update={"ref_name": REBUILD_PREFIX + update.ref_name})
        elif not isinstance(update, _KEPT_APART):
            yield update
    if any(isinstance(update, _KEPT_APART) for update in updates):
        yield SetPropertiesUpdate(updates={REBUILD_PROPERTY: Shape.of(after).written()})


def _as_seen(view: TableView, built: TableView) -> tuple[TableRequirement, ...]:
    """Require that the table is the one that was seen, and that nothing was built since."""
    return (
        *same_layout(view.current.metadata),
        AssertRefSnapshotId(ref=MAIN, snapshot_id=view.head),
        AssertRefSnapshotId(ref=REBUILD_PREFIX + MAIN, snapshot_id=built.head),
    )


def _still_at(metadata: TableMetadata, ref: str) -> TableRequirement:
    return AssertRefSnapshotId(ref=ref, snapshot_id=metadata.refs[ref].snapshot_id)
