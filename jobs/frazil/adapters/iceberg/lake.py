"""Iceberg tables, through PyIceberg. Each commit is one attempt; nothing is retried or deleted here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from typing import Any, cast

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io import FileIO
from pyiceberg.table import Table, Transaction
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot as RawSnapshot
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from frazil.adapters.iceberg.catalog_properties import catalog_properties, storage_properties
from frazil.adapters.iceberg.changes import change_columns, reorder, repartition, same_layout
from frazil.adapters.iceberg.commits import QuickCommits, commit_time, local_clock
from frazil.adapters.iceberg.expiry import delete_unreachable, expiry_commit, same_snapshots
from frazil.adapters.iceberg.live_rows import LiveRows
from frazil.adapters.iceberg.manifest_readers import share_readers
from frazil.adapters.iceberg.nested_values import keep_nested_values
from frazil.adapters.iceberg.probe import stored_files
from frazil.adapters.iceberg.puffin import as_statistics, read_blob, write_blob
from frazil.adapters.iceberg.rebuilt_tables import RebuiltTables
from frazil.adapters.iceberg.recent import Recent
from frazil.adapters.iceberg.refs import added, point_to
from frazil.adapters.iceberg.refusals import hint_for, is_lasting
from frazil.adapters.iceberg.row_sources import SourceChanges
from frazil.adapters.iceberg.scan import TableScan, reading
from frazil.adapters.iceberg.snapshots import SnapshotWriter, added_files, check_figures
from frazil.adapters.iceberg.table_properties import set_properties
from frazil.adapters.iceberg.table_storage import storage_time
from frazil.adapters.iceberg.taken_out import taken_out
from frazil.adapters.iceberg.types import to_partition_spec, to_schema, to_sort_order
from frazil.adapters.iceberg.view import read_document, view_of
from frazil.model.changes import Change
from frazil.model.columns import Column
from frazil.model.errors import CatalogError, CommitRejectedError, CommitUnknownError, FrazilError, Misuse
from frazil.model.expiry import Cleaned, Expiry, Paths
from frazil.model.ingested import Deletion, DroppedFile, WrittenFile
from frazil.model.probe import StoredFile, Within
from frazil.model.remembered import PuffinFile
from frazil.model.secret import SettingValue
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import MAIN, TableView

CATALOG_NAME = "frazil"
"""The name under which a JDBC catalog stores its tables; other engines must use the same one."""

DOCUMENT_BYTES_KEPT = 32 << 20
"""How much of tables' states is remembered, so that each is read from storage once."""


