"""The verbs of scripts/deploy.sh: which steps each one runs, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.deploy.deployment import STACKS
from infra.deploy.steps import STEPS


@dataclass(frozen=True, slots=True)
class Call:
    """One step, with the stacks that it is for."""

    step: str
    stacks: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.step, *self.stacks))


CREATE = (
    Call("check"),
    Call("services-up"),
    Call("artefacts"),
    Call("free-names"),
    Call("destroy-removed", ("connectors",)),
    Call("apply", ("network", "confluent", "lake", "secrets")),
    Call("keys"),
    Call("topics"),
    Call("apply", ("connectors",)),
    Call("upload"),
    Call("apply", ("jobs",)),
    Call("tables"),
    Call("apply", ("exports", "snowflake")),
    Call("summary"),
)
DELETE = (
    Call("services-up"),
    Call("confirm-delete"),
    Call("destroy", ("snowflake", "exports", "jobs", "connectors")),
    Call("delete-keys"),
    Call("empty"),
    Call("destroy", ("secrets", "lake", "confluent", "network")),
    Call("inventory"),
    Call("services-down"),
)
PLAN = (Call("check"), Call("services-up"), Call("artefacts"), Call("plan", STACKS))

VERBS: Mapping[str, tuple[Call, ...]] = {"create": CREATE, "delete": DELETE, "plan": PLAN}
"""Those of more than one step. Each one asks for missing secrets before its first step."""

NAMES = tuple(dict.fromkeys((*VERBS, *STEPS)))


def calls_of(name: str, stacks: Sequence[str]) -> tuple[Call, ...]:
    """Return the steps of a verb, or the one step of that name. `plan` with stacks is the step: it plans only these."""
    return (Call(name, tuple(stacks)),) if stacks or name not in VERBS else VERBS[name]


def asks_for_secrets(name: str, stacks: Sequence[str]) -> bool:
    return name in VERBS and not stacks
