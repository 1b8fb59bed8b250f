"""What the tests of synthesis share: the other core, cdktf's fork, in an environment of its own."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = Path(__file__).parent / "requirements-cdktn.lock"


@pytest.fixture(scope="session")
def python_with_cdktn() -> Path:
    """A Python that has cdktn and no cdktf; made once, and again when its lock changes."""
    digest = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = ROOT / ".venv" / f"cdktn-{digest}"
    python = folder / "bin" / "python"
    ready = folder / ".ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True, timeout=120)
        pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet"]
        install = [*pip, "install", "--require-hashes"]
        done = subprocess.run([*install, "-r", LOCK], capture_output=True, text=True, timeout=200, check=False)
        if done.returncode:
            pytest.skip(f"cdktn cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
        ready.touch()
    return python


@pytest.fixture(scope="session")
def environment_without_credentials() -> dict[str, str]:
    """The environment of a synthesis: it makes no request, so it needs no credentials."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "jobs"))),
        "LANG": "C.UTF-8",
    }
