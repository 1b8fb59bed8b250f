"""The storage of a table: its files, and its clock, which may differ from that of this machine."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.table import Table

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


def files_of(io: FileIO, address: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path in it."""
    on_s3 = address.startswith("s3://")
    path = address.removeprefix("s3://")
    opened: Any = io
    return opened.fs_by_scheme("s3" if on_s3 else "file", path.partition("/")[0]), path
