"""Looks for secrets in every file that a deployment has written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from deployed import Deployed

NOT_SEARCHED = ("local/aws/unpacked/", "deploy/local/terraform/", "artefacts/")
"""Below .frazil: packages and providers, which are of others and were there before any secret was."""


def written_files(deployed: Deployed) -> list[Path]:
    """States, synthesized stacks, logs, records of calls, work folders of jobs; also what deploy.sh printed."""
    base = deployed.checkout / ".frazil"
    below = [file for file in base.rglob("*") if file.is_file() and not _is_left_out(file.relative_to(base))]
    return [*below, *(running.output for running in deployed.running), *(each.errors for each in deployed.running)]


def _is_left_out(file: Path) -> bool:
    return file.as_posix().startswith(NOT_SEARCHED)


def files_with(secrets: Collection[str], files: Iterable[Path]) -> list[str]:
    wanted = [secret.encode() for secret in secrets]
    return [str(file) for file in files if any(secret in content for content in _content(file) for secret in wanted)]


def _content(file: Path) -> Iterator[bytes]:
    try:
        yield file.read_bytes()
    except OSError:
        return
