"""What a step is asked to do, and how it reaches AWS and the stacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from infra.deploy.cloud import NO_SERVICES, Services
from infra.deploy.console import tell
from infra.deploy.deployment import Deployment
from infra.deploy.stacks.deployed import Stacks
from infra.deploy.stacks.synthesis import Synthesis


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of one step, apart from those of the deployment."""

    stacks: tuple[str, ...]
    keeps_data: bool
    secret: str | None = None
    leaked: bool = False
    services: Services = NO_SERVICES
    """The local services before the step."""
    synthesis: Synthesis = field(default_factory=lambda: Synthesis(tell))
    is_first: bool = True
    """Whether no step of this command ran before: only then a record is surely of an earlier command."""

    def session(self) -> Any:
        """Open a boto3 session."""
        return open_session()

    def vault(self) -> Any:
        """Return a boto3 client for Secrets Manager."""
        return self.session().client("secretsmanager")

    def readable(self, deployment: Deployment) -> Stacks:
        """Return the stacks to read outputs and resources of."""
        return self.synthesis.readable(deployment)


Step = Callable[[Deployment, Asked], None]


def open_session() -> Any:
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - takes half a second, and some steps need none

    return boto3.Session()
