"""List a table again that was dropped from its catalog, by the newest metadata file in its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from frazil.adapters.iceberg.dropped_table import (
    FoundMetadata,
    Unusable,
    described_by,
    location_of,
    metadata_files,
    register,
)
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.pause.history import Operation, operations
from frazil.model.errors import CatalogError, Misuse, StateLostError
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import ROWS_UUID, carries_state, state_in


@dataclass(frozen=True, slots=True)
class Recovered:
    """A table that the catalog lists again, from which file, and newer files that could not be used, with why.

    `undone` are the erasures that newer files note, and the recovered state does not have.
    """

    view: TableView
    address: str
    passed_over: tuple[Unusable, ...] = ()
    undone: tuple[Operation, ...] = ()


def recover(catalog: CatalogSettings, spec: TableSpec, *, metadata: str | None = None) -> list[Recovered]:
    """List the table and its dead letters again, those that the catalog lacks; `metadata` is the table's file.

    A file names a whole state of the table, so what was committed later is read from Kafka again. A folder may have the
    files of several tables, if one was dropped and made again: without a name, the table is the one that was written
    last. Raises Misuse if the catalog has the table and a file was named, CatalogError if there is no file or one
    cannot be used, and CommitRejectedError.
    """
    lake = IcebergLake(catalog)
    found = []
    if (rows := lake.load(spec.identifier)) is None:
        if metadata:
            chosen = _named(lake, spec.identifier, metadata)
            newer = _newer(lake, catalog, chosen)
        else:
            chosen = _last_table(_Folder.listed(lake, catalog, spec.identifier))
            newer = iter(chosen.passed_over)
        chosen = replace(chosen, undone=_undone(chosen, newer))
        register(lake, spec.identifier, chosen.address)
        found, rows = [chosen], chosen.view
    elif metadata is not None:
        raise Misuse(f"the catalog has the table {spec.identifier}", hint="drop it first, without purging its files")
    if lake.load(spec.dead_letters_identifier) is None:
        letters = _letters(_Folder.listed(lake, catalog, spec.dead_letters_identifier), rows.uuid)
        register(lake, spec.dead_letters_identifier, letters.address)
        found.append(letters)
    return found


@dataclass(slots=True)
class _Folder:
    """The metadata files in the folder of a table. The folder is listed once, and each file is read once."""

    lake: IcebergLake
    identifier: str
    files: Sequence[FoundMetadata]
    _described: dict[str, TableView | Unusable] = field(default_factory=dict)

    @staticmethod
    def listed(lake: IcebergLake, catalog: CatalogSettings, identifier: str) -> _Folder:
        return _Folder(lake, identifier, metadata_files(catalog, location_of(lake, identifier)))

    def described(self, address: str) -> TableView | Unusable:
        """Return the table of a metadata file, whose state can be read."""
        if address not in self._described:
            self._described[address] = _described(self.lake, self.identifier, address)
        return self._described[address]


def _named(lake: IcebergLake, identifier: str, address: str) -> Recovered:
    found = _described(lake, identifier, address)
    if isinstance(found, Unusable):
        raise CatalogError(f"{address} cannot be used for {identifier}: {found.why}", hint="name another file")
    return Recovered(found, address)


def _newer(lake: IcebergLake, catalog: CatalogSettings, chosen: Recovered) -> Iterator[TableView | Unusable]:
    """Yield what the newer metadata files in the folder of a chosen one describe, the newest first."""
    location, _, name = chosen.address.rpartition("/metadata/")
    files = metadata_files(catalog, location)
    commits = next((each.commits for each in files if each.address.endswith(f"/{name}")), 0)
    yield from (_described(lake, chosen.view.identifier, each.address) for each in files if each.commits > commits)


def _undone(chosen: Recovered, newer: Iterable[TableView | Unusable]) -> tuple[Operation, ...]:
    """Return the erasures that newer metadata of the table notes: Kafka may have the rows still."""
    of_table = (each.properties for each in newer if each.uuid == chosen.view.uuid)
    last, known = next(of_table, {}), operations(chosen.view.properties)
    return tuple(each for each in operations(last) if each.what == "forget" and each not in known)


def _last_table(folder: _Folder) -> Recovered:
    """Return the newest state of the table that was written last: an earlier one may have had more commits."""
    by_time = sorted(
        folder.files, key=lambda each: 0 if each.written is None else each.written.timestamp(), reverse=True
    )
    views = (folder.described(each.address) for each in by_time)
    last = next((view.uuid for view in views if not isinstance(view, Unusable)), None)

    def why_not(view: TableView) -> str:
        return "" if last in (None, view.uuid) else "it is of an earlier table, which was dropped"

    found = _newest(folder, why_not)
    return found if isinstance(found, Recovered) else _raise_none(folder, found)


def _letters(folder: _Folder, rows_uuid: str) -> Recovered:
    """Return the newest state of the dead letters of this table; if it has none, of those that were written last."""

    def why_not(view: TableView) -> str:
        is_of = any(snapshot.summary.get(ROWS_UUID) == rows_uuid for snapshot in view.ancestry(view.head))
        return "" if is_of else "it has no dead letters of this table"

    found = _newest(folder, why_not)
    return found if isinstance(found, Recovered) else _last_table(folder)


def _newest(folder: _Folder, why_not: Callable[[TableView], str]) -> Recovered | tuple[Unusable, ...]:
    """Return the newest state that can be used, or why none can. Raises CatalogError if two are of one commit."""
    passed_over: list[Unusable] = []
    for commits in sorted({each.commits for each in folder.files}, reverse=True):
        addresses = [each.address for each in folder.files if each.commits == commits]
        found = [_judged(folder, address, why_not) for address in addresses]
        passed_over += [each for each in found if isinstance(each, Unusable)]
        valid = [
            Recovered(view, address, tuple(passed_over))
            for view, address in zip(found, addresses, strict=True)
            if not isinstance(view, Unusable)
        ]
        if len(valid) > 1:
            raise _several(folder.identifier, [each.address for each in valid])
        if valid:
            return valid[0]
    return tuple(passed_over)


def _raise_none(folder: _Folder, passed_over: Sequence[Unusable]) -> NoReturn:
    location = location_of(folder.lake, folder.identifier)
    why = "".join(f"\n  {each.address}: {each.why}" for each in passed_over)
    raise CatalogError(
        f"{location}/metadata has no metadata file of {folder.identifier} that can be used{why}",
        hint="restore one from a backup or an earlier version of the object; without one, `frazil materialize` makes"
        " the table again from what Kafka still has",
    )


def _judged(folder: _Folder, address: str, why_not: Callable[[TableView], str]) -> TableView | Unusable:
    view = folder.described(address)
    why = "" if isinstance(view, Unusable) else why_not(view)
    return Unusable(address, why) if why else view


def _described(lake: IcebergLake, identifier: str, address: str) -> TableView | Unusable:
    """The table of a metadata file, whose state can be read."""
    view = described_by(lake, identifier, address)
    newest = None if isinstance(view, Unusable) else next(filter(carries_state, view.ancestry(view.head)), None)
    try:
        if newest is not None and ROWS_UUID not in newest.summary:  # dead letters have no state of their own
            state_in(newest)
    except StateLostError as damaged:
        return Unusable(address, damaged.what, view.uuid, view.properties)
    return view


def _several(identifier: str, addresses: Sequence[str]) -> CatalogError:
    listed = "".join(f"\n  {address}" for address in addresses)
    return CatalogError(
        f"{identifier}: these metadata files have the same number of commits: one was committed, and the others"
        f" lost the race{listed}",
        hint="name one with --metadata: each is a whole state of the table",
    )
