"""Remember the synthesized stacks and what their states say for as long as one command runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from infra.app import Purpose
from infra.artefacts.artefact import Artefacts
from infra.deploy.deployment import Deployment
from infra.deploy.stacks.deployed import Stacks, code_of, packed_of, synthesize
from infra.terraform.runner import Tell
from infra.terraform.states import States


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that decides what is synthesized. Table specs count as they were when the command first read them."""

    deployment: Deployment
    artefacts: Artefacts
    code: object
    listed: frozenset[str] | None
    purpose: Purpose


@dataclass(slots=True)
class Synthesis:
    """Synthesizes the stacks at first use, and again only if an input has changed.

    `reads_as` is the purpose to synthesize for if a step only reads outputs and nothing is synthesized yet.
    """

    tell: Tell
    reads_as: Purpose = "apply"
    _inputs: Inputs | None = None
    _stacks: Stacks | None = None
    _states: States = field(default_factory=States)

    def stacks(
        self, deployment: Deployment, *, listed: Collection[str] | None = None, purpose: Purpose = "apply"
    ) -> Stacks:
        """Return the stacks of these inputs. `listed` are the tables in Glue, or None for those of all specs."""
        tables = None if listed is None else frozenset(listed)
        inputs = Inputs(deployment, packed_of(deployment), code_of(deployment), tables, purpose)
        if self._stacks is None or inputs != self._inputs:
            self._inputs = None  # of a synthesis that fails, nothing is left to use
            self._stacks = synthesize(deployment, self.tell, listed=tables, purpose=purpose, states=self._states)
            self._inputs = inputs
        return self._stacks

    def readable(self, deployment: Deployment) -> Stacks:
        """Return stacks to read outputs and resources of: artefacts, tables and purpose make no difference there."""
        if self._stacks is not None and self._inputs is not None and self._inputs.deployment == deployment:
            return self._stacks
        return self.stacks(deployment, purpose=self.reads_as)
