"""Run the `frazil` command in a subprocess, so that infra imports only the specs of the package."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frazil.model.errors import FrazilError

SECONDS = 900
PROGRAM = Path(sys.executable).with_name("frazil")
"""Beside the Python of this process, as `make setup` installs it."""
NOT_THERE_YET = 3
"""The exit status of `materialize --create-only` if only topics or subjects are missing."""


class CommandFailedError(FrazilError):
    """`frazil` failed; it has printed the cause itself."""


@dataclass(frozen=True, slots=True)
class Frazil:
    """The `frazil` command, run in `folder`; `.frazil/local/` there holds the state of the local services."""

    folder: Path

    def show(self, *arguments: str) -> int:
        """Run the command with its output on this terminal and return the exit status."""
        return subprocess.run(self._command(arguments), cwd=self.folder, timeout=SECONDS, check=False).returncode

    def must(self, *arguments: str, or_status: int = 0) -> int:
        """Run the command and return the exit status. Raises CommandFailedError if it is neither 0 nor `or_status`."""
        status = self.show(*arguments)
        if status not in {0, or_status}:
            raise CommandFailedError(
                f"`{self._name} {' '.join(arguments)}` failed with exit status {status}; its error is printed above",
                hint="fix the error, then rerun the same scripts/deploy.sh command: it resumes",
            )
        return status

    def told(self, *arguments: str) -> Any:
        """Run the command and return its output, parsed as JSON."""
        ended = subprocess.run(
            self._command(arguments), cwd=self.folder, timeout=SECONDS, check=True, stdout=subprocess.PIPE, text=True
        )
        return json.loads(ended.stdout)

    def _command(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """Run the script, not the module: hints name the program by how it was started."""
        return (sys.executable, str(PROGRAM), *arguments)

    @property
    def _name(self) -> Path:
        return PROGRAM.relative_to(self.folder) if PROGRAM.is_relative_to(self.folder) else PROGRAM
