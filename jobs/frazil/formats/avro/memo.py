"""A bounded memo by object identity."""

from __future__ import annotations

from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

MOST_FIELDS = 20_000
"""Twice as many as one table may have columns."""


class Memo(Generic[Key, Value]):
    """Values derived from objects, by the identity of the object.

    Hashing a field would visit its whole type; comparing identities is cheap. The memo keeps each key alive, so Python
    cannot reuse its identity for another object. A full memo is emptied.
    """

    def __init__(self, most: int = MOST_FIELDS) -> None:
        self._most = most
        self._known: dict[int, tuple[Key, Value]] = {}

    def get(self, key: Key) -> Value | None:
        known = self._known.get(id(key))
        return None if known is None else known[1]

    def put(self, key: Key, value: Value) -> Value:
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[id(key)] = key, value
        return value
