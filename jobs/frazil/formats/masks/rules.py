"""The policies of a spec by path, as a tree: what is asked of each column, and of the values inside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from frazil.model.policies import Policies, Policy

ITEMS, ENTRIES = "[]", "{}"


@dataclass(frozen=True, slots=True)
class Rule:
    """The policy of one path, if it has one, and the rules inside by name, `[]` or `{}`."""

    path: str = ""
    policy: Policy | None = None
    inside: Mapping[str, Rule] = field(default_factory=dict)

    def of(self, *names: str) -> Rule:
        """Return the rule for the first of these names that has one."""
        return next((self.inside[name] for name in names if name in self.inside), NO_RULE)


NO_RULE = Rule()


def steps_of(path: str) -> list[str]:
    """Return the names in a path, with `[]` and `{}` as steps of their own."""
    return re.findall(r"\[\]|\{\}|[^.\[\]{}]+", path)


def rules_of(policies: Policies) -> Rule:
    return _tree([(steps_of(path), path, policy) for path, policy in policies.columns])


def _tree(entries: Iterable[tuple[list[str], str, Policy]]) -> Rule:
    own: tuple[str, Policy | None] = "", None
    inside: dict[str, list[tuple[list[str], str, Policy]]] = {}
    for steps, path, policy in entries:
        if steps:
            inside.setdefault(steps[0], []).append((steps[1:], path, policy))
        else:
            own = path, policy
    return Rule(*own, {name: _tree(rest) for name, rest in inside.items()})
