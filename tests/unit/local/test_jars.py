from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from frazil.local.jars import fetch_artifacts, path_of
from frazil.local.locks import Artifact
from frazil.model.errors import MissingToolError

CONTENT = b"the content that the lock names"
JAR = Artifact("org.example", "thing", "1.0", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


class Repository:
    """A resolver that counts what it is asked for."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.asked = 0

    def __call__(self, artifact: Artifact, room: Path) -> Path:
        self.asked += 1
        path = room / artifact.file_name
        path.write_bytes(self.content)
        return path


def test_a_jar_is_fetched_once(tmp_path: Path) -> None:
    repository = Repository()

    first = fetch_artifacts([JAR], what="test", folder=tmp_path, resolve=repository)
    second = fetch_artifacts([JAR], what="test", folder=tmp_path, resolve=repository)

    assert first == second == [path_of(tmp_path, JAR)]
    assert (first[0].read_bytes(), repository.asked) == (CONTENT, 1)


def test_another_content_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(
        MissingToolError, match=f"expected {len(CONTENT)} bytes with SHA-256 {JAR.sha256}, found 4 bytes"
    ):
        fetch_artifacts([JAR], what="test", folder=tmp_path, resolve=Repository(b"evil"))

    assert not path_of(tmp_path, JAR).exists()
    assert list((tmp_path / "partial").iterdir()) == []


def test_a_jar_that_was_changed_in_the_cache_is_replaced(tmp_path: Path) -> None:
    repository = Repository()
    (path,) = fetch_artifacts([JAR], what="test", folder=tmp_path, resolve=repository)
    path.write_bytes(b"tampered with")

    fetch_artifacts([JAR], what="test", folder=tmp_path, resolve=repository)

    assert (path.read_bytes(), repository.asked) == (CONTENT, 2)


def test_a_jar_without_its_stamp_is_hashed_and_not_fetched_again(tmp_path: Path) -> None:
    repository = Repository()
    (path,) = fetch_artifacts([JAR], what="test", folder=tmp_path, resolve=repository)
    path.with_name(f".{path.name}.verified").unlink()

    fetch_artifacts([JAR], what="test", folder=tmp_path, resolve=repository)

    assert repository.asked == 1
