"""`frazil` as a command of its own: the stacks know nothing of the package but its specs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frazil.model.errors import FrazilError

SECONDS = 900
NOT_THERE_YET = 3
"""The exit status of `materialize --create-only` where nothing but topics or subjects are missing."""


class CommandFailedError(FrazilError):
    """`frazil` ended with an error, which it has said itself."""


@dataclass(frozen=True, slots=True)
class Frazil:
    """Run in a folder, whose `.frazil/local/` is that of the local services."""

    folder: Path

    def show(self, *arguments: str) -> int:
        """What it prints goes where ours does; its exit status."""
        return subprocess.run(self._command(arguments), cwd=self.folder, timeout=SECONDS, check=False).returncode

    def must(self, *arguments: str, or_status: int = 0) -> int:
        """Its exit status. Raises CommandFailedError where it ends with any but 0 and `or_status`."""
        status = self.show(*arguments)
        if status not in {0, or_status}:
            raise CommandFailedError(
                f"`frazil {' '.join(arguments)}` ended with status {status}: see its own words above",
                hint="mend what it names, and run the same command of scripts/deploy.sh again: it goes on",
            )
        return status

    def told(self, *arguments: str) -> Any:
        """What it prints as JSON."""
        ended = subprocess.run(
            self._command(arguments), cwd=self.folder, timeout=SECONDS, check=True, stdout=subprocess.PIPE, text=True
        )
        return json.loads(ended.stdout)

    def _command(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        return (sys.executable, "-m", "frazil.cli.app", *arguments)
