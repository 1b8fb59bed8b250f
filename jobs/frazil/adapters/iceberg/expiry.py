"""Expiry in Iceberg's metadata through PyIceberg, and the files that nothing references afterwards.

A file is deleted only if no snapshot of the table, as it is read after the commit, references it. Which ones do is
found without reading every snapshot that is left:

- A snapshot lists the manifests of its parent, or fewer, and new ones. So a manifest of an expired snapshot that any
  kept snapshot lists is also listed by a kept snapshot whose parent is gone, by the kept parent of an expired one, or
  by the newest of a branch.
- A data file leaves a table only by a snapshot that removes files. So candidates are what such snapshots removed, if
  they or their parents expired, and what expired snapshots added that have no descendants left. A candidate that any
  kept snapshot holds is held by the newest of its branch, or by the parent of a snapshot that removes files. Other
  candidates are files in the data folder that a Delta log has left.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import (
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
)

from frazil.adapters.iceberg.left_files import left_files
from frazil.adapters.iceberg.listing import READ_AT_ONCE
from frazil.model.expiry import Cleaned, Expiry, Paths

DELETE_AT_ONCE = 8
DELETE_SECONDS = 120.0
"""Files that are not deleted within this time stay, as orphans."""

Manifests = Mapping[str, ManifestFile]


class AssertSameSnapshots(ValidatableTableRequirement):
    """Every branch and tag is where it was, there is no new one, and nothing that is to expire is gone.

    Iceberg's own requirements name one branch each, so a tag that another process has just set on an expiring snapshot
    would pass them and be dropped. Catalogs that PyIceberg checks itself (all but REST) take requirements of ours.
    """

    type: Literal["frazil-assert-same-snapshots"] = Field(default="frazil-assert-same-snapshots")
    refs: dict[str, int]
    expiring: list[int]

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        if base_metadata is None:
            raise CommitFailedException("Requirement failed: current table metadata is missing")
        if {name: ref.snapshot_id for name, ref in base_metadata.refs.items()} != self.refs:
            raise CommitFailedException("Requirement failed: a branch or tag has changed")
        if not {s.snapshot_id for s in base_metadata.snapshots}.issuperset(self.expiring):
            raise CommitFailedException("Requirement failed: a snapshot that is to expire is gone")


def same_snapshots(metadata: TableMetadata, *, expiring: Sequence[int] = ()) -> AssertSameSnapshots:
    """Require that branches and tags are those of this metadata."""
    refs = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
    return AssertSameSnapshots(refs=refs, expiring=list(expiring))


def expiry_commit(table: Table, expiry: Expiry) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
    """Return the requirements and updates of the commit."""
    metadata = table.metadata
    requirements: tuple[Any, ...] = (
        AssertTableUUID(uuid=metadata.table_uuid),
        same_snapshots(metadata, expiring=expiry.snapshots),
    )
    updates: tuple[TableUpdate, ...] = (
        *(_tag(name, snapshot_id) for name, snapshot_id in expiry.put.items()),
        *(RemoveSnapshotRefUpdate(ref_name=name) for name in expiry.drop),
    )
    if expiry.snapshots:
        updates = (*updates, RemoveSnapshotsUpdate(snapshot_ids=list(expiry.snapshots)))
    return requirements, updates


def _tag(name: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=SnapshotRefType.TAG,
        snapshot_id=snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )


@dataclass(slots=True)
class Unreachable:
    """Files that only expired snapshots reference. `before` is the table as it was, `after` as it is now."""

    before: Table
    after: Table
    expired: frozenset[int]
    named_elsewhere: Paths
    left_elsewhere: Paths
    problems: list[str] = field(default_factory=list)
    _lists: dict[int, Manifests] = field(default_factory=dict)

    def files(self) -> Iterator[str]:
        """Data files first: the manifests that name them are still there if this ends early."""
        gone = [s for s in self.before.metadata.snapshots if s.snapshot_id in self.expired]
        left = self.after.metadata.snapshots
        kept_lists = {snapshot.manifest_list for snapshot in left}
        with ThreadPoolExecutor(READ_AT_ONCE) as pool:
            self._read(pool, [*gone, *self._witnesses(gone, left)])
            listed = {path for s in self._witnesses(gone, left) for path in self._manifests(s)}
            orphaned = {p: m for s in gone for p, m in self._manifests(s).items() if p not in listed}
            data = self._data_files(pool, gone, left)
        lists = {s.manifest_list for s in gone} - kept_lists
        statistics = {s.statistics_path for s in self.before.metadata.statistics} - {
            s.statistics_path for s in self.after.metadata.statistics
        }
        yield from (path for path in (*sorted(data), *orphaned, *lists, *statistics) if self._is_ours(path))

    def _witnesses(self, gone: Sequence[Snapshot], left: Sequence[Snapshot]) -> list[Snapshot]:
        """Return kept snapshots that together list every manifest shared by an expired and a kept snapshot."""
        ids = {snapshot.snapshot_id for snapshot in left}
        parents = {snapshot.parent_snapshot_id for snapshot in gone} & ids
        heads = {ref.snapshot_id for ref in self.after.metadata.refs.values()} | _tips(left)
        first = {s.snapshot_id for s in left if s.parent_snapshot_id is None or s.parent_snapshot_id not in ids}
        return [s for s in left if s.snapshot_id in parents | heads | first]

    def _data_files(self, pool: ThreadPoolExecutor, gone: Sequence[Snapshot], left: Sequence[Snapshot]) -> set[str]:
        of_expired = _flat(pool.map(self._entries_of_interest, self._writers(gone, left)))
        candidates = {_plain(path): path for path in (*of_expired, *self._left_in_storage())}
        if not candidates:
            return set()
        ids = {snapshot.snapshot_id for snapshot in left}
        before_removals = {s.parent_snapshot_id for s in left if _removes(s)} & ids
        holders = [s for s in left if s.snapshot_id in before_removals | _tips(left)]
        self._read(pool, holders)
        unique = {path: manifest for s in holders for path, manifest in self._manifests(s).items()}
        for live in pool.map(self._live, unique.values()):
            for path in live & candidates.keys():
                del candidates[path]
        found = set(candidates.values())
        return found - self._in_delta(found) if found else found

    def _left_in_storage(self) -> list[str]:
        """Return the files in the data folder that the Delta log has left; none if that is not known for sure."""
        try:
            return left_files(self.after, self.left_elsewhere())
        except Exception as problem:  # noqa: BLE001 - whatever it is, the files stay
            self.problems.append(f"could not find which files the Delta log has left: {problem}")
            return []

    def _in_delta(self, candidates: set[str]) -> set[str]:
        """Return the candidates that the Delta log references, or all candidates if the log cannot be read."""
        try:
            named = set(self.named_elsewhere())
        except Exception as problem:  # noqa: BLE001 - whatever it is, the files stay
            self.problems.append(f"could not read which files the Delta log references: {problem}")
            return candidates
        root = _plain(self.before.metadata.location).rstrip("/") + "/"
        return {path for path in candidates if _plain(path).removeprefix(root) in named}

    def _writers(self, gone: Sequence[Snapshot], left: Sequence[Snapshot]) -> list[tuple[ManifestFile, bool]]:
        """Manifests whose entries are candidates; true where all of them are, false where only the removed ones."""
        survivors = _ancestors_of(left, self.before)
        without = [s for s in gone if s.snapshot_id not in survivors]
        first = [s for s in left if (b := self.before.snapshot_by_id(s.snapshot_id)) is not None
                 and b.parent_snapshot_id in self.expired]  # fmt: skip
        removing = [s for s in (*gone, *first) if _removes(s)]
        own = [(m, True) for s in without for m in self._manifests(s).values() if m.added_snapshot_id == s.snapshot_id]
        more = [(m, False) for s in removing for m in self._manifests(s).values()
                if m.added_snapshot_id == s.snapshot_id and m.deleted_files_count != 0]  # fmt: skip
        return own + more

    def _entries_of_interest(self, manifest_and_all: tuple[ManifestFile, bool]) -> list[str]:
        manifest, everything = manifest_and_all
        entries = manifest.fetch_manifest_entry(self.before.io, discard_deleted=False)
        return [e.data_file.file_path for e in entries if everything or e.status == ManifestEntryStatus.DELETED]

    def _live(self, manifest: ManifestFile) -> set[str]:
        entries = manifest.fetch_manifest_entry(self.before.io, discard_deleted=True)
        return {_plain(entry.data_file.file_path) for entry in entries}

    def _read(self, pool: ThreadPoolExecutor, snapshots: Iterable[Snapshot]) -> None:
        unread = {s.snapshot_id: s for s in snapshots if s.snapshot_id not in self._lists}
        for snapshot_id, manifests in zip(unread, pool.map(self._listed, unread.values()), strict=True):
            self._lists[snapshot_id] = manifests

    def _manifests(self, snapshot: Snapshot) -> Manifests:
        if snapshot.snapshot_id not in self._lists:
            self._lists[snapshot.snapshot_id] = self._listed(snapshot)
        return self._lists[snapshot.snapshot_id]

    def _listed(self, snapshot: Snapshot) -> Manifests:
        return {manifest.manifest_path: manifest for manifest in snapshot.manifests(self.before.io)}

    def _is_ours(self, path: str) -> bool:
        """Files elsewhere, such as those of a table that was adopted, may belong to others."""
        properties = self.after.metadata.properties
        more = (properties.get(name) for name in ("write.data.path", "write.metadata.path"))
        roots = (self.after.metadata.location, *(each for each in more if each))
        return any(_plain(path).startswith(_plain(root).rstrip("/") + "/") for root in roots)


def _ancestors_of(left: Sequence[Snapshot], before: Table) -> set[int]:
    """Return the ancestors of all kept snapshots, by the lineage before the expiry."""
    parents = {s.snapshot_id: s.parent_snapshot_id for s in (*left, *before.metadata.snapshots)}
    found: set[int] = set()
    for snapshot in left:
        at: int | None = snapshot.snapshot_id
        while at is not None and at not in found:
            found.add(at)
            at = parents.get(at)
    return found


def _tips(snapshots: Sequence[Snapshot]) -> set[int]:
    """Snapshots that no other one was built on."""
    return {s.snapshot_id for s in snapshots} - {s.parent_snapshot_id for s in snapshots if s.parent_snapshot_id}


def _removes(snapshot: Snapshot) -> bool:
    """Return whether the snapshot may have removed files; only an append without removals in its summary has not."""
    summary = snapshot.summary
    if summary is None or summary.operation != Operation.APPEND:
        return True
    return any(summary.additional_properties.get(name, "0") != "0" for name in ("deleted-data-files", "removed-files"))


def _flat(parts: Iterable[list[str]]) -> Iterator[str]:
    return (each for part in parts for each in part)


def _plain(address: str) -> str:
    return address.removeprefix("file://").replace("s3a://", "s3://", 1)


def delete_unreachable(
    before: Table, after: Table, expired: Sequence[int], named_elsewhere: Paths, left_elsewhere: Paths
) -> Cleaned:
    """Delete files that only expired snapshots referenced, or a Delta log. Errors of reading metadata propagate."""
    if after.metadata.table_uuid != before.metadata.table_uuid:
        return Cleaned()
    unreachable = Unreachable(before, after, frozenset(expired), named_elsewhere, left_elsewhere)
    files = list(unreachable.files())
    return delete_files(before.io, files, unreachable.problems)


def delete_files(io: FileIO, paths: Iterable[str], problems: list[str], *, seconds: float = DELETE_SECONDS) -> Cleaned:
    """Delete what can be deleted in time. A file that is gone already counts as deleted."""
    until = time.monotonic() + seconds
    with ThreadPoolExecutor(DELETE_AT_ONCE) as pool:
        outcomes = list(pool.map(lambda path: _deleted(io, path, until), paths))
    failures = [outcome for outcome in outcomes if outcome is not None]
    named = tuple(dict.fromkeys((*problems, *failures)))[:3]
    return Cleaned(deleted=len(outcomes) - len(failures), left=len(failures) + len(problems), problems=named)


def _deleted(io: FileIO, path: str, until: float) -> str | None:
    """Delete a file; return None, or why it could not be deleted."""
    if time.monotonic() > until:
        return "the time limit was reached"
    try:
        io.delete(path)
    except FileNotFoundError:
        return None
    except Exception as problem:  # noqa: BLE001 - one file that stays keeps no other from going
        return f"{type(problem).__name__}: {problem}"
    return None
