"""Work is divided into shares of about the same size, such as one for each task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def even_shares(items: Iterable[T], *, size: Callable[[T], int], count: int) -> list[list[T]]:
    """Return `count` shares: the largest item first, each to the share that has the least so far. Some may be empty."""
    shares: list[list[T]] = [[] for _ in range(count)]
    held = [0] * count
    for item in sorted(items, key=size, reverse=True):
        least = held.index(min(held))
        shares[least].append(item)
        held[least] += size(item)
    return shares
