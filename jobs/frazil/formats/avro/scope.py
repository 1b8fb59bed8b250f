"""Track the names that a schema has defined so far, and which of them each part of its text depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from frazil.formats.avro.types import NamedType

_NEVER = 1 << 62


@dataclass(slots=True)
class Part:
    """A part of the text. Names are numbered in the order in which their definitions begin."""

    start: int
    """The number of names before this part."""
    used: dict[str, None] = field(default_factory=dict)
    lowest_open: int = _NEVER
    """The lowest number of a name that was used while its definition was incomplete; -1 if a lookup missed."""

    @property
    def is_self_contained(self) -> bool:
        """Return whether the meaning of the text depends only on the complete definitions that it uses."""
        return self.lowest_open >= self.start

    def use(self, name: str, number: int, lowest_open: int) -> None:
        self.lowest_open = min(self.lowest_open, lowest_open)
        if number < self.start:
            self.used[name] = None


class Scope:
    """The definitions of one schema."""

    def __init__(self) -> None:
        self.named: dict[str, NamedType] = {}
        self.open: set[str] = set()
        self._number: dict[str, int] = {}
        self._lowest_open: dict[str, int] = {}
        self._parts = [Part(0)]

    def is_free_of(self, names: Iterable[str]) -> bool:
        """Return whether none of the names has a definition that has begun."""
        return self._number.keys().isdisjoint(names)

    def is_complete(self, name: str, definition: NamedType) -> bool:
        """Return whether the name refers to this definition object. During an invalid redefinition the name is open."""
        return self.named.get(name) is definition and name not in self.open

    @contextmanager
    def part(self) -> Iterator[Part]:
        part = Part(len(self._number))
        self._parts.append(part)
        yield part
        self._parts.pop()
        around = self._parts[-1]
        around.lowest_open = min(around.lowest_open, part.lowest_open)
        around.used.update((name, None) for name in part.used if self._number[name] < around.start)

    def look_up(self, *full_names: str) -> str | None:
        """Return the first of the names that is defined or whose definition is open; None if there is none."""
        for full_name in full_names:
            if full_name in self.named or full_name in self.open:
                self._use(full_name)
                return full_name
            self._parts[-1].lowest_open = -1
        return None

    def begin(self, full_name: str) -> None:
        """Note that a definition begins."""
        if full_name in self._number:
            self._use(full_name)
        else:
            self._number[full_name] = len(self._number)

    def settle(self, full_name: str, part: Part) -> None:
        """Note the dependencies of a complete definition."""
        lowest = _NEVER if part.lowest_open >= self._number[full_name] else part.lowest_open
        self._lowest_open[full_name] = min(lowest, self._lowest_open.get(full_name, _NEVER))

    def defined_since(self, count: int) -> dict[str, NamedType]:
        """Return the complete definitions after the first `count`."""
        newest = islice(reversed(self.named.items()), len(self.named) - count)
        return dict(reversed(list(newest)))

    def add(self, named: dict[str, NamedType]) -> None:
        """Add complete, self-contained definitions."""
        for name, definition in named.items():
            self.begin(name)
            self.named[name] = definition

    def use_all(self, names: dict[str, NamedType]) -> None:
        for name in names:
            self._use(name)

    def _use(self, name: str) -> None:
        number = self._number[name]
        lowest_open = number if name in self.open else self._lowest_open.get(name, _NEVER)
        self._parts[-1].use(name, number, lowest_open)
