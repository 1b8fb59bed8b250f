"""`frazil maintain --orphans`: list files that nothing needs, and delete them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from frazil.cli.screen import print_lines
from frazil.model.errors import CatalogError, Misuse, SettingError
from frazil.model.expiry import LEAST_AGE
from frazil.model.moments import rfc3339
from frazil.model.spelling import plural

if TYPE_CHECKING:
    from frazil.adapters.iceberg.lake import IcebergLake
    from frazil.adapters.iceberg.orphans import Orphans
    from frazil.model.expiry import Cleaned
    from frazil.model.spec import TableSpec

Found = list[tuple["Orphans", "Cleaned | None"]]
"""The orphans of each table, and what became of them if they were to be deleted."""


def check_together(*, orphans: bool, others: bool, delete: bool, dry_run: bool) -> None:
    """Raise Misuse for options that exclude each other."""
    if delete and not orphans:
        raise Misuse("--delete deletes nothing without --orphans", hint="add --orphans, or leave --delete out")
    if delete and dry_run:
        raise Misuse("--delete and --dry-run exclude each other", hint="leave one of them out")
    if orphans and others:
        raise Misuse("--orphans does nothing else", hint="run the command once with it and once without")


def list_orphans(
    lake: IcebergLake, specs: Sequence[TableSpec], *, older_than: timedelta, delete: bool, as_json: bool
) -> None:
    """Print the orphans of the tables and of their dead letters, and delete them if that is asked for."""
    from frazil.adapters.iceberg.orphans import OrphanSearch, local_time  # noqa: PLC0415

    if older_than < LEAST_AGE:
        raise SettingError(
            f"--older-than: expected {LEAST_AGE.days} days at least, found {older_than}",
            hint="younger files may be those of a running batch",
        )
    found = Found()
    for spec, identifier in _tables(lake, specs):
        search = OrphanSearch(lake, older_than, travel=spec.maintain.keep_snapshots.age)
        orphans = search.find(identifier, now=search.storage_time(identifier) if delete else local_time())
        if orphans is not None:
            found.append((orphans, search.delete(orphans) if delete and orphans.files else None))
    if as_json:
        print(json.dumps([_as_json(*each) for each in found], indent=2))
    else:
        print_lines((line for each in found for line in _lines(*each)), sys.stdout)
        if not delete and any(orphans.files for orphans, _ in found):
            print("nothing was deleted: run it again with --delete to delete them", file=sys.stderr)
    for orphans, cleaned in found:
        if cleaned is not None and cleaned.left:
            left = plural(cleaned.left, "orphan")
            raise CatalogError(
                f"{orphans.table}: {left} could not be deleted: {'; '.join(cleaned.problems)}",
                hint="check the credentials, then run the command again",
            )


def _tables(lake: IcebergLake, specs: Sequence[TableSpec]) -> Iterator[tuple[TableSpec, str]]:
    """Yield the tables that Frazil fills. Raises as `own_rows`: the files of others are theirs."""
    from frazil.materialize.maintenance.own_tables import own_dead_letters, own_rows  # noqa: PLC0415

    for spec in specs:
        yield spec, own_rows(lake, spec).identifier
        if own_dead_letters(lake, spec) is not None:
            yield spec, spec.dead_letters_identifier


def _lines(orphans: Orphans, cleaned: Cleaned | None) -> Iterator[str]:
    counted = f"of {plural(orphans.listed, 'file')}{_younger(orphans.younger)}"
    if not orphans.files:
        yield f"{orphans.table}: no orphans {counted}"
        return
    verb = "" if cleaned is None else f", {cleaned.deleted:,} deleted"
    yield f"{orphans.table}: {plural(len(orphans.files), 'orphan')} of {orphans.bytes:,} bytes, {counted}{verb}"
    for each in orphans.files:
        yield f"  {rfc3339(each.written.replace(microsecond=0))}  {each.size:>13,}  {each.address}"


def _younger(count: int) -> str:
    """Return the clause about files that may still be in use, or nothing if there are none."""
    return f"; {count:,} more {'is' if count == 1 else 'are'} too young to be sure" if count else ""


def _as_json(orphans: Orphans, cleaned: Cleaned | None) -> dict[str, Any]:
    return {
        "table": orphans.table,
        "listed": orphans.listed,
        "younger": orphans.younger,
        "deleted": None if cleaned is None else cleaned.deleted,
        "orphans": [
            {"address": each.address, "bytes": each.size, "written": rfc3339(each.written)} for each in orphans.files
        ],
    }
