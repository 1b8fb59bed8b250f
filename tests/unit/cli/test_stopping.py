"""Ctrl-C and SIGTERM while several tables run without end, in a separate process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("two_tables.py")
ROOT = Path(__file__).parents[3]


@contextmanager
def two_tables(kind: str) -> Iterator[subprocess.Popen[str]]:
    """Running, with a batch of each table begun."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), kind],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert {process.stdout.readline(), process.stdout.readline()} == {"lake.a begins\n", "lake.b begins\n"}
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("asked", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_lets_every_table_end_in_order(asked: signal.Signals, status: int) -> None:
    with two_tables("idle") as process:
        process.send_signal(asked)

        _, err = process.communicate(timeout=30)

    assert process.returncode == status
    assert err.startswith("stopping after the current batches")
    assert err.endswith("lake.a: nothing new\nlake.b: nothing new\n")
    assert "Traceback" not in err


def test_a_second_signal_ends_at_once_without_a_trace() -> None:
    with two_tables("stuck") as process:
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        said = process.stderr.readline()
        process.send_signal(signal.SIGINT)

        _, err = process.communicate(timeout=30)

    assert said == "stopping after the current batches; press Ctrl-C again to stop at once\n"
    assert (process.returncode, err) == (-signal.SIGINT, "")


def test_ctrl_c_while_spark_starts_ends_at_once() -> None:
    with two_tables("starting") as process:
        process.send_signal(signal.SIGINT)

        _, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert err == "Starting Spark (about 15 s)…\nstopped while Spark was starting; nothing was written\n"
