"""A test that cannot run here is listed with its reason, and fails with FRAZIL_SKIP_NOTHING."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

LEFT_OUT = """
import pytest

@pytest.mark.skipif(True, reason="there is no such tool")
def test_left_out(): ...

@pytest.mark.xfail(reason="known")
def test_expected_to_fail():
    raise ValueError
"""


@pytest.mark.parametrize(
    ("wanted", "status", "told"),
    [
        ({}, 0, "there is no such tool"),
        ({"FRAZIL_SKIP_NOTHING": "1"}, 1, "there is no such tool, and FRAZIL_SKIP_NOTHING is set"),
    ],
)
def test_what_is_left_out_is_told_and_fails_where_nothing_may_be(
    tmp_path: Path, wanted: dict[str, str], status: int, told: str
) -> None:
    (tmp_path / "test_tool.py").write_text(LEFT_OUT)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("FRAZIL_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "-ra", "-p", "tests.conftest", "-p", "no:cacheprovider"]

    ended = subprocess.run(
        [*command, "-p", "no:xdist", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        env={**env, "PYTHONPATH": str(ROOT), **wanted},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == status, ended.stdout
    assert told in ended.stdout
    assert "1 xfailed" in ended.stdout
