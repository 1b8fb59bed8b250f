"""Column policies: what happens to the values of a column before anything is written.

A path names a column as `columns.walk` does: dotted, with `[]` for the items of a list and `{}` for the values of a
map.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

Treatment = Literal["drop", "redact", "hash", "truncate", "none"]
STRICTEST: tuple[Treatment, ...] = ("drop", "redact", "hash", "truncate", "none")
"""If several tags of a column have policies, the first of these counts."""

REDACTED = "[redacted]"
"""The text that `redact` writes instead of a text. Values of other types become null."""


@dataclass(frozen=True, slots=True, order=True)
class Policy:
    """One policy. `length` is the number of characters, or bytes, that `truncate` keeps.

    `may_be_missing`: a table can be made although no schema has the column yet.
    """

    treatment: Treatment
    length: int = 0
    may_be_missing: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"truncate to {self.length}" if self.treatment == "truncate" else self.treatment


KEPT = Policy("none")


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a spec's columns, by path and by tag of the schema. A path takes precedence over a tag.

    `hash_key` is the id of the key of hashes; None if nothing is hashed.
    """

    columns: tuple[tuple[str, Policy], ...] = ()
    tags: tuple[tuple[str, Policy], ...] = ()
    hash_key: str | None = None

    def __bool__(self) -> bool:
        return bool(self.columns or self.tags)

    @property
    def hashes(self) -> bool:
        return any(policy.treatment == "hash" for _, policy in (*self.columns, *self.tags))

    def columns_text(self) -> str:
        """Return what a table records of `columns`, and of the key of hashes; empty without any."""
        if not self.columns and self.hash_key is None:
            return ""
        return json.dumps({"columns": _texts(self.columns), "hash_key": self.hash_key}, ensure_ascii=False)

    def tags_text(self) -> str:
        """Return what a table records of `tags`; empty without any."""
        return json.dumps(_texts(self.tags), ensure_ascii=False) if self.tags else ""

    @staticmethod
    def of_texts(columns: str, tags: str) -> Policies:
        """Return the policies that a table recorded."""
        of_columns = json.loads(columns or "{}")
        named, key = _policies(of_columns.get("columns", {})), of_columns.get("hash_key")
        return Policies(named, _policies(json.loads(tags or "{}")), key)

    def inside(self, column: str) -> tuple[tuple[str, Policy], ...]:
        """Return the policies of a column, and of what is in it, by their whole paths."""
        parts = (f"{column}.", f"{column}[", f"{column}{{")
        return tuple(each for each in self.columns if each[0] == column or each[0].startswith(parts))

    def around(self, path: str) -> tuple[tuple[str, Policy], ...]:
        """Return the policies of a path, of what is in it, and of the columns around it."""
        outer = (each for each in self.columns if path.startswith(f"{each[0]}."))
        return (*outer, *self.inside(path))

    def covers(self, path: str) -> bool:
        """Return whether a path, or a column around it, has a policy."""
        return any(path == each or path.startswith((f"{each}.", f"{each}[", f"{each}{{")) for each, _ in self.columns)

    def moved(self, column: str, to: str) -> Policies:
        """Return the policies with those of a column, and of what is in it, under its new name."""
        paths = dict(self.inside(column))
        return replace(self, columns=tuple((to + p[len(column) :] if p in paths else p, q) for p, q in self.columns))


NO_POLICIES = Policies()


def strictest(policies: tuple[Policy, ...]) -> Policy | None:
    """Return the policy that hides most, or None if there is none."""
    return min(policies, key=lambda each: (STRICTEST.index(each.treatment), each.length), default=None)


def _texts(policies: tuple[tuple[str, Policy], ...]) -> dict[str, str]:
    return {name: str(policy) for name, policy in sorted(policies)}


def _policies(texts: Mapping[str, str]) -> tuple[tuple[str, Policy], ...]:
    return tuple((name, _policy(text)) for name, text in texts.items())


def _policy(text: str) -> Policy:
    word, _, length = text.partition(" to ")
    return Policy(cast("Treatment", word), int(length or 0))
