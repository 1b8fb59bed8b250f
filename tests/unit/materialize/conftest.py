"""Whole batches commit to a catalog in SQLite dozens of times a test."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine


@pytest.fixture(autouse=True)
def no_waits_for_the_disk() -> Iterator[None]:
    """Let commits to SQLite not wait for the disk: no test here loses power."""

    def connected(connection: object, record: object) -> None:
        del record
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", connected)
    yield
    event.remove(Engine, "connect", connected)
