"""Remembered deletes of a table that follows keys, as a table's state refers to them (docs/decisions/0036)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class PuffinFile:
    """A file of one blob in the table's folder: its size, and that of its footer, in bytes."""

    path: str
    size: int
    footer: int


@dataclass(frozen=True, slots=True)
class RememberedDeletes:
    """The deletes of `file`: how many, the time of the first batch with one, and the checksum of the blob.

    `forgotten` counts the deletes that were left out before their time, because there were too many. `forgotten_until`
    is the time of the last batch with a delete that was left out because it was old.
    """

    file: PuffinFile
    checksum: str
    count: int
    since: datetime
    forgotten: int = 0
    forgotten_until: datetime | None = None
