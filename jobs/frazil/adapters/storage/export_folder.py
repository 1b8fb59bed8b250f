"""The folder of an export, on this machine or on S3, through PyIceberg's file system as tables are written."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyarrow.fs import FileSelector, FileType

from frazil.materialize.ingest.storage import open_storage
from frazil.model.errors import CatalogError
from frazil.model.secret import SettingValue

S3 = "s3://"
BEING_WRITTEN = ".new"
"""The end of the name of a file that is being written, which takes its place once it is whole."""

REQUEST_TIMEOUT, COPY_SECONDS = "s3.request-timeout", "120"
"""How long S3 may say nothing while it copies a file, of up to 5 GB. For other requests, 3 seconds are enough."""


class ExportFolder:
    """Files by their names in one folder. Each method raises CatalogError if storage refuses or does not answer."""

    def __init__(self, settings: Mapping[str, SettingValue], address: str) -> None:
        self.address = address
        self._on_s3 = address.startswith(S3)
        self._root = address.removeprefix(S3)
        self._files = self._opened(settings)
        self._copies = self._opened({REQUEST_TIMEOUT: COPY_SECONDS, **settings}) if self._on_s3 else self._files

    def _opened(self, settings: Mapping[str, SettingValue]) -> Any:
        opened: Any = open_storage(settings, self.address)
        return opened.fs_by_scheme("s3" if self._on_s3 else "file", self._root.partition("/")[0])

    def address_of(self, name: str) -> str:
        return f"{self.address}/{name}"

    def names(self) -> list[str]:
        """Return the names of all files, none if there is no such folder."""
        with self._access("list", self.address):
            found = self._files.get_file_info(FileSelector(self._root, allow_not_found=True))
        return sorted(each.base_name for each in found if each.type == FileType.File)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        with self._access("read", self.address_of(name)):
            try:
                with self._files.open_input_stream(f"{self._root}/{name}") as stream:
                    return bytes(stream.read())
            except FileNotFoundError:
                return None

    def has(self, name: str) -> bool:
        """Return whether a file exists, without reading it."""
        with self._access("look up", self.address_of(name)):
            return bool(self._files.get_file_info(f"{self._root}/{name}").type == FileType.File)

    def open(self, name: str) -> ExportFile:
        """Open a file that is there, as a whole, once it is closed."""
        with self._access("write", self.address_of(name)):
            if not self._on_s3:
                self._files.create_dir(self._root, recursive=True)
            written_as = f"{name}.{uuid.uuid4().hex[:8]}{BEING_WRITTEN}"
            return ExportFile(self, name, written_as, self._stream(written_as))

    def put(self, name: str, content: bytes) -> None:
        """Write a small file, which is one request on S3."""
        if not self._on_s3:
            file = self.open(name)
            file.write(content)
            file.close()
            return
        with self._access("write", self.address_of(name)), self._stream(name) as stream:
            stream.write(content)

    def remove(self, name: str) -> None:
        """Remove a file, which another run may do first."""
        with self._access("remove", self.address_of(name)), suppress(FileNotFoundError):
            self._files.delete_file(f"{self._root}/{name}")

    def _stream(self, name: str) -> Any:
        return self._files.open_output_stream(f"{self._root}/{name}", compression=None)

    def _put_in_place(self, name: str, written_as: str) -> None:
        """Give a whole file its name; on S3, which has no other way, by a copy there."""
        if self._on_s3:
            self._copies.move(f"{self._root}/{written_as}", f"{self._root}/{name}")
            return
        _make_durable(f"{self._root}/{written_as}")
        os.replace(f"{self._root}/{written_as}", f"{self._root}/{name}")  # noqa: PTH105 - these are texts
        _make_durable(self._root)

    @contextmanager
    def _access(self, verb: str, address: str) -> Iterator[None]:
        try:
            yield
        except CatalogError:
            raise
        except Exception as problem:
            raise CatalogError(
                f"could not {verb} {address}: {type(problem).__name__}: {' '.join(str(problem).split())}",
                hint="check `to` of the export, its permissions and free space; on S3 also the region, the endpoint and"
                " the credentials (`catalog` in frazil.yaml); then run the export again",
            ) from problem


class ExportFile:
    """A file that is being written. After `close` it is durable."""

    def __init__(self, folder: ExportFolder, name: str, written_as: str, stream: Any) -> None:
        self._folder = folder
        self._name = name
        self._written_as = written_as
        self._stream = stream

    def write(self, data: bytes, /) -> None:
        with self._folder._access("write", self._folder.address_of(self._name)):
            self._stream.write(data)

    def close(self) -> None:
        with self._folder._access("write", self._folder.address_of(self._name)):
            self._stream.close()
            self._folder._put_in_place(self._name, self._written_as)

    def abandon(self) -> None:
        """Leave a file that is not whole. What cannot be removed now is removed by the next run."""
        with suppress(CatalogError), self._folder._access("write", self._folder.address_of(self._written_as)):
            self._stream.close()
            self._folder.remove(self._written_as)


def _make_durable(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
