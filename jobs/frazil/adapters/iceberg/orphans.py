"""Orphans: files in a table's folders that nothing needs. They are listed first; what is needed is read afterwards.

So a file that becomes part of the table meanwhile is found among those that are needed. Files that a batch has written
and no branch has yet are kept apart by their age, by the clock of the storage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote

from pyiceberg.io import FileIO

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.expiry import delete_files
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.listing import StoredObject, list_objects
from frazil.adapters.iceberg.reachable import (
    METADATA_SUFFIXES,
    last_part,
    metadata_of_another,
    named_in_properties,
    plain,
    reachable,
)
from frazil.delta.needed import files_needed
from frazil.model.errors import CatalogError, FrazilError
from frazil.model.expiry import LEAST_AGE, Cleaned
from frazil.model.moments import rfc3339
from frazil.model.snapshot import TableView

FOLDERS = ("data", "metadata")
"""Frazil writes files of a table nowhere else, below its location. Other folders are never touched."""

DELETE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Orphans:
    """The files of a table that nothing needs, the oldest first; `listed` are all files in its folders."""

    table: str
    files: tuple[StoredObject, ...]
    listed: int
    younger: int
    """Files that nothing needs either, and that are too young to be sure."""

    @property
    def bytes(self) -> int:
        return sum(each.size for each in self.files)


@dataclass(frozen=True, slots=True)
class OrphanSearch:
    """Looks for the orphans of a lake's tables. `between` is called after the listing, for tests.

    Files that a version of a Delta log needs stay, if it was the newest within `travel` or `older_than`.
    """

    lake: IcebergLake
    older_than: timedelta = LEAST_AGE
    travel: timedelta = timedelta(0)
    between: Callable[[], None] = lambda: None

    def find(self, identifier: str, *, now: datetime) -> Orphans | None:
        """Return the orphans at a time of the storage's clock; None if there is no such table. Raises CatalogError."""
        before = self.lake.load(identifier)
        if before is None:
            return None
        try:
            return self._find(before, now)
        except FrazilError:
            raise
        except Exception as problem:
            raise CatalogError(
                f"{identifier}: cannot know which files are needed: {type(problem).__name__}: {problem}; nothing was"
                " deleted",
                hint="check that the storage answers and that no metadata is damaged: `frazil verify` reads it",
            ) from problem

    def delete(self, orphans: Orphans) -> Cleaned:
        """Delete the files."""
        view = self._loaded(orphans.table)
        io, found = view.current.io, orphans.files
        return delete_files(io, (each.address for each in found), [], seconds=DELETE_SECONDS)

    def storage_time(self, identifier: str) -> datetime:
        """Return what time it is by the clock of the table's storage. Raises CatalogError."""
        return self.lake.storage_time(self._loaded(identifier))

    def _find(self, before: TableView, now: datetime) -> Orphans:
        io, root = before.current.io, plain(before.location).rstrip("/")
        objects = [each for folder in FOLDERS for each in list_objects(io, f"{root}/{folder}")]
        _check_alone(before.identifier, root, objects)
        self.between()
        needed_before, after = reachable(before), self._loaded(before.identifier)
        if after.uuid != before.uuid:
            raise CatalogError(
                f"{before.identifier} was dropped and made again meanwhile; nothing was deleted", hint="run it again"
            )
        needed = needed_before | reachable(after)
        _check_listed(before, root, objects, needed_before & reachable(after))
        properties = named_in_properties(before) + named_in_properties(after)
        logged = self._logged_names(before, now)
        _check_own(io, before, [each.address for each in objects if each.address not in needed])
        unneeded = [
            each
            for each in objects
            if each.address not in needed
            and last_part(each.address) not in properties
            and not _is_logged(last_part(each.address), logged)
        ]
        oldest = now - self.older_than
        old = sorted(
            (each for each in unneeded if each.written < oldest), key=lambda each: (each.written, each.address)
        )
        return Orphans(before.identifier, tuple(old), len(objects), len(unneeded) - len(old))

    def _logged_names(self, view: TableView, now: datetime) -> frozenset[str]:
        """Return the last part of the path of each file that a Delta log needs: parts before it may be encoded."""
        since = now - max(self.older_than, self.travel)
        return frozenset(map(last_part, files_needed(DeltaRsLogs(self.lake.storage), view.location, since=since)))

    def _loaded(self, identifier: str) -> TableView:
        view = self.lake.load(identifier)
        if view is None:
            raise CatalogError(f"{identifier} was dropped meanwhile; nothing was deleted", hint="run it again")
        return view


def local_time() -> datetime:
    return datetime.now(UTC)


def _is_logged(name: str, logged: frozenset[str]) -> bool:
    """Return whether a Delta log has the name, whose writers encode it or not."""
    return not logged.isdisjoint({name, quote(name), unquote(name), *({quote(quote(name))} if "%" in name else ())})


def _check_alone(identifier: str, root: str, objects: Sequence[StoredObject]) -> None:
    """Refuse a folder that has another table in it: its files would be taken for orphans."""
    for each in objects:
        if each.address.endswith(".metadata.json") and each.address.rpartition("/")[0] != f"{root}/metadata":
            raise CatalogError(
                f"{identifier}: there is another table in its folder, by {each.address}; nothing was deleted",
                hint="move one of the two tables: the files of the other would look like orphans",
            )


def _check_own(io: FileIO, view: TableView, unneeded: Sequence[str]) -> None:
    """Refuse a folder with metadata of another table, which may exist: it was renamed, and its name used again."""
    address = metadata_of_another(io, view.uuid, [each for each in unneeded if each.endswith(METADATA_SUFFIXES)])
    if address is not None:
        raise CatalogError(
            f"{view.identifier}: another table has files in its folder, by {address}; nothing was deleted",
            hint="if it was renamed, its files are needed; if it was dropped for good, remove this metadata file and"
            " others of that table, and run it again",
        )


def _check_listed(view: TableView, root: str, objects: Sequence[StoredObject], needed: frozenset[str]) -> None:
    """Refuse a listing that lacks files of the table: addresses may be spelled in a way that is not known here."""
    listed = {each.address for each in objects}
    below = tuple(f"{root}/{folder}/" for folder in FOLDERS)
    current = plain(view.current.metadata_location)
    lists = {plain(each.manifest_list) for each in view.snapshots.values()}
    missing = sorted(path for path in needed & (lists | {current}) if path.startswith(below) and path not in listed)
    if missing:
        raise CatalogError(
            f"{view.identifier}: the storage does not list {missing[0]}, which the table needs, as of"
            f" {rfc3339(local_time().replace(microsecond=0))}; nothing was deleted",
            hint="run `frazil verify`: if it finds nothing, report this as a defect",
        )
