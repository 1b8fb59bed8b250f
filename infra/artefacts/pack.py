"""Packs the artefacts of a job run into one folder, named by their hashes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from frazil.model.errors import SettingError
from frazil.specs.load import SPEC_ENDINGS
from infra.artefacts.archive import files_under, zip_of
from infra.artefacts.artefact import Artefact, Artefacts, artefact_of
from infra.artefacts.environment import Target, fingerprint, pack_environment

ROOT, PACKAGE = "jobs", "frazil"
"""The folder that holds our package, and the package: a job run imports it from the top of the zip."""

START = "from frazil.job_run import main\n\nmain()\n"


def pack(
    checkout: Path, tables: Path, target: Target, folder: Path, *, native_required: bool, transforms: Path | None = None
) -> Artefacts:
    """Pack all artefacts into `folder`; unchanged ones are not packed again.

    `tables` and `transforms` are folders of specs; the latter may be missing. Raises MissingToolError without a native
    decoder that is required, ServiceError where packages cannot be fetched, SettingError where `tables` holds no table
    spec.
    """
    return Artefacts(
        environment=_environment(checkout, target, folder, native_required=native_required),
        frazil=_zip(_sources(checkout), folder / "frazil.zip"),
        start=_start(folder),
        tables=_zip(_specs(tables), folder / "tables.zip"),
        transforms=_transforms(transforms, folder / "transforms.zip"),
    )


def _environment(checkout: Path, target: Target, folder: Path, *, native_required: bool) -> Artefact:
    archive = folder / fingerprint(checkout, target) / "environment.tar.gz"
    archive.parent.mkdir(parents=True, exist_ok=True)
    pack_environment(checkout, target, archive, native_required=native_required)
    return artefact_of(archive)


def path_of(artefact: Artefact, folder: Path) -> Path:
    """Return the packed file with the artefact's bytes. Raises SettingError if it no longer exists."""
    found = [file for file in folder.rglob(artefact.file) if artefact_of(file) == artefact]
    if not found:
        raise SettingError(
            f"{artefact.file} with SHA-256 {artefact.sha256[:12]}… is not in {folder} any more",
            hint="run `scripts/deploy.sh plan`, which packs it again",
        )
    return found[0]


def _start(folder: Path) -> Artefact:
    (folder / "start.py").write_text(START)
    return artefact_of(folder / "start.py")


def _zip(files: Iterator[tuple[str, bytes]], target: Path) -> Artefact:
    zip_of(files, target)
    return artefact_of(target)


def _sources(checkout: Path) -> Iterator[tuple[str, bytes]]:
    root = checkout / ROOT
    for file in files_under(root / PACKAGE):
        yield file.relative_to(root).as_posix(), file.read_bytes()


def _specs(tables: Path) -> Iterator[tuple[str, bytes]]:
    specs = _specs_in(tables)
    if not specs:
        raise SettingError(
            f"there is no table spec in {tables}", hint="write one file per table there, as tables/ does"
        )
    for file in specs:
        yield file.name, file.read_bytes()


def _transforms(folder: Path | None, target: Path) -> Artefact | None:
    """Pack the specs of transformations and the Python modules beside them, or return None if there is no spec."""
    specs = [] if folder is None else _specs_in(folder)
    if folder is None or not specs:
        return None
    files = [*specs, *(file for file in files_under(folder) if file.suffix == ".py")]
    return _zip(((file.relative_to(folder).as_posix(), file.read_bytes()) for file in files), target)


def _specs_in(folder: Path) -> list[Path]:
    return [file for file in files_under(folder) if file.suffix in SPEC_ENDINGS and file.parent == folder]
