"""Faults of the soak: the driver, its processes and the services around it are killed or stopped, and come back."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.soak.setting import Folder
from frazil.local.state import read_state
from frazil.local.supervisor import ANY_FREE_PORTS, SERVICES, up

STOPPED_SECONDS = 20
AWAY_SECONDS = 10
END_SECONDS = 120


@dataclass(slots=True)
class Driver:
    """`frazil materialize` in a session of its own; started again whenever it is not running."""

    folder: Folder
    starts: int = 0
    unasked: list[str] = field(default_factory=list)
    """How it ended when nobody had killed it."""

    _process: subprocess.Popen[bytes] | None = None

    def keep_running(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        if self._process is not None and self._process.returncode != -signal.SIGKILL:
            self.unasked.append(f"exit status {self._process.returncode}, log {self._log}")
        self.starts += 1
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.folder.command("materialize"),
                cwd=self.folder.path,
                env=self.folder.environment,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    @property
    def _log(self) -> Path:
        return self.folder.path / f"driver-{self.starts}.log"

    @property
    def pid(self) -> int | None:
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def end(self) -> int:
        """Let the batches in flight finish, and return the exit status."""
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            kill_session(self._process.pid)
            return self._process.wait()


def kill_session(leader: int) -> None:
    """Kill all processes of the session that this one leads."""
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == leader:
                process.kill()


def kill_driver(driver: Driver) -> None:
    if driver.pid is not None:
        kill_session(driver.pid)


def kill_driver_alone(driver: Driver) -> None:
    """Its JVM and workers find out by themselves."""
    if driver.pid is not None:
        os.kill(driver.pid, signal.SIGKILL)


def stop_driver_for_a_while(driver: Driver) -> None:
    if driver.pid is None:
        return
    for signal_number in (signal.SIGSTOP, signal.SIGCONT):
        with suppress(ProcessLookupError):
            os.kill(driver.pid, signal_number)
        time.sleep(STOPPED_SECONDS if signal_number == signal.SIGSTOP else 0)


def kill_a_worker(driver: Driver) -> None:
    if driver.pid is None:
        return
    below = psutil.Process(driver.pid).children(recursive=True)
    workers = [each for each in below if each.name().startswith("python")]
    with suppress(psutil.Error):
        if workers:
            workers[-1].kill()


def _service_dies(name: str) -> Callable[[Driver], None]:
    def dies(driver: Driver) -> None:
        home = driver.folder.services
        process = read_state(home)[name].process
        if process is not None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(AWAY_SECONDS)
        up(services=("broker", "registry"), directory=home, preferred_ports=ANY_FREE_PORTS)

    assert name in SERVICES
    return dies


FAULTS: Mapping[str, Callable[[Driver], None]] = {
    "driver and all its processes killed": kill_driver,
    "driver alone killed": kill_driver_alone,
    f"driver stopped for {STOPPED_SECONDS} s": stop_driver_for_a_while,
    "a worker killed": kill_a_worker,
    f"broker killed, away for {AWAY_SECONDS} s": _service_dies("broker"),
    f"registry killed, away for {AWAY_SECONDS} s": _service_dies("registry"),
}


@dataclass(slots=True)
class Faults:
    """Every fault once in each round, in an order that the seed gives, `every` seconds apart."""

    driver: Driver
    every: float
    seed: int
    done: list[tuple[float, str]] = field(default_factory=list)
    """When each began, in seconds of the run."""

    _left: list[str] = field(default_factory=list)

    def perhaps(self, at: float) -> None:
        """Make the next fault if it is due. A spell without faults precedes the first."""
        if at < self.every * (len(self.done) + 1):
            return
        if not self._left:
            self._left = random.Random(f"{self.seed} {len(self.done)}").sample(list(FAULTS), len(FAULTS))
        name = self._left.pop()
        self.done.append((at, name))
        FAULTS[name](self.driver)
