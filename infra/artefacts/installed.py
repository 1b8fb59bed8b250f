"""The packages of a lock that this environment has installed in the same versions, so that they are not fetched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement


def link_installed(lock: str, folder: Path) -> str:
    """Link the files of the locked packages that are installed into `folder`; return the lock of all others.

    Links instead of copies: an archive of the folder has what they lead to.
    """
    others = []
    for wanted, entry in _entries(lock):
        found = _installed(wanted)
        if found is None:
            others.append(entry)
        else:
            _link(found, folder)
    return "".join(others)


def _entries(lock: str) -> Iterator[tuple[Requirement, str]]:
    """Yield what the lock pins for this platform and this version of Python, each with its text."""
    entries: list[str] = []
    for line in lock.splitlines(keepends=True):
        if not line.startswith((" ", "#", "\n")):
            entries.append(line)
        elif line.lstrip().startswith("--hash"):
            entries[-1] += line
    for entry in entries:
        requirement = Requirement(entry.splitlines()[0].removesuffix("\\").strip())
        if requirement.marker is None or requirement.marker.evaluate():
            yield requirement, entry.rstrip().removesuffix("\\") + "\n"


def _installed(wanted: Requirement) -> Distribution | None:
    try:
        found = distribution(wanted.name)
    except PackageNotFoundError:
        return None
    is_here = found.files and not _is_editable(found)
    return found if is_here and wanted.specifier.contains(found.version, prereleases=True) else None


def _is_editable(found: Distribution) -> bool:
    """Return whether only a path to the package's source is installed (PEP 610)."""
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    return bool(origin.get("dir_info", {}).get("editable"))


def _link(found: Distribution, folder: Path) -> None:
    """Link all files but scripts and bytecode, under their paths."""
    for file in found.files or ():
        where = Path(str(found.locate_file(file))).resolve()
        if not {"..", "__pycache__"} & {*file.parts} and where.is_file():
            link = folder.joinpath(*file.parts)
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():  # two packages may bring one file
                link.symlink_to(where)
