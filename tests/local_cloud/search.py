"""Looks for secrets in every file that a deployment has written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

from deployed import Deployed

NOT_SEARCHED = ("local/aws/unpacked/", "artefacts/")
PROVIDERS = re.compile(r"deploy/[^/]+/terraform/[^/]+/providers/")
"""Below .frazil: packages and providers, which are of others and were there before any secret was."""


def written_files(deployed: Deployed) -> list[Path]:
    """States and the files beside them, stacks, logs, records of calls, folders of jobs; what deploy.sh printed."""
    base = deployed.checkout / ".frazil"
    below = [file for file in base.rglob("*") if file.is_file() and not _is_left_out(file.relative_to(base))]
    return [*below, *(running.output for running in deployed.running), *(each.errors for each in deployed.running)]


def _is_left_out(file: Path) -> bool:
    path = file.as_posix()
    return path.startswith(NOT_SEARCHED) or PROVIDERS.match(path) is not None


def files_with(secrets: Collection[str], files: Iterable[Path]) -> list[str]:
    wanted = [secret.encode() for secret in secrets]
    return [str(file) for file in files if any(secret in _content(file) for secret in wanted)]


def _content(file: Path) -> bytes:
    """Nothing for one that is gone since it was listed; one that cannot be read is an error, and not clean."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""
