"""The policies of a spec by path, as a tree: what is asked of each column, and of the values inside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from frazil.model.policies import KEPT, Policies, Policy, strictest

ITEMS, ENTRIES = "[]", "{}"


@dataclass(frozen=True, slots=True)
class Rule:
    """The policy of one column, if it has one, and the rules inside by name, `[]` or `{}`.

    `paths` are those of the spec that ask for it: a column may have several names. `spelled` is the strictest policy
    of the column by another spelling of its name: it hides more than tags and the policies around it, never less.
    """

    paths: tuple[str, ...] = ()
    policy: Policy | None = None
    inside: Mapping[str, Rule] = field(default_factory=dict)
    spelled: Policy | None = None

    @property
    def decided(self) -> Policy | None:
        return self.policy or self.spelled

    def of(self, *names: str) -> Rule:
        """Return the rule for a column with these names: the policy of the first name that has one, at each level."""
        return _together([self.inside[name] for name in names if name in self.inside])

    def spelled_as(self, names: Iterable[Sequence[str]]) -> Rule:
        """Return the rule for a column with these names, each of which is followed by its other spellings.

        A policy by another spelling of a name is nearer than one by a name after it, and adds to that one.
        """
        return _together([rule for name, *others in names for rule in (self.of(name), *self._of_spellings(others))])

    def _of_spellings(self, names: Iterable[str]) -> Iterator[Rule]:
        yield from (self.inside[name].of_other_spelling() for name in names if name in self.inside)

    def of_other_spelling(self) -> Rule:
        """Return this rule as that of a column whose name is another spelling: what keeps values does not count."""
        given = tuple(each for each in (self.policy, self.spelled) if each not in (None, KEPT))
        inside = {name: rule.of_other_spelling() for name, rule in self.inside.items()}
        return Rule(self.paths, None, inside, strictest(given))

    def lasting(self) -> Iterator[tuple[str, ...]]:
        """Yield the steps to the policies inside that the table may not show: fields are dropped, or come later."""
        for name, rule in self.inside.items():
            if rule.decided is not None and (rule.decided.treatment == "drop" or rule.decided.may_be_missing):
                yield (name,)
            yield from ((name, *steps) for steps in rule.lasting())

    def at(self, steps: Sequence[str]) -> Rule:
        """Return the rule at these steps inside."""
        return self if not steps else self.of(steps[0]).at(steps[1:])


NO_RULE = Rule()


def _together(rules: Sequence[Rule]) -> Rule:
    """Return the rules for several names of a column as one. The nearest name is first."""
    rules = [rule for rule in rules if rule is not NO_RULE]
    if len(rules) < 2:
        return rules[0] if rules else NO_RULE
    policy, spelled = _policies_of(rules)
    names = dict.fromkeys(name for rule in rules for name in rule.inside)
    inside = {name: _together([rule.inside[name] for rule in rules if name in rule.inside]) for name in names}
    return Rule(tuple(path for rule in rules for path in rule.paths), policy, inside, spelled)


def _policies_of(rules: Sequence[Rule]) -> tuple[Policy | None, Policy | None]:
    """Return the policy of the nearest rule that has one, or, if another spelling is nearer, what adds to others."""
    policy: Policy | None = None
    spelled: list[Policy] = []
    for rule in rules:
        if policy is None and not spelled:
            policy = rule.policy
        elif policy is None and rule.policy not in (None, KEPT):
            spelled.append(rule.policy)
        if rule.spelled is not None:
            spelled.append(rule.spelled)
    return policy, strictest(tuple(spelled))


def steps_of(path: str) -> list[str]:
    """Return the names in a path, with `[]` and `{}` as steps of their own."""
    return re.findall(r"\[\]|\{\}|[^.\[\]{}]+", path)


def joined(path: str, steps: Sequence[str]) -> str:
    """Return the path of what is at these steps inside."""
    for step in steps:
        path = f"{path}{step}" if step in (ITEMS, ENTRIES) or not path else f"{path}.{step}"
    return path


def rules_of(policies: Policies) -> Rule:
    return _tree([(steps_of(path), path, policy) for path, policy in policies.columns])


def _tree(entries: Iterable[tuple[list[str], str, Policy]]) -> Rule:
    own: tuple[tuple[str, ...], Policy | None] = (), None
    inside: dict[str, list[tuple[list[str], str, Policy]]] = {}
    for steps, path, policy in entries:
        if steps:
            inside.setdefault(steps[0], []).append((steps[1:], path, policy))
        else:
            own = (path,), policy
    return Rule(*own, {name: _tree(rest) for name, rest in inside.items()})
