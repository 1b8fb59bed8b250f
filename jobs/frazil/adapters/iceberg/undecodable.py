"""Distinguish a file that cannot be decoded (damaged, encrypted) from storage that fails to answer.

Arrow raises OSError for both.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from pyiceberg.io import FileIO

LOG = logging.getLogger(__name__)

CHUNK_BYTES = 16 << 20


class UndecodableFileError(ValueError):
    """The bytes of a file can be read, but they cannot be decoded."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"the file {path} cannot be decoded: {problem}")
        self.path = path
        self.problem = problem


@contextmanager
def decoding(io: FileIO, path: str) -> Iterator[None]:
    """Raise UndecodableFileError, which names the file, if it cannot be decoded although storage returns its bytes."""
    try:
        yield
    except (FileNotFoundError, UndecodableFileError):
        raise
    except Exception as problem:
        if not _returns_bytes(io, path):
            raise
        raise UndecodableFileError(path, one_line(problem)) from problem


@cache
def warn_once(path: str, problem: str) -> None:
    """Log a file that another writer left undecodable, once in a process: each batch meets it."""
    LOG.warning("file_not_decodable", extra={"file": path, "problem": problem})


def _returns_bytes(io: FileIO, path: str) -> bool:
    try:
        with io.new_input(path).open() as stream:
            while stream.read(CHUNK_BYTES):
                pass
    except Exception:  # noqa: BLE001 - whatever storage raises, it did not return the bytes
        return False
    return True


def one_line(problem: Exception) -> str:
    """Return the class and the text of an exception of a library."""
    return " ".join(f"{type(problem).__name__}: {problem}".split())
