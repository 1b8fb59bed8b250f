"""The aspect that fails a synthesis before anything is written: rules.py says what it holds the stacks to."""

from __future__ import annotations

from collections.abc import Iterator

import jsii

from frazil.model.errors import SettingError
from infra.cdk import App, Aspects, IAspect, IConstruct, Stack
from infra.guards.rules import RULES, Rule, StackView, Violation


@jsii.implements(IAspect)
class Guard:
    """Checks all stacks at its first visit, so that one error lists every violation."""

    def __init__(self, stacks: list[Stack], *, production: bool) -> None:
        self.stacks = stacks
        self.production = production
        self.has_looked = False
        self.error: Exception | None = None

    def visit(self, node: IConstruct) -> None:
        if self.has_looked:
            return
        self.has_looked = True
        try:
            self._look()
        except Exception as error:  # kept whole: to the other side goes its text alone
            self.error = error
            raise

    def _look(self) -> None:
        found = [line for stack in self.stacks for line in _lines(stack, production=self.production)]
        if found:
            count = f"{len(found)} times" if len(found) > 1 else "once"
            what = f"The stacks break the rules {count}; nothing was written.\n\n" + "\n".join(found)
            raise SettingError(what, hint="infra/guards/rules.py says what each rule is for")


def synthesize(app: App, *, production: bool) -> None:
    """Write the stacks for Terraform. Raises SettingError, which names every resource that breaks a rule."""
    stacks = [node for node in app.node.children if isinstance(node, Stack)]
    guard = Guard(stacks, production=production)
    for stack in stacks:  # at a part without parts of its own: each visit is a call from Node.js
        Aspects.of(_first_leaf(stack)).add(guard)
    try:
        app.synth()
    except RuntimeError as error:
        raise guard.error or error from None


def _first_leaf(node: IConstruct) -> IConstruct:
    while children := node.node.children:
        node = children[0]
    return node


def _lines(stack: Stack, *, production: bool) -> Iterator[str]:
    view = StackView(stack.node.id, production, stack.to_terraform())
    for rule in RULES:
        for finding in rule(view):
            yield _line(rule, finding)


def _line(rule: Rule, finding: Violation) -> str:
    return f"{finding.path}: {rule.__name__}: {finding.what}\n    {finding.fix}"
