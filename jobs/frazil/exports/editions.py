"""The names of the files of an export, and its finished parts.

A period has a first set of files, and a numbered set for each correction. Only a manifest makes files an export.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from json import dumps, loads
from typing import Any

import pyarrow as pa

from frazil.adapters.storage.export_folder import BEING_WRITTEN, ExportFolder
from frazil.exports.manifest import Manifest, read_manifest, written
from frazil.exports.parts import Part
from frazil.model.errors import ExportError
from frazil.model.exports import EXPORT_TAG, ExportSpec

INCREMENTS = "increments"
"""The label of an incremental export, in the place of that of a period."""

PROGRESS = "progress.json"
_EDITION = re.compile(rf"(?:{INCREMENTS}|\d+-[^_]+(?:_\d+-[^_]+)?|\d{{8}}T[\d.]+Z_\d{{8}}T[\d.]+Z)_\d+")

_MANIFEST = re.compile(r"manifest_(\d+)\.json")
_CORRECTION = re.compile(r"manifest_correction_(\d+)\.json")


@dataclass(frozen=True, slots=True)
class Edition:
    """One set of files of an export, by its number."""

    export: str
    label: str
    number: int

    @property
    def _suffix(self) -> str:
        if self.label == INCREMENTS:
            return f"_{self.number}"
        return f"_correction_{self.number}" if self.number else ""

    @property
    def stem(self) -> str:
        """The beginning of the names of its files."""
        period = "" if self.label == INCREMENTS else f"_{self.label}"
        return f"{self.export}{period}{self._suffix}"

    @property
    def manifest(self) -> str:
        return f"manifest{self._suffix}.json"

    @property
    def announcement(self) -> str:
        """The name of the file that says that its manifest was announced."""
        return f"announced{self._suffix}.json"

    def tag(self, spec: ExportSpec) -> str:
        """Return the tag of the table that keeps its snapshot: of an export to this place alone."""
        return f"{EXPORT_TAG}{self.export}_{self.label}_{self.number}_{_place_of(spec)}"


def edition_in(tag: str, spec: ExportSpec) -> str | None:
    """Return the edition in a tag, such as `2026-W03_0`, if it is of this export to this place.

    A label has a hyphen, which no name has, or is two times.
    """
    rest = tag.removeprefix(f"{EXPORT_TAG}{spec.name}_")
    edition, _, place = rest.rpartition("_")
    return edition if tag != rest and place == _place_of(spec) and _EDITION.fullmatch(edition) else None


def _place_of(spec: ExportSpec) -> str:
    """Return what distinguishes exports of one name that go to several places, such as a folder and a bucket."""
    return hashlib.sha256(spec.to.encode()).hexdigest()[:8]


def edition_of(manifest: Manifest) -> Edition:
    return Edition(manifest.export, manifest.label, manifest.number)


@dataclass(frozen=True, slots=True)
class Progress:
    """The finished files of an edition without a manifest, and how many rows of which file of the table they have.

    `basis` is what must be the same for the next rows to continue them.
    """

    basis: Mapping[str, Any]
    parts: tuple[Part, ...] = ()
    file: int = 0
    rows: int = 0

    def to_json(self) -> dict[str, Any]:
        parts = [asdict(part) for part in self.parts]
        return {"basis": dict(self.basis), "parts": parts, "file": self.file, "rows": self.rows}


def basis_of(spec: ExportSpec, edition: Edition, snapshot_id: int, contents: str) -> dict[str, Any]:
    return {
        "stem": edition.stem,
        "snapshot_id": snapshot_id,
        "contents": contents,
        "spec": dict(spec.content()),
        "pyarrow": pa.__version__,
    }


class Editions:
    """The folder of one export and period."""

    def __init__(self, export: str, label: str, folder: ExportFolder) -> None:
        self.folder = folder
        self._export = export
        self._label = label

    def finished(self) -> tuple[Manifest, ...]:
        """Return the manifests, oldest first: of an incremental export the newest one, since there is no end of them.

        Raises ExportError if one cannot be read, or is missing before a correction.
        """
        if self._label == INCREMENTS:
            newest = self._newest()
            return () if newest == 0 else (self.manifest(newest),)
        found: list[Manifest] = []
        while (manifest := self._manifest(self._first + len(found))) is not None:
            found.append(manifest)
        self._check_last(len(found))
        return tuple(found)

    def _check_last(self, number: int) -> None:
        """Raise ExportError if a later manifest exists: a new edition would repeat rows that it has."""
        numbers = (int(match[1]) for name in self.folder.names() if (match := _CORRECTION.fullmatch(name)))
        later = sorted(each for each in numbers if each > number)
        if later:
            there, missing = (self.folder.address_of(self._edition(n).manifest) for n in (later[0], number))
            raise ExportError(
                f"{there} is there, and {missing}, which it corrects, is not",
                hint="restore it from a copy; or remove the manifests of this window that are left, too, and run the"
                " export again, which writes all rows anew",
            )

    def manifest(self, number: int) -> Manifest:
        """Return a manifest that exists. Raises ExportError if it cannot be read."""
        found = self._manifest(number)
        if found is None:
            raise ExportError(
                f"{self.folder.address_of(self._edition(number).manifest)} was removed while it was read",
                hint="run the export again",
            )
        return found

    def _manifest(self, number: int) -> Manifest | None:
        name = self._edition(number).manifest
        content = self.folder.read(name)
        return None if content is None else read_manifest(content, self.folder.address_of(name))

    def _newest(self) -> int:
        """Return the number of the newest increment, 0 if there is none, with few looks however many there are.

        If the first ones were removed, such as by a rule of the bucket, all names are listed: none is used twice.
        """
        if not self._exists(1):
            return max(
                (int(found[1]) for name in self.folder.names() if (found := _MANIFEST.fullmatch(name))), default=0
            )
        there, step = 1, 2
        while self._exists(there + step):
            there, step = there + step, step * 2
        while step > 1:
            step = (step + 1) // 2
            if self._exists(there + step):
                there += step
        return there

    def _exists(self, number: int) -> bool:
        return self.folder.has(self._edition(number).manifest)

    def next(self, finished: Sequence[Manifest]) -> Edition:
        return self._edition(finished[-1].number + 1 if finished else self._first)

    @property
    def _first(self) -> int:
        return 1 if self._label == INCREMENTS else 0

    def _edition(self, number: int) -> Edition:
        return Edition(self._export, self._label, number)

    def is_finished(self, edition: Edition) -> bool:
        return self.folder.has(edition.manifest)

    def has_begun(self, edition: Edition) -> bool:
        """Return whether a run has begun to write an edition, and has not finished it."""
        return bool(self._begun() == edition.stem)

    def give_up(self, edition: Edition) -> None:
        """Forget how far an edition came that another run has finished."""
        if self.has_begun(edition):
            self.folder.remove(PROGRESS)

    def _begun(self) -> Any:
        """Return the beginning of the names of the files that are being written."""
        try:
            return loads(self.folder.read(PROGRESS) or b"{}")["basis"]["stem"]
        except (ValueError, KeyError, TypeError):
            return None

    def progress(self, basis: Mapping[str, Any]) -> Progress:
        """Return how far a run came that did not finish, or a beginning if its rows are not those of this run."""
        try:
            value = loads(self.folder.read(PROGRESS) or b"{}")
            if value.get("basis") != basis:
                return Progress(basis)
            parts = tuple(Part(**part) for part in value["parts"])
            if not {part.name for part in parts}.issubset(self.folder.names()):
                return Progress(basis)  # a finished file was removed
            return Progress(basis, parts, value["file"], value["rows"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return Progress(basis)

    def keep(self, progress: Progress) -> None:
        self.folder.put(PROGRESS, dumps(progress.to_json()).encode())

    def finish(self, edition: Edition, manifest: Manifest) -> None:
        """Write the manifest, after files that a run before left and that are not in it are removed.

        Files that are being written go after it: a run that writes them finds the manifest and ends.
        """
        named, whole = {part.name for part in manifest.parts}, f"{edition.stem}_part_"
        for name in self.folder.names():
            if name.startswith(whole) and name not in named and not name.endswith(BEING_WRITTEN):
                self.folder.remove(name)
        self.folder.put(edition.manifest, written(manifest))
        for name in self.folder.names():
            if name.endswith(BEING_WRITTEN) or name == PROGRESS:
                self.folder.remove(name)
