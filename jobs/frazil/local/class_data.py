"""Class data sharing: a JVM that maps an archive of parsed classes starts with half the CPU time.

The first run of a service records its classes into its own folder when it exits. After a normal exit the archive moves
to the user's cache, from which later runs map it. Java ignores an archive that does not match its version or its jars.
See https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html.
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
"""The archive for the Spark of this environment. `make` records it with `python -m frazil.adapters.spark.classes`."""


def using(command: Sequence[str]) -> tuple[str, ...]:
    """Return the Java options that map the archive for this command line; none if there is no archive yet."""
    archive = _archive(command)
    return (f"-XX:SharedArchiveFile={archive}", *QUIET) if archive.exists() else ()


def using_or_recording(command: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return the Java options that map the archive, or that record one into the service's `folder` on exit."""
    recorded = folder / FOLDER
    shutil.rmtree(recorded, ignore_errors=True)  # a killed process may have left a partial archive
    if found := using(command):
        return found
    recorded.mkdir(parents=True)
    return (f"-XX:ArchiveClassesAtExit={recorded / _archive(command).name}", *QUIET)


def spark_options() -> str:
    """Return the Java options that map Spark's archive, as text for Spark's settings; empty without an archive."""
    return " ".join((f'"-XX:SharedArchiveFile={SPARK_ARCHIVE}"', *QUIET)) if SPARK_ARCHIVE.exists() else ""


def keep(folder: Path) -> None:
    """Move the archive that a service recorded to the cache. Call it only after the process has exited normally."""
    for archive in (folder / FOLDER).glob("*.jsa"):
        target = cache_folder() / FOLDER / archive.name
        target.parent.mkdir(parents=True, exist_ok=True)
        moved = Path(shutil.copy(archive, target.with_name(f".{archive.name}.{id(archive)}")))
        moved.replace(target)
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def _archive(command: Sequence[str]) -> Path:
    """Return the archive's path in the cache: one for each Java, class path and set of options."""
    return cache_folder() / FOLDER / f"{hashlib.sha256(repr(tuple(command)).encode()).hexdigest()[:16]}.jsa"
