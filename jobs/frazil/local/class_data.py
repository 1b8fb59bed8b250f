"""Archives of parsed classes: a JVM that maps one starts with half the CPU time.

The first start of a service records its classes into its own folder when it ends. Once it has ended by itself, the
archive moves to the user's cache, where every later start finds it. Java ignores an archive that does not fit its
version or its jars. See https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from frazil.local.cache import cache_folder

FOLDER = "class-data"
QUIET = ("-Xshare:auto", "-Xlog:cds*=off", "-Xlog:class+path=off")
SPARK_ARCHIVE = Path(sys.prefix).resolve() / "spark-classes.jsa"
"""Classes of the Spark of this environment. `make` records them: `python -m frazil.adapters.spark_classes`."""


def using(command: Sequence[str]) -> tuple[str, ...]:
    """Options that map the archive of a service with this command line; none where there is no archive yet."""
    archive = _archive(command)
    return (f"-XX:SharedArchiveFile={archive}", *QUIET) if archive.exists() else ()


def using_or_recording(command: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Options that map the archive, or record one into the service's `folder` when the process ends."""
    recorded = folder / FOLDER
    shutil.rmtree(recorded, ignore_errors=True)  # what a killed process left may be half an archive
    if found := using(command):
        return found
    recorded.mkdir(parents=True)
    return (f"-XX:ArchiveClassesAtExit={recorded / _archive(command).name}", *QUIET)


def spark_options() -> str:
    """Java options, as Spark's settings take them, that map the archive of Spark; empty where there is none."""
    return " ".join((f'"-XX:SharedArchiveFile={SPARK_ARCHIVE}"', *QUIET)) if SPARK_ARCHIVE.exists() else ""


def keep(folder: Path) -> None:
    """Move what a service recorded to the cache. Only after the process has ended by itself."""
    for archive in (folder / FOLDER).glob("*.jsa"):
        target = cache_folder() / FOLDER / archive.name
        target.parent.mkdir(parents=True, exist_ok=True)
        moved = Path(shutil.copy(archive, target.with_name(f".{archive.name}.{id(archive)}")))
        moved.replace(target)
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def _archive(command: Sequence[str]) -> Path:
    """One for each Java, class path and set of options."""
    return cache_folder() / FOLDER / f"{hashlib.sha256(repr(tuple(command)).encode()).hexdigest()[:16]}.jsa"
