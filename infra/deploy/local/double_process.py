"""A double as a process of its own, which outlives the command that starts it and keeps its address."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from frazil.model.errors import ServiceError
from infra.checkout import CHECKOUT

START_SECONDS = 30.0
STOP_SECONDS = 10.0
LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleProcess:
    """Runs as `python -m MODULE PORT ARGUMENT…` and prints its address first. `folder` is its own, and named by it.

    All its data is in the folder, and so is `where.json` with its address and its process.
    """

    module: str
    folder: Path
    preferred_port: int
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The address of the running process, or its preferred address."""
        known = self._known.get("address")
        return str(known) if known else f"http://127.0.0.1:{self.preferred_port}"

    @property
    def process(self) -> psutil.Process | None:
        """The running process, or None. The command line excludes another process that reused its id."""
        try:
            found = psutil.Process(int(self._known["pid"]))
            return found if self.module in found.cmdline() and found.cwd() == str(self.folder.resolve()) else None
        except (KeyError, psutil.Error):
            return None

    def up(self) -> None:
        """Start it unless it runs; it moves to another port where the one that it had is taken."""
        if self.process is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            process = self._start(int(self.address.rpartition(":")[2]))
            found = {"address": self._first_word(process), "pid": process.pid}
            self._where.write_text(json.dumps(found), encoding="utf-8")

    def down(self) -> bool:
        """Stop it and remove what it keeps; whether there was something to remove."""
        process = self.process
        if process is not None:
            process.terminate()
            _, alive = psutil.wait_procs([process], timeout=STOP_SECONDS)
            for each in alive:
                each.kill()
        was_there = self.folder.exists()
        shutil.rmtree(self.folder, ignore_errors=True)
        return was_there

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        words = ("-W", "ignore", "-m", self.module, str(port), *self.arguments)
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, *words],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(CHECKOUT), **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _first_word(self, process: subprocess.Popen[bytes]) -> str:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            said = self._log.read_text(encoding="utf-8", errors="replace")
            if said.startswith("http") and "\n" in said:
                process.returncode = 0  # it is not ours to wait for any more: Popen would complain when it is forgotten
                return said.split(maxsplit=1)[0]
            time.sleep(LOOK_SECONDS)
        process.kill()
        process.wait(STOP_SECONDS)
        raise ServiceError(
            f"{self.module} did not start: expected its address within {START_SECONDS:.0f} s in {self._log}",
            hint="read there why, and run the same command again",
        )

    @property
    def _known(self) -> Mapping[str, str]:
        try:
            known: Mapping[str, str] = json.loads(self._where.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return known

    @property
    def _where(self) -> Path:
        return self.folder / "where.json"

    @property
    def _log(self) -> Path:
        return self.folder / "log"