class IcebergLake(RebuiltTables):
    """Tables of one catalog (`ports.Lake`)."""

    def __init__(self, settings: CatalogSettings, *, now_ms: Callable[[], int] = local_clock) -> None:
        keep_nested_values()
        share_readers()
        self._settings = settings
        self._now_ms = now_ms
        self._documents: Recent[bytes] = Recent(DOCUMENT_BYTES_KEPT)
        self._live = LiveRows()
        self._sources = SourceChanges()
        self.storage: Mapping[str, SettingValue] = storage_properties(settings)

    @cached_property
    def catalog(self) -> Catalog:
        """PyIceberg's catalog, opened when first used. Raises CatalogError if it cannot be opened."""
        try:
            catalog = load_catalog(CATALOG_NAME, **catalog_properties(self._settings))
        except FrazilError:
            raise
        except Exception as problem:
            raise self._unreachable("be opened", problem) from problem
        if isinstance(catalog, QuickCommits):
            catalog.now_ms = self._now_ms
        return catalog

    def load(self, identifier: str) -> TableView | None:
        try:
            table = self.catalog.load_table(identifier)
            return view_of(identifier, table, self._read_document, self._live.count, self._sources.between)
        except NoSuchTableError:
            return None
        except FrazilError:
            raise
        except Exception as problem:
            raise self._unreachable(f"read the table {identifier}", problem) from problem

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
        schema = to_schema(columns)
        spec, order = to_partition_spec(schema, partition_by), to_sort_order(schema, sort_by)
        try:
            self._ensure_namespace(identifier)
            transaction = self.catalog.create_table_transaction(
                identifier,
                schema,
                partition_spec=spec,
                sort_order=order,
                properties={"format-version": "2", **properties},
            )
            first = self._new_snapshot(transaction._table, (), parent=None, summary=summary, document=document)
            transaction._updates += added(first, MAIN, tag)
            transaction.commit_transaction()
        except (TableAlreadyExistsError, CommitFailedException) as lost:
            raise CommitRejectedError(f"another process created {identifier} at the same time") from lost
        except Exception as problem:
            raise self._unreachable(f"create the table {identifier}", problem) from problem
        made = self.load(identifier)
        if made is None:
            raise CommitUnknownError(f"{identifier} was created but the catalog does not list it")
        return made

    def begin(self, view: TableView, summary: Mapping[str, str], *, document: bytes, tag: str) -> None:
        table = _table(view)
        with self._storage_of(view):
            empty = self._new_snapshot(table, (), parent=view.head, summary=summary, document=document)
        self._commit(table, _at_head(table, view), added(empty, MAIN, tag))

    def stage(  # noqa: PLR0913 - one for each part of the snapshot
        self,
        view: TableView,
        *,
        base: int,
        branch: str,
        files: Sequence[WrittenFile],
        summary: Mapping[str, str],
        document: bytes = b"",
        without: str | None = None,
        deletes: Sequence[Deletion] = (),
        statistics: PuffinFile | None = None,
    ) -> int:
        table, parent = _table(view), base
        updates: tuple[TableUpdate, ...] = (point_to(branch, SnapshotRefType.BRANCH, base),)
        with self._storage_of(view):
            if without is not None:
                table, updates = taken_out(table, base, without, branch, summary)
                parent = table.metadata.refs[branch].snapshot_id
            staged = self._new_snapshot(
                table, files, parent=parent, summary=summary, document=document, deletes=deletes
            )
        required = (AssertTableUUID(uuid=table.metadata.table_uuid), AssertRefSnapshotId(ref=branch, snapshot_id=None))
        # The library's own commit_transaction retries, and deletes manifests after a failure that may have landed.
        registered = () if statistics is None else (as_statistics(statistics, staged.snapshot_id),)
        self._commit(_table(view), required, (*updates, *added(staged, branch), *registered))
        return int(staged.snapshot_id)

    def rewrite(
        self,
        view: TableView,
        *,
        files: Sequence[WrittenFile],
        dropped: Sequence[DroppedFile],
        summary: Mapping[str, str],
        figures: Mapping[str, int],
        tag_prefix: str,
    ) -> None:
        table = _table(view)
        with self._storage_of(view):
            made = self._new_snapshot(
                table, files, parent=view.head, summary=summary, document=b"", deletes=dropped, same_rows=True
            )
        check_figures(view.identifier, made, figures)
        self._commit(table, _at_head(table, view), added(made, MAIN, f"{tag_prefix}{made.snapshot_id}"))

    def write_blob(self, view: TableView, content: bytes) -> PuffinFile:
        table = _table(view)
        with self._storage_of(view):
            return write_blob(table.io, table.metadata, content)

    def read_blob(self, view: TableView, path: str) -> bytes | None:
        with reading(view.identifier):
            return read_blob(_table(view).io, path)

    def stored_files(self, view: TableView, within: Within | None = None) -> Sequence[StoredFile]:
        return stored_files(view, within)

    def storage_time(self, view: TableView) -> datetime:
        return storage_time(_table(view))

    def added_files(self, view: TableView, snapshot_id: int) -> Sequence[WrittenFile]:
        return added_files(_table(view), snapshot_id)

    def read(
        self,
        view: TableView,
        *,
        columns: Sequence[str],
        equal: Mapping[str, object],
        present: Collection[str] = (),
        between: tuple[str, int, int] | None = None,
        without: Collection[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        scan = TableScan(view, columns=columns, equal=equal, present=present, without=without)
        return scan.slices() if between is None else scan.between(*between)

    def publish(
        self,
        view: TableView,
        *,
        branch: str,
        tag: str,
        drop: Sequence[str],
        alone: bool = False,
        statistics: PuffinFile | None = None,
        more_tags: Sequence[str] = (),
    ) -> None:
        table, staged = _table(view), view.branches[branch]
        requirements: tuple[Any, ...] = (
            *([same_snapshots(table.metadata)] if alone else []),
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN, snapshot_id=view.head),
            AssertRefSnapshotId(ref=branch, snapshot_id=staged),
        )
        updates: tuple[TableUpdate, ...] = (
            point_to(MAIN, SnapshotRefType.BRANCH, staged),
            *(point_to(each, SnapshotRefType.TAG, staged) for each in (tag, *more_tags)),
            *(RemoveSnapshotRefUpdate(ref_name=name) for name in drop if name in {*view.branches, *view.tags}),
            *(() if statistics is None else (as_statistics(statistics, staged),)),
        )
        self._commit(table, requirements, updates)

    def drop_branches(self, view: TableView, branches: Sequence[str]) -> None:
        known = [name for name in branches if name in view.branches]
        if not known:
            return
        table = _table(view)
        requirements: tuple[TableRequirement, ...] = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            *(AssertRefSnapshotId(ref=name, snapshot_id=view.branches[name]) for name in known),
        )
        self._commit(table, requirements, tuple(RemoveSnapshotRefUpdate(ref_name=name) for name in known))

    def move_tags(self, view: TableView, *, put: Mapping[str, int], drop: Sequence[str] = ()) -> None:
        table = _table(view)
        as_seen = (AssertRefSnapshotId(ref=name, snapshot_id=view.tags.get(name)) for name in (*put, *drop))
        moved = (point_to(name, SnapshotRefType.TAG, snapshot_id) for name, snapshot_id in put.items())
        dropped = (RemoveSnapshotRefUpdate(ref_name=name) for name in drop)
        self._commit(table, (AssertTableUUID(uuid=table.metadata.table_uuid), *as_seen), (*moved, *dropped))

    def expire(self, view: TableView, expiry: Expiry) -> None:
        table = _table(view)
        self._commit(table, *expiry_commit(table, expiry))

    def delete_unreachable(
        self, before: TableView, expired: Sequence[int], *, named_elsewhere: Paths, left_elsewhere: Paths = frozenset
    ) -> Cleaned:
        after = self.load(before.identifier)
        if after is None:
            return Cleaned()
        return delete_unreachable(_table(before), _table(after), expired, named_elsewhere, left_elsewhere)

    def set_property_at(self, view: TableView, name: str, value: str) -> None:
        table = _table(view)
        requirements = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN, snapshot_id=view.head),
        )
        self._commit(table, requirements, (SetPropertiesUpdate(updates={name: value}),))

    def set_properties(self, identifier: str, *, put: Mapping[str, str], remove: Sequence[str] = ()) -> None:
        try:
            set_properties(self.catalog, identifier, put=put, remove=remove)
        except NoSuchTableError as missing:
            raise Misuse(
                f"the catalog has no table {identifier}", hint="run `frazil materialize --create-only` first"
            ) from missing
        except Exception as problem:
            raise self._unreachable(f"set properties of {identifier}", problem) from problem

    def change_schema(
        self,
        view: TableView,
        changes: Sequence[Change],
        properties: Mapping[str, str],
        *,
        partition_by: Sequence[str] | None = None,
        sort_by: Sequence[str] | None = None,
    ) -> TableView:
        table = _table(view)
        transaction = Transaction(table, autocommit=False)
        if properties:
            transaction.set_properties(dict(properties))
        change_columns(view.identifier, transaction, changes)
        if partition_by is not None:
            repartition(transaction, partition_by)
        if sort_by is not None:
            reorder(transaction, sort_by)
        self._commit(table, same_layout(table.metadata), transaction._updates)
        changed = self.load(view.identifier)
        if changed is None:
            raise CommitUnknownError(f"{view.identifier} no longer exists")
        return changed

    def _new_snapshot(
        self,
        table: Table,
        files: Sequence[WrittenFile],
        *,
        parent: int | None,
        summary: Mapping[str, str],
        document: bytes,
        deletes: Sequence[Deletion] = (),
        same_rows: bool = False,
    ) -> RawSnapshot:
        return SnapshotWriter(table.metadata, table.io).write(
            files,
            parent=parent,
            summary=summary,
            document=document,
            timestamp_ms=commit_time(table.metadata, self._now_ms()),
            deletes=deletes,
            same_rows=same_rows,
        )

    def _read_document(self, io: FileIO, manifest_list: str) -> bytes | None:
        known = self._documents.get(manifest_list)
        if known is not None:
            return known
        try:
            found = read_document(io, manifest_list)
        except Exception as problem:
            raise self._unreachable(f"read {manifest_list}", problem) from problem
        if found is not None:
            self._documents.put(manifest_list, found, weight=len(found))
        return found

    def _commit(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> None:
        try:
            committed = self.catalog.commit_table(table, requirements, updates)
        except CommitFailedException as lost:
            raise CommitRejectedError(str(lost)) from lost
        except FrazilError:  # the catalog did not carry it out
            raise
        except Exception as problem:
            raise CommitUnknownError(f"{type(problem).__name__}: {problem}") from problem
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is not removed now stays as orphans
            self.catalog._delete_old_metadata(table.io, table.metadata, committed.metadata)

    def _ensure_namespace(self, identifier: str) -> None:
        namespace = identifier.rpartition(".")[0]
        try:
            self.catalog.create_namespace_if_not_exists(namespace)
        except Exception:  # another run may have created it at the same time
            if not self.catalog.namespace_exists(namespace):
                raise

    @contextmanager
    def _storage_of(self, view: TableView) -> Iterator[None]:
        """Manifests are written before the commit that names them: where that fails, nothing can have landed."""
        try:
            yield
        except OSError as problem:
            raise self._unreachable(f"write metadata of {view.identifier}", problem) from problem

    def _unreachable(self, verb: str, problem: Exception) -> CatalogError:
        error = CatalogError(
            f"the {self._settings.type} catalog at {self._settings.address} could not {verb}:"
            f" {type(problem).__name__}: {problem}",
            hint=hint_for(problem),
        )
        error.worth_retrying = not is_lasting(problem)
        return error


def _at_head(table: Table, view: TableView) -> tuple[TableRequirement, ...]:
    return AssertTableUUID(uuid=table.metadata.table_uuid), AssertRefSnapshotId(ref=MAIN, snapshot_id=view.head)


def _table(view: TableView) -> Table:
    return cast(Table, view.current)
