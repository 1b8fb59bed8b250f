from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from frazil.local.jars import fetch_artifacts, resolve_anywhere
from frazil.local.locks import read_lock
from frazil.model.errors import MissingToolError

SMALLEST = min(read_lock("broker"), key=lambda artifact: artifact.size)


def test_a_locked_jar_is_fetched_as_the_lock_names_it(tmp_path: Path) -> None:
    (path,) = fetch_artifacts([SMALLEST], what="test", folder=tmp_path, resolve=resolve_anywhere)

    assert path.stat().st_size == SMALLEST.size


def test_a_jar_with_another_hash_than_the_locks_is_refused(tmp_path: Path) -> None:
    other = replace(SMALLEST, sha256="0" * 64)

    with pytest.raises(MissingToolError, match=f"expected {SMALLEST.size} bytes with SHA-256 0000"):
        fetch_artifacts([other], what="test", folder=tmp_path, resolve=resolve_anywhere)
