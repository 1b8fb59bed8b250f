"""The storage of a table: its files, and its clock, which may differ from that of this machine."""

from __future__ import annotations

import uuid
from datetime import datetime

from pyiceberg.table import Table

from frazil.adapters.iceberg.listing import files_of
from frazil.adapters.iceberg.reachable import plain
from frazil.model.errors import CatalogError

PROBE = "frazil-maintenance-probe-"


def storage_time(table: Table) -> datetime:
    """Write a small file, and return when the storage says it was written. Raises CatalogError."""
    address = f"{table.location().rstrip('/')}/metadata/{PROBE}{uuid.uuid4().hex}"
    try:
        with table.io.new_output(address).create() as stream:
            stream.write(b"Written by Frazil to learn the time of the storage. Remove it.\n")
        files, path = files_of(table.io, plain(address))
        written: datetime = files.get_file_info(path).mtime
        table.io.delete(address)
    except Exception as problem:
        raise CatalogError(
            f"cannot write to {table.location()}: {type(problem).__name__}: {problem}",
            hint="check the credentials and the free space; nothing was deleted",
        ) from problem
    return written
