"""Delta logs as lists of versions (`ports.DeltaLogs`); the files of snapshots are what a test says they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

from frazil.model.delta import (
    BeginLog,
    DeltaLog,
    FileShape,
    LogWrite,
    Removals,
    TableFile,
    TableFiles,
    log_after,
)
from frazil.model.errors import CommitRejectedError
from frazil.model.snapshot import TableView


def _nothing() -> None:
    return


@dataclass(slots=True)
class DeltaLogsInMemory:
    """`before_write` is called before a version is put: another process, or a fault. No version is ever too old."""

    of_snapshots: Mapping[int, TableFiles] = field(default_factory=dict)
    versions: dict[str, list[DeltaLog]] = field(default_factory=dict)
    before_write: Callable[[], None] = _nothing

    def files(self, view: TableView) -> TableFiles:
        return self.of_snapshots.get(view.head or 0, TableFiles(()))

    def shapes(self, view: TableView, files: Sequence[TableFile]) -> Iterable[FileShape]:
        return [FileShape(file.location, view.schema_json) for file in files]

    def read(self, location: str) -> DeltaLog | None:
        versions = self.versions.get(location)
        return versions[-1] if versions else None

    def removals(self, location: str, *, newest: int) -> Iterator[Removals]:
        versions = self.versions[location][: newest + 1]
        for before, after in reversed(list(pairwise([None, *versions]))):
            assert after is not None
            left = {file.path for file in after.files}
            gone = () if before is None else (file.path for file in before.files if file.path not in left)
            yield Removals(datetime.max.replace(tzinfo=UTC), tuple(gone))

    def removed(self, location: str) -> frozenset[str]:
        versions = self.versions.get(location)
        if not versions:
            return frozenset()
        named = {file.path for version in versions for file in version.files}
        return frozenset(named - {file.path for file in versions[-1].files})

    def write(self, location: str, write: LogWrite) -> None:
        self.before_write()
        there = self.versions.setdefault(location, [])
        if len(there) != (0 if isinstance(write, BeginLog) else write.base + 1):
            raise CommitRejectedError(f"{location} has {len(there)} versions")
        there += [log_after(there[-1] if there else None, write)] * (write.version + 1 - len(there))
