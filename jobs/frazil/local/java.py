"""Find a Java that Spark 4.1, Kafka and the registry support; install one if there is none."""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from frazil.local.cache import cache_folder, exclusively
from frazil.model.errors import MissingToolError

ACCEPTED = (17, 21)
INSTALLED = "17"
_USUAL_FOLDERS = (
    "usr/lib/jvm/*",
    "Library/Java/JavaVirtualMachines/*/Contents/Home",
    "opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True)
class Java:
    """A Java on this machine. `home` is the value of `JAVA_HOME` with which Spark uses it."""

    home: Path
    major: int

    @property
    def command(self) -> str:
        return str(self.home / "bin" / "java")


def parse_major(version_output: str) -> int | None:
    """Return the major version from the output of `java -version`: 17 for `17.0.15`, 8 for `1.8.0_402`; else None."""
    found = _VERSION.search(version_output)
    return int(found[1]) if found else None


@functools.cache
def find_java() -> Java:
    """Return the first supported Java in JAVA_HOME, PATH, the usual folders and our cache, else install one."""
    java, others = _look_for_java()
    if java is None:
        return _install(others)
    _say_passed_over(others, java)
    return java


def present_java() -> Java | None:
    """Return the Java that `find_java` would return, or None where it would install one."""
    return _look_for_java()[0]


def _look_for_java() -> tuple[Java | None, list[Java]]:
    """Return the first supported Java, and the unsupported ones found before it."""
    others: list[Java] = []
    for home in _candidate_homes():
        java = _inspect(home)
        if java is not None and java.major in ACCEPTED:
            return java, others
        others += [java] if java is not None else []
    return None, others


def _candidate_homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for pattern in _USUAL_FOLDERS:
        yield from sorted({home.resolve() for home in Path("/").glob(pattern)})
    yield from _installed_homes()


def _installed_homes() -> list[Path]:
    folder = cache_folder() / "jdk"
    return sorted([*folder.glob("jdk*/Contents/Home"), *folder.glob("jdk*")])


def _inspect(home: Path) -> Java | None:
    command = home / "bin" / "java"
    if not command.is_file():
        return None
    try:
        said = subprocess.run([str(command), "-version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    major = parse_major(said.stderr)
    return Java(home, major) if major is not None else None


def _say_passed_over(others: list[Java], chosen: Java) -> None:
    for other in others:
        print(
            f"Java {other.major} in {other.home} is not used (17 or 21 is required); using {chosen.home}",
            file=sys.stderr,
        )


def _install(others: list[Java]) -> Java:
    print(f"Java 17 or 21 not found: installing Java {INSTALLED} into {cache_folder() / 'jdk'}", file=sys.stderr)
    with exclusively(cache_folder() / "jdk" / ".lock"):
        if not _installed_homes():
            _install_into(cache_folder() / "jdk", others)
    for home in _installed_homes():
        java = _inspect(home)
        if java is not None and java.major in ACCEPTED:
            return java
    raise _missing(others, "the installed one does not start")


def _install_into(folder: Path, others: list[Java]) -> None:
    """Unpack next to the target and rename, so that a killed installation leaves no partial Java."""
    import jdk  # noqa: PLC0415 - needed only on a machine without Java

    with tempfile.TemporaryDirectory(dir=folder) as room:
        try:
            jdk.install(INSTALLED, path=room)
        except Exception as exc:
            raise _missing(others, str(exc)) from exc
        unpacked = next(path for path in Path(room).iterdir() if path.is_dir())
        unpacked.rename(folder / f"jdk-{INSTALLED}")


def _missing(others: list[Java], why: str) -> MissingToolError:
    found = ", ".join(f"Java {other.major} in {other.home}" for other in others) or "no Java at all"
    return MissingToolError(
        f"The local services and Spark cannot start on {platform.system()}: expected Java 17 or 21, found {found}; "
        f"installing one failed ({why}).",
        hint=f"install it with: {_install_command()}; or set JAVA_HOME to an installed one",
    )


def _install_command() -> str:
    if platform.system() == "Darwin":
        return "brew install openjdk@17"
    for tool, command in _LINUX.items():
        if shutil.which(tool):
            return command
    return "your package manager (the package is often called openjdk-17 or java-17-openjdk)"


_LINUX = {
    "apt-get": "sudo apt-get install openjdk-17-jre-headless",
    "dnf": "sudo dnf install java-17-openjdk-headless",
    "yum": "sudo yum install java-17-amazon-corretto-headless",
    "apk": "sudo apk add openjdk17-jre-headless",
    "pacman": "sudo pacman -S jre17-openjdk-headless",
    "zypper": "sudo zypper install java-17-openjdk-headless",
}
