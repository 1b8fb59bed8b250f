"""The warehouse folder of an embedded catalog: created, and checked before anything is read from Kafka."""

from __future__ import annotations

import os
from pathlib import Path

from frazil.model.errors import CatalogError
from frazil.model.settings import CatalogSettings

CATALOG_FILE = "catalog.db"
"""The database of an embedded catalog, in the folder of the warehouse."""


def check_warehouse(settings: CatalogSettings) -> None:
    """Raise CatalogError, which is not worth retrying, if the folder or its database cannot be written.

    A folder that does not exist is fine if it can be created. Other catalogs are checked by the commands that use them.
    """
    if settings.type != "jdbc":
        return
    folder = Path(settings.warehouse)
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    database = folder / CATALOG_FILE
    if not nearest.is_dir():
        raise _in_the_way(folder, nearest, "a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise _not_writable(folder, f"the folder {nearest}", nearest)
    if database.exists() and not database.is_file():
        raise _in_the_way(folder, database, "a file")
    if database.exists() and not os.access(database, os.W_OK):
        raise _not_writable(folder, f"the file {database}", database)


def make_warehouse(folder: Path) -> None:
    """Create the folder if it does not exist. Raises CatalogError, which is not worth retrying, if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise _lasting(
            f"cannot create the warehouse folder {folder}: {problem.strerror or problem}",
            "check each folder of that path with `ls -ld`, or change `catalog.warehouse`",
        ) from problem


def _in_the_way(folder: Path, path: Path, expected: str) -> CatalogError:
    what = f"cannot write to the warehouse {folder}: {path} is not {expected}"
    return _lasting(what, f"run `ls -ld {path}` and move it away, or change `catalog.warehouse`")


def _not_writable(folder: Path, what: str, path: Path) -> CatalogError:
    return _lasting(
        f"cannot write to the warehouse {folder}: {what} is not writable",
        f"run `ls -ld {path}` and make it writable for this user, or change `catalog.warehouse`",
    )


def _lasting(what: str, hint: str) -> CatalogError:
    error = CatalogError(what, hint=hint)
    error.worth_retrying = False
    return error
