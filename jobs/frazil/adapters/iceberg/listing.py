"""Lists the files in a folder of a table's storage."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io import FileIO

READ_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A file in storage; `address` without the scheme of local files."""

    address: str
    size: int
    written: datetime


def list_objects(io: FileIO, folder: str) -> list[StoredObject]:
    """Return all files below a folder, whose address is without the scheme of local files."""
    files, path = files_of(io, folder)
    scheme = "s3://" if folder.startswith("s3://") else ""
    found = files.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
    return [StoredObject(scheme + each.path, each.size, each.mtime) for each in found if each.type == FileType.File]


def files_of(io: FileIO, address: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path in it."""
    on_s3 = address.startswith("s3://")
    path = address.removeprefix("s3://")
    opened: Any = io
    return opened.fs_by_scheme("s3" if on_s3 else "file", path.partition("/")[0]), path
