"""A bounded memory of values that never change under their key, such as files of a table's metadata."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Keeps the values used last while their weights add up to at most `limit`. Safe to use from several threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._weight = 0
        self._values: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> Value | None:
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: str, value: Value, *, weight: int) -> None:
        with self._lock:
            self._drop(key)
            self._values[key] = (value, weight)
            self._weight += weight
            while self._weight > self._limit and len(self._values) > 1:
                self._drop(next(iter(self._values)))

    def drop(self, key: str) -> None:
        with self._lock:
            self._drop(key)

    def _drop(self, key: str) -> None:
        if key in self._values:
            self._weight -= self._values.pop(key)[1]
