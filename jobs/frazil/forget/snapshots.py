"""What keeps erased rows: snapshots expire at once, and the files that no snapshot has then are deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TypeVar

from pyiceberg.io import FileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from frazil.adapters.iceberg.expiry import delete_files
from frazil.adapters.iceberg.reachable import named_in_properties, plain, reachable
from frazil.adapters.iceberg.scan import reading
from frazil.adapters.iceberg.traces import holding_snapshots
from frazil.maintain.expire import DAILY_PREFIX
from frazil.materialize.rewrite_tags import REWRITE_PREFIX
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.expiry import Expiry
from frazil.model.exports import EXPORT_TAG
from frazil.model.snapshot import MAIN, TableView
from frazil.model.summary import carries_state
from frazil.model.traces import Traces
from frazil.ports import Lake

Read = TypeVar("Read")
OUR_PREFIX = "frazil_"
DROPPED_AT_ONCE = (DAILY_PREFIX, REWRITE_PREFIX)
"""Tags of Frazil that keep a snapshot for time travel, or for a chain that the state does not need any more."""


@dataclass(frozen=True, slots=True)
class Holders:
    """The snapshots that keep files with traces, and the branches and tags on them."""

    snapshots: frozenset[int]
    view: TableView

    @staticmethod
    def of(view: TableView, traces: Traces) -> Holders:
        kept = {each.address for each in traces.found if each.kept_by}
        held = holding_snapshots(view.current, kept) if kept else {}
        return Holders(frozenset(each for ids in held.values() for each in ids), view)

    @staticmethod
    def of_letters(view: TableView) -> Holders:
        """Return all snapshots of a dead-letter table: no search finds a key in a letter whose payload is binary."""
        has_any = any(each.figure("total-records") for each in view.snapshots.values())
        return Holders(frozenset(view.snapshots) if has_any else frozenset(), view)

    @staticmethod
    def of_earlier_states(view: TableView) -> Holders:
        """Return all snapshots but those from the head down to the one that carries the state."""
        every = Holders(frozenset(view.snapshots), view)
        return Holders(every.snapshots.difference(every._chain_of_head()), view)

    @property
    def pins(self) -> list[str]:
        """The branches and tags of others, and pins of exports, on a snapshot with traces."""
        return sorted(name for name in self._refs if _is_pin(name))

    @property
    def _refs(self) -> Iterator[str]:
        for name, head in {**self.view.branches, **self.view.tags}.items():
            if name != MAIN and head in self.snapshots:
                yield name

    def _chain_of_head(self) -> Iterator[int]:
        """Yield the head, and the snapshots down to the one that carries the state."""
        for snapshot in self.view.ancestry(self.view.head):
            yield snapshot.id
            if carries_state(snapshot):
                return

    def _of_our_branches(self) -> Iterator[int]:
        """Yield what a batch or a rebuild that is under way has committed, down to `main`."""
        of_main = {snapshot.id for snapshot in self.view.ancestry(self.view.head)}
        for name, head in self.view.branches.items():
            if name.startswith(OUR_PREFIX):
                yield from takewhile(lambda each: each not in of_main, (s.id for s in self.view.ancestry(head)))

    def expiry(self, pins: Sequence[str] = (), dropped: tuple[str, ...] = DROPPED_AT_ONCE) -> Expiry:
        """Return the snapshots to expire, and what to drop with them: these `pins`, and tags that begin with `dropped`.

        The head stays, and so do other pins and what Frazil is using.
        """
        drop = [name for name in self._refs if name in pins or name.startswith(dropped)]
        left = {**self.view.branches, **self.view.tags}
        kept = {head for name, head in left.items() if name not in drop}
        kept |= {*self._chain_of_head(), *self._of_our_branches()}
        gone = sorted(self.snapshots - kept, key=lambda each: self.view.snapshots[each].committed_at)
        return Expiry(tuple(gone), {}, tuple(sorted(drop)))


def _is_pin(name: str) -> bool:
    return name.startswith(EXPORT_TAG) or not name.startswith(OUR_PREFIX)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The number of files that were deleted. `problems` say why others were not; `elsewhere` are not the table's."""

    files: int
    problems: tuple[str, ...]
    elsewhere: tuple[str, ...]


def delete_expired_files(view: TableView) -> Deleted:
    """Delete the files that only expired snapshots had, in the table's own folders.

    Which snapshots have expired is known from the earlier metadata files that the table still names, so this also
    completes what a process that died has begun. A file that no snapshot ever had is not deleted: a batch may be about
    to publish it. Data files go first, so that manifests still name those which are left if this ends early.
    """
    table: Table = view.current
    with reading(view.identifier):
        needed, roots = reachable(view), _roots(view)
    properties = named_in_properties(view)
    data: set[str] = set()
    manifests: set[str] = set()
    lists: set[str] = set()
    for snapshot in _expired(table):
        listed = _read(table.io, snapshot.manifest_list, partial(snapshot.manifests, table.io))
        if listed is None:
            continue
        lists.add(snapshot.manifest_list)
        for manifest in listed:
            path = manifest.manifest_path
            if path in manifests or plain(path) in needed:
                continue
            entries = _read(table.io, path, partial(manifest.fetch_manifest_entry, table.io, False))
            if entries is not None:
                manifests.add(path)
                data |= {entry.data_file.file_path for entry in entries}
    deleted, problems = 0, list[str]()
    for files in (data, manifests, lists):
        unneeded = sorted(each for each in files if plain(each) not in needed and plain(each).startswith(roots))
        named = [each for each in unneeded if each.rpartition("/")[2] not in properties]
        cleaned = delete_files(table.io, named, [])
        deleted += cleaned.deleted
        problems += cleaned.problems
        if cleaned.left:
            break
    elsewhere = sorted(each for each in data if plain(each) not in needed and not plain(each).startswith(roots))
    return Deleted(deleted, tuple(problems), tuple(each for each in elsewhere if table.io.new_input(each).exists()))


def _roots(view: TableView) -> tuple[str, ...]:
    """Return the folders of the table's files. Files elsewhere, such as imported ones, may belong to others."""
    named = (view.properties.get(name) for name in ("write.data.path", "write.metadata.path"))
    return tuple(plain(each).rstrip("/") + "/" for each in (view.location, *named) if each)


def expire(lake: Lake, view: TableView, expiry: Expiry) -> TableView:
    """Expire snapshots in one commit; return the table as it is then. Raises CommitError."""
    assert CHECKPOINT_TAG not in expiry.drop  # noqa: S101 - it is none of those
    if expiry:
        lake.expire(view, expiry)
    now = lake.load(view.identifier)
    return view if now is None else now


def _expired(table: Table) -> Iterator[Snapshot]:
    """Yield the snapshots that earlier metadata of the table has and its present metadata has not."""
    seen = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    for entry in reversed(table.metadata.metadata_log):
        file = table.io.new_input(entry.metadata_file)
        earlier = _read(table.io, entry.metadata_file, partial(FromInputFile.table_metadata, file))
        if earlier is None or earlier.table_uuid != table.metadata.table_uuid:
            continue
        for snapshot in earlier.snapshots:
            if snapshot.snapshot_id not in seen:
                seen.add(snapshot.snapshot_id)
                yield snapshot


def _read(io: FileIO, path: str, read: Callable[[], Read]) -> Read | None:
    """Return what `read` finds in a file; None if the file is gone, or another expiry deletes it meanwhile."""
    try:
        return read() if io.new_input(path).exists() else None
    except FileNotFoundError:
        return None
