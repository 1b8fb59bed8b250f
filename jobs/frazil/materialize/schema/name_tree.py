"""The former names of a table's columns as a tree, so that a column moves together with all that is under it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from frazil.materialize.schema.former_names import FormerNames

_STEPS = re.compile(r"\[\]|\{\}|[^.\[{]+")


@dataclass(slots=True)
class NameTree:
    """One column: its former names, and what is under it, by step: a column's name, `[]` or `{}`."""

    former: tuple[str, ...] = ()
    under: dict[str, NameTree] = field(default_factory=dict)

    def step(self, name: str) -> NameTree:
        found = self.under.get(name)
        if found is None:
            found = self.under[name] = NameTree()
        return found

    def at(self, path: str) -> NameTree:
        node = self
        for step in _STEPS.findall(path):
            node = node.step(step)
        return node

    def move(self, old: str, new: str) -> NameTree:
        """Rename the column `old` under this one. Returns it."""
        moved = self.under.pop(old, None) or self.step(new)
        self.under[new] = moved
        return moved

    def flat(self, path: str = "") -> Iterator[tuple[str, tuple[str, ...]]]:
        """Paths and former names, where there are any."""
        if self.former:
            yield path, self.former
        for step, node in self.under.items():
            if node.former or node.under:
                yield from node.flat(join(path, step))


def tree_of(names: FormerNames) -> NameTree:
    root = NameTree()
    for path, former in names.items():
        root.at(path).former = former
    return root


def join(path: str, step: str) -> str:
    return f"{path}.{step}" if path and step not in ("[]", "{}") else path + step
