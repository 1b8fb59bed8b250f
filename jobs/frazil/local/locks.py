"""Lock files: the Maven Central artifacts of the local services, with their hashes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from frazil.model.errors import SettingError

FOLDER = Path(__file__).parent
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file of Maven Central, with the hash that its content must have."""

    group: str
    name: str
    version: str
    sha256: str
    size: int
    extension: str = "jar"
    classifier: str = ""

    @property
    def coordinate(self) -> str:
        parts = [self.group, self.name, self.version]
        if self.extension != "jar" or self.classifier:
            parts.append(self.extension)
        return ":".join([*parts, self.classifier] if self.classifier else parts)

    @property
    def file_name(self) -> str:
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{suffix}.{self.extension}"


def read_lock(name: str) -> tuple[Artifact, ...]:
    """Return the artifacts of `<name>.lock`, in class path order."""
    path = FOLDER / f"{name}.lock"
    return parse_lock(path.read_text(encoding="utf-8"), source=path.name)


def parse_lock(text: str, *, source: str) -> tuple[Artifact, ...]:
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), start=1))
    return tuple(_parse_line(line, f"{source}:{number}") for number, line in lines if line and not line.startswith("#"))


def _parse_line(line: str, where: str) -> Artifact:
    fields = line.split()
    parts = fields[0].split(":")
    if len(fields) != 3 or not 3 <= len(parts) <= 5 or not all(parts):
        raise _malformed(where, "group:artifact:version[:extension[:classifier]], a SHA-256 and a size", line)
    _, sha256, size = fields
    if not _SHA256.fullmatch(sha256) or not size.isdecimal():
        raise _malformed(where, "64 hexadecimal digits and a number of bytes", f"{sha256} {size}")
    group, name, version, *rest = parts
    extension, classifier = [*rest, *("jar", "")[len(rest) :]]
    return Artifact(group, name, version, sha256, int(size), extension, classifier)


def _malformed(where: str, expected: str, found: str) -> SettingError:
    source = where.partition(":")[0]
    return SettingError(
        f"Invalid line in a lock file, at {where}: expected {expected}, found {found!r}.",
        hint=f"restore the file, for instance with: git checkout -- jobs/frazil/local/{source}",
    )
