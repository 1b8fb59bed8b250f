"""The cloud on this machine: broker, registry and the double of AWS, started if they do not run yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra.deploy.deployment import CHECKOUT, Deployment
from infra.deploy.frazil_command import Frazil

STARTED_HERE = "services-started-here"
BROKER = "FRAZIL_LOCAL_BROKER"
REGISTRY = "FRAZIL_LOCAL_REGISTRY"

PREFERRED = ("127.0.0.1:9092", "http://127.0.0.1:8081/apis/ccompat/v7", "http://127.0.0.1:4566")
"""Where they will answer unless a port is taken."""


@dataclass(frozen=True, slots=True)
class Services:
    """Where the local services answer, or will."""

    bootstrap_servers: str
    schema_registry_url: str
    aws_endpoint_url: str
    are_up: bool


def services_here() -> Services:
    told = Frazil(CHECKOUT).told("local", "status", "--json")
    given = (told["bootstrap_servers"], told["schema_registry_url"], told["aws_endpoint_url"])
    broker, registry, aws = (address or usual for address, usual in zip(given, PREFERRED, strict=True))
    each = told["services"].values()
    return Services(broker, registry, aws, are_up=bool(each) and all(service["ready"] for service in each))


def up(deployment: Deployment) -> None:
    """Start what does not run. Who started it is remembered: `delete` leaves alone what was there before `create`."""
    if not deployment.is_local or services_here().are_up:
        return
    deployment.folder.mkdir(parents=True, exist_ok=True)
    (deployment.folder / STARTED_HERE).touch()
    Frazil(deployment.checkout).must("local", "up")


def down(deployment: Deployment) -> bool:
    """Stop what `up` started, and remove its data; whether there was something to stop."""
    mark = deployment.folder / STARTED_HERE
    if not mark.exists():
        return False
    Frazil(deployment.checkout).must("local", "down", "--wipe")
    mark.unlink()
    return True


def addresses(services: Services) -> Mapping[str, str]:
    """For an environment's file, which names them as `${env:…}`: a port may have been taken."""
    return {
        BROKER: services.bootstrap_servers,
        REGISTRY: services.schema_registry_url,
        "FRAZIL_LOCAL_AWS": services.aws_endpoint_url,
    }
