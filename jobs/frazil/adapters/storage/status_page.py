"""The status page beside the tables: a file in the warehouse, on this machine or on S3."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from frazil.materialize.ingest.storage import open_storage
from frazil.model.errors import CatalogError
from frazil.model.secret import SettingValue

S3 = "s3://"
HTML = {"Content-Type": "text/html; charset=utf-8"}


def put_page(storage: Mapping[str, SettingValue], warehouse: str, name: str, text: str) -> str:
    """Write the page whole or not at all, and return its address. Raises CatalogError."""
    address = f"{warehouse.rstrip('/')}/{name}"
    on_s3, path = address.startswith(S3), address.removeprefix(S3)
    written_as = path if on_s3 else f"{path}.{uuid.uuid4().hex[:8]}.new"
    try:
        opened: Any = open_storage(storage, address)
        files = opened.fs_by_scheme("s3" if on_s3 else "file", path.partition("/")[0])
        with files.open_output_stream(written_as, compression=None, metadata=HTML if on_s3 else None) as stream:
            stream.write(text.encode())
        if not on_s3:
            _put_in_place(Path(written_as), Path(path))
    except Exception as problem:
        raise CatalogError(
            f"could not write the status page {address}: {type(problem).__name__}: {' '.join(str(problem).split())}",
            hint="the tables are not affected; check permissions and free space, on S3 s3:PutObject for this object",
        ) from problem
    return address


def _put_in_place(written: Path, place: Path) -> None:
    try:
        written.replace(place)
    except OSError:
        written.unlink(missing_ok=True)
        raise
