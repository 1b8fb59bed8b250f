"""Tests that run with a table of each write mode, and what such a table has of the topic's records.

The expectations are computed from the records alone, in plain Python. Nothing of the project takes part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from frazil.model.spec import WriteMode
from tests.sampling import LONG

MODES: tuple[WriteMode, ...] = ("append", "upsert", "deduplicate", "history")
WITH_DELETES: tuple[WriteMode, ...] = ("upsert", "history")
"""Here a record without a value deletes its key."""

Test = TypeVar("Test", bound=Callable[..., None])
_in_every_mode: set[Any] = set()
Place = tuple[int, int]
"""Partition and offset."""


def in_every_mode(test: Test) -> Test:
    """Run this test with each write mode in `make test` as well; a long run does so with all tests of its file."""
    _in_every_mode.add(test)
    return test


def modes_of(metafunc: pytest.Metafunc) -> Sequence[WriteMode]:
    """Return the write modes to run a test with."""
    test = metafunc.function
    files = {each.__module__ for each in _in_every_mode}
    every = test in _in_every_mode or (LONG and test.__module__ in files)
    return MODES if every and "write" in metafunc.fixturenames else MODES[:1]


@dataclass(frozen=True, slots=True)
class Sent:
    """A record that is no dead letter, or was replayed. Without a number, it has no value."""

    place: Place
    key: str
    number: int | None
    millis: int
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row, with the times from which and to which it is valid, in a history."""

    sent: Sent
    begin: int | None = None
    end: int | None = None


def rows_of(write: WriteMode, records: Iterable[Sent]) -> tuple[list[Row], int]:
    """Return the rows that a table has after all records, and the number of duplicates.

    The records of a key are in one partition. Those that were dead letters came after the others.
    """
    of_key: defaultdict[str, list[Sent]] = defaultdict(list)
    for each in sorted(records, key=lambda sent: (sent.replayed, sent.place)):
        of_key[each.key].append(each)
    match write:
        case "upsert":
            found = [_newest(each) for each in of_key.values()]
        case "deduplicate":
            found = [([Row(first)], len(others)) for first, *others in of_key.values()]
        case "history":
            found = [(list(_versions(each)), 0) for each in of_key.values()]
        case "append":
            found = [([Row(sent) for sent in each], 0) for each in of_key.values()]
    return [row for rows, _ in found for row in rows], sum(duplicates for _, duplicates in found)


def _newest(records: Sequence[Sent]) -> tuple[list[Row], int]:
    """Return the row of a key, if its newest record is none that deletes it, and how many came too late."""
    newest, late = records[0], 0
    for each in records[1:]:
        if each.place > newest.place:
            newest = each
        else:
            late += 1
    return [] if newest.number is None else [Row(newest)], late


def _versions(records: Sequence[Sent]) -> Iterator[Row]:
    """Yield each row of a key. It is valid until the next record, whose time is never less than the ones before."""
    row: Sent | None = None
    begin = 0
    for each in sorted(records, key=lambda sent: sent.place):
        if row is None and each.number is None:
            continue  # deletes nothing
        time = max(begin, each.millis)
        if row is not None:
            yield Row(row, begin, time)
        row, begin = (None if each.number is None else each), time
    if row is not None:
        yield Row(row, begin)
