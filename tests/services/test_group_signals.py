"""SIGTERM to the whole process group, as `timeout` and supervisors send it, ends a run in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "unit" / "cli" / "two_tables.py"


@pytest.mark.parametrize("to_group", [False, True], ids=["process", "group"])
def test_a_batch_on_spark_is_finished_and_no_jvm_is_left(tmp_path: Path, *, to_group: bool) -> None:
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), "spark", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    started: list[psutil.Process] = []
    try:
        assert process.stdout is not None
        begun = {process.stdout.readline(), process.stdout.readline()}
        started = psutil.Process(process.pid).children(recursive=True)
        if to_group:
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.terminate()
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
        _, left = psutil.wait_procs(started, timeout=20)
        for each in left:
            each.kill()

    assert begun == {"lake.a begins\n", "lake.b begins\n"}
    assert started and not left
    assert process.returncode == 0, err
    assert err.endswith("lake.a: nothing new\nlake.b: nothing new\n")
    assert "Traceback" not in err
