"""The rows of one data file that a table does not have any more."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat

from frazil.adapters.iceberg.position_deletes import Positions, positions_in
from frazil.model.probe import DeleteFile, StoredFile


class DeletedPositions:
    """The positions of deleted rows of a data file, read when they are needed."""

    def __init__(self, io: FileIO, file: StoredFile) -> None:
        self.file = file
        self._io = io

    @cached_property
    def all(self) -> Positions:
        return self._in(self.file.deletes)

    @property
    def own(self) -> Positions:
        """Those of its own files of deletes."""
        return self.all if len(self.file.own_deletes) == len(self.file.deletes) else self._in(self.file.own_deletes)

    def _in(self, files: Sequence[DeleteFile]) -> Positions:
        named = [DataFile.from_args(file_path=f.path, file_format=FileFormat(f.format)) for f in files]
        return positions_in(self._io, named, self.file.path)
