"""The check that the warehouse of an embedded catalog is writable, before anything is read from Kafka."""

from __future__ import annotations

import os
from pathlib import Path

from frazil.model.errors import CatalogError
from frazil.model.spec import CatalogSettings


def check_warehouse(settings: CatalogSettings) -> None:
    """Raise CatalogError, which is not worth retrying, where the folder or its database cannot be written.

    A folder that is not there is fine if it can be made. Other catalogs are asked by what uses them.
    """
    if settings.type != "jdbc":
        return
    folder = Path(settings.warehouse)
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    database = folder / "catalog.db"
    problem = None
    if not nearest.is_dir():
        problem = f"{nearest} is not a folder"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        problem = f"the folder {nearest} is not writable"
    elif database.exists() and not os.access(database, os.W_OK):
        problem = f"the file {database} is not writable"
    if problem is not None:
        error = CatalogError(
            f"cannot write to the warehouse {folder}: {problem}",
            hint=f"run `ls -ld {nearest}` and make it writable for this user, or change `catalog.warehouse`",
        )
        error.worth_retrying = False
        raise error
