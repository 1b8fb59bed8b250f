"""A test run that is interrupted or terminated leaves no server behind, whichever process started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
SERVER = """
import sys
import time
from pathlib import Path

from frazil.local.processes import spawn


def test_with_a_server() -> None:
    folder = Path({folder!r})
    server = spawn([sys.executable, "-c", "import time; time.sleep(300)"], environment={{}}, log=folder / "log")
    (folder / "pid").write_text(str(server.pid))
    (folder / "started").touch()
    time.sleep(300)
"""
"""It has no fixture that would stop the server: so it is with a worker that is killed before its fixtures end."""


@pytest.mark.parametrize(
    ("number", "shell"),
    [(signal.SIGINT, "trap '' INT; exec \"$@\""), (signal.SIGTERM, 'exec "$@"')],
    ids=["ctrl-c-in-the-background-of-a-shell", "terminated"],
)
def test_a_run_that_is_stopped_leaves_no_server_behind(tmp_path: Path, number: signal.Signals, shell: str) -> None:
    (tmp_path / "test_server.py").write_text(SERVER.format(folder=str(tmp_path)))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "xdist",
        "-n",
        "1",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
    ]
    with (tmp_path / "output").open("wb") as output:
        run = subprocess.Popen(
            ["/bin/sh", "-c", shell, "sh", *command, f"--rootdir={tmp_path}", str(tmp_path / "test_server.py")],
            cwd=ROOT,
            env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONFAULTHANDLER": "1"},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until((tmp_path / "started").exists, (tmp_path / "output").read_text)

        os.killpg(run.pid, number) if number == signal.SIGINT else run.send_signal(number)
        try:
            run.wait(120)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the run did not end:\n{stacks_of(run)}\n{(tmp_path / 'output').read_text()}")
    finally:
        run.kill()
        run.wait()

    server = int((tmp_path / "pid").read_text())
    left = psutil.pid_exists(server)
    if left:
        os.kill(server, signal.SIGKILL)
    assert not left, (tmp_path / "output").read_text()


def stacks_of(run: subprocess.Popen[bytes]) -> str:
    """Let each process of the run write the stacks of its threads into the output and end; return the processes."""
    processes = [psutil.Process(run.pid), *psutil.Process(run.pid).children(recursive=True)]
    shown = "\n".join(f"{process.pid} {process.status()} {process.cmdline()}" for process in processes)
    for process in processes:
        process.send_signal(signal.SIGABRT)
    psutil.wait_procs(processes[1:], timeout=10)
    run.wait(10)
    return shown


def until(is_so: Callable[[], bool], explain: Callable[[], str]) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.05)
