"""`make test-long` can collect its tests: it takes combinations that `make test` leaves out."""

from __future__ import annotations

import os
import subprocess
import sys

from pages import ROOT


def test_the_long_run_of_faults_is_collected() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/faults"]

    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "FRAZIL_TEST_LONG": "1"}, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stdout[-2000:]
    assert int(ended.stdout.rpartition(" tests collected")[0].split()[-1]) > 1_000
