"""The vocabulary: one packed file, the set that a job run needs, and the manifest that the synthesis reads."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from frazil.model.errors import SettingError

PREFIX = "artefacts"
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Artefact:
    """One file by its content. `file` is its name in the bucket, after the hash."""

    file: str
    sha256: str
    size_bytes: int

    @property
    def key(self) -> str:
        """The key in the lake's bucket. A key never holds two contents, so no upload is repeated."""
        return f"{PREFIX}/{self.sha256}/{self.file}"


NOTHING = Artefact("none", "0" * 64, 0)
"""In the place of what is not packed on this machine: enough to read the outputs of a stack, or to destroy it."""


@dataclass(frozen=True, slots=True)
class Artefacts:
    """All that a job run fetches, beside its configuration, and the export function if the environment has exports."""

    environment: Artefact
    frazil: Artefact
    start: Artefact
    tables: Artefact
    transforms: Artefact | None = None
    """None without a transformation."""
    exports: Artefact | None = None

    @property
    def all(self) -> tuple[Artefact, ...]:
        optional = (each for each in (self.transforms, self.exports) if each is not None)
        return (self.environment, self.frazil, self.start, self.tables, *optional)


def artefact_of(file: Path) -> Artefact:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while chunk := content.read(CHUNK_BYTES):
            digest.update(chunk)
    return Artefact(file.name, digest.hexdigest(), file.stat().st_size)


def write_manifest(artefacts: Artefacts, path: Path) -> None:
    path.write_text(json.dumps(dataclasses.asdict(artefacts), indent=2) + "\n")


def read_manifest(path: Path) -> Artefacts:
    """Return the artefacts that were packed last for this environment. Raises SettingError if none were."""
    try:
        kinds = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise SettingError(
            f"there is no manifest of artefacts: {path}",
            hint="run `scripts/deploy.sh plan`, which packs them",
        ) from error
    return Artefacts(**{kind: Artefact(**fields) for kind, fields in kinds.items() if fields is not None})
