"""Fetch the files of a lock file once per user, and verify their hashes.

The resolvers know the addresses of the Maven repositories: jgo, and `mvn` (with its own settings) if jgo finds nothing.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from frazil.local.cache import cache_folder, exclusively
from frazil.local.locks import Artifact, read_lock
from frazil.model.errors import MissingToolError
from frazil.model.spelling import plural

ATTEMPTS = 3
PARALLEL = 8
TIMEOUT_SECONDS = 60

Resolve = Callable[[Artifact, Path], Path]
"""Fetches one artifact into an empty folder and returns its path."""


def fetch(lock: str) -> list[Path]:
    """Return the files of `<lock>.lock` in its order. Missing ones are fetched and verified."""
    return fetch_artifacts(read_lock(lock), what=lock, folder=cache_folder() / "jars", resolve=resolve_anywhere)


def fetch_artifacts(artifacts: Sequence[Artifact], *, what: str, folder: Path, resolve: Resolve) -> list[Path]:
    if any(not is_verified(folder, artifact) for artifact in artifacts):
        with exclusively(folder / ".lock"):
            _fetch_missing(artifacts, what, folder, resolve)
    return [path_of(folder, artifact) for artifact in artifacts]


def class_path(lock: str) -> str:
    return ":".join(str(path) for path in fetch(lock))


def path_of(folder: Path, artifact: Artifact) -> Path:
    return folder / artifact.group / artifact.file_name


def is_verified(folder: Path, artifact: Artifact) -> bool:
    """Return whether the file was verified before and has not changed since."""
    path = path_of(folder, artifact)
    try:
        return _stamp_file(path).read_text(encoding="utf-8") == _stamp(path, artifact)
    except FileNotFoundError:
        return False


def _stamp_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.verified")


def _stamp(path: Path, artifact: Artifact) -> str:
    seen = path.stat()
    return f"{artifact.sha256} {seen.st_size} {seen.st_mtime_ns}\n"


def _fetch_missing(artifacts: Sequence[Artifact], what: str, folder: Path, resolve: Resolve) -> None:
    """Fetch files while holding the lock. Files in `partial` were therefore left by a process that died."""
    shutil.rmtree(folder / "partial", ignore_errors=True)
    missing = [artifact for artifact in artifacts if not is_verified(folder, artifact)]
    with _progress(what, missing) as advance, ThreadPoolExecutor(PARALLEL) as pool:
        for artifact in pool.map(lambda item: _fetch_one(item, folder, resolve), missing):
            advance(artifact.size)


def _fetch_one(artifact: Artifact, folder: Path, resolve: Resolve) -> Artifact:
    path = path_of(folder, artifact)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not (path.exists() and _sha256(path) == artifact.sha256):
        (folder / "partial").mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder / "partial") as room:
            _accept(resolve(artifact, Path(room)), artifact).replace(path)
    _stamp_file(path).write_text(_stamp(path, artifact), encoding="utf-8")
    return artifact


def _accept(fetched: Path, artifact: Artifact) -> Path:
    size, sha256 = fetched.stat().st_size, _sha256(fetched)
    if (size, sha256) == (artifact.size, artifact.sha256):
        return fetched
    raise MissingToolError(
        f"The download of {artifact.coordinate} does not match the lock file: "
        f"expected {artifact.size} bytes with SHA-256 {artifact.sha256}, found {size} bytes with {sha256}.",
        hint="run the command again; if it fails again, a mirror of Maven Central serves different files",
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def resolve_anywhere(artifact: Artifact, room: Path) -> Path:
    """Fetch the artifact with jgo, or else with `mvn`; return its path. Raises MissingToolError if neither can."""
    failure: Exception | None = None
    for attempt in range(ATTEMPTS):
        try:
            return _resolve_with_jgo(artifact, room / str(attempt))
        except (OSError, RuntimeError) as exc:
            failure = exc
            time.sleep(attempt)
    if shutil.which("mvn"):
        return _resolve_with_maven(artifact, room / "mvn")
    raise _unreachable(artifact, type(failure).__name__) from failure


def _resolve_with_jgo(artifact: Artifact, room: Path) -> Path:
    from jgo.maven import MavenContext  # noqa: PLC0415 - takes half a second, and a warm start does not need it

    context = MavenContext(repo_cache=room, local_repos=[], timeout=TIMEOUT_SECONDS)
    component = context.project(artifact.group, artifact.name).at_version(artifact.version)
    return Path(component.artifact(classifier=artifact.classifier, packaging=artifact.extension).resolve())


def _resolve_with_maven(artifact: Artifact, room: Path) -> Path:
    wanted = ":".join([artifact.group, artifact.name, artifact.version, artifact.extension, artifact.classifier])
    command = ["mvn", "--batch-mode", "--quiet", "dependency:copy", f"-Dartifact={wanted.rstrip(':')}"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={room}"], cwd=room.parent, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise _unreachable(artifact, f"mvn exited with {done.returncode}")
    return room / artifact.file_name


def _unreachable(artifact: Artifact, found: str) -> MissingToolError:
    return MissingToolError(
        f"{artifact.coordinate} cannot be fetched from Maven Central: "
        f"expected {artifact.size} bytes, found no such answer ({found}).",
        hint="check the network and run the command again; behind a mirror, install Maven, whose settings are used",
    )


@contextmanager
def _progress(what: str, missing: Sequence[Artifact]) -> Iterator[Callable[[int], object]]:
    total = sum(artifact.size for artifact in missing)
    title = f"fetching {plural(len(missing), 'file')} for the {what}"
    if not sys.stderr.isatty():
        print(f"{title} ({total / 1e6:.0f} MB)", file=sys.stderr)
        yield lambda size: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda size: bar.advance(task, size)
