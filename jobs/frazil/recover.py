"""List a table again that was dropped from its catalog, by the newest metadata file in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.adapters.iceberg.dropped_table import Unusable, described_by, location_of, metadata_files, register
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.model.errors import CatalogError, Misuse, StateLostError
from frazil.model.snapshot import TableView
from frazil.model.spec import CatalogSettings, TableSpec
from frazil.model.summary import ROWS_UUID, carries_state, state_in


@dataclass(frozen=True, slots=True)
class Recovered:
    """A table that the catalog lists again, from which file, and newer files that could not be used, with why."""

    view: TableView
    address: str
    passed_over: tuple[Unusable, ...] = ()


def recover(catalog: CatalogSettings, spec: TableSpec, *, metadata: str | None = None) -> list[Recovered]:
    """List the table and its dead letters again, those that the catalog lacks; `metadata` is the table's file.

    A file names a whole state of the table, so what was committed later is read from Kafka again. Raises Misuse if the
    catalog has the table and a file was named, CatalogError if there is no file or one cannot be used, and
    CommitRejectedError.
    """
    lake = IcebergLake(catalog)
    found = []
    for identifier, named in ((spec.identifier, metadata), (spec.dead_letters_identifier, None)):
        if lake.load(identifier) is None:
            found.append(_recovered(lake, catalog, identifier, named))
        elif named is not None:
            raise Misuse(f"the catalog has the table {identifier}", hint="drop it first, without purging its files")
    return found


def _recovered(lake: IcebergLake, catalog: CatalogSettings, identifier: str, named: str | None) -> Recovered:
    chosen = _named(lake, identifier, named) if named else _newest(lake, catalog, identifier)
    register(lake, identifier, chosen.address)
    return chosen


def _named(lake: IcebergLake, identifier: str, address: str) -> Recovered:
    found = _described(lake, identifier, address)
    if isinstance(found, Unusable):
        raise CatalogError(f"{address} cannot be used for {identifier}: {found.why}", hint="name another file")
    return Recovered(found, address)


def _newest(lake: IcebergLake, catalog: CatalogSettings, identifier: str) -> Recovered:
    location = location_of(lake, identifier)
    files = metadata_files(catalog, location)
    passed_over: list[Unusable] = []
    for commits in sorted({each.commits for each in files}, reverse=True):
        found = [_described(lake, identifier, each.address) for each in files if each.commits == commits]
        addresses = [each.address for each in files if each.commits == commits]
        passed_over += [each for each in found if isinstance(each, Unusable)]
        valid = [
            Recovered(view, address, tuple(passed_over))
            for view, address in zip(found, addresses, strict=True)
            if not isinstance(view, Unusable)
        ]
        if len(valid) > 1:
            raise _several(identifier, [each.address for each in valid])
        if valid:
            return valid[0]
    why = "".join(f"\n  {each.address}: {each.why}" for each in passed_over)
    raise CatalogError(
        f"{location}/metadata has no metadata file of {identifier} that can be used{why}",
        hint="restore one from a backup or an earlier version of the object; without one, `frazil materialize` makes"
        " the table again from what Kafka still has",
    )


def _described(lake: IcebergLake, identifier: str, address: str) -> TableView | Unusable:
    """The table of a metadata file, whose state can be read."""
    view = described_by(lake, identifier, address)
    newest = None if isinstance(view, Unusable) else next(filter(carries_state, view.ancestry(view.head)), None)
    try:
        if newest is not None and ROWS_UUID not in newest.summary:  # dead letters have no state of their own
            state_in(newest)
    except StateLostError as damaged:
        return Unusable(address, damaged.what)
    return view


def _several(identifier: str, addresses: Sequence[str]) -> CatalogError:
    listed = "".join(f"\n  {address}" for address in addresses)
    return CatalogError(
        f"{identifier}: these metadata files have the same number of commits: one was committed, and the others"
        f" lost the race{listed}",
        hint="name one with --metadata: each is a whole state of the table",
    )
