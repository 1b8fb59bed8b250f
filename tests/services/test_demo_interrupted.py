"""Ctrl-C in the first seconds of `make demo`, when its servers are on their way up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]


def servers_of(folder: Path) -> list[int]:
    """Processes that name a file under a folder."""
    found = psutil.process_iter(["pid", "cmdline"])
    return [each.pid for each in found if any(str(folder) in word for word in each.info["cmdline"] or ())]


def test_ctrl_c_stops_every_server_that_the_demo_started(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "frazil.cli.app", "demo"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 200
        while not servers_of(tmp_path):
            assert demo.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)

        os.killpg(demo.pid, signal.SIGINT)  # as a terminal does: to the demo and what it runs
        said, _ = demo.communicate(timeout=200)
        left = servers_of(tmp_path)
    finally:
        for pid in (demo.pid, *servers_of(tmp_path)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        demo.wait()

    assert demo.returncode == 130
    assert said.endswith("\nstopped, and with it every server that was started\n")
    assert left == []
