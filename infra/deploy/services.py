"""The cloud on this machine: broker, registry and the double of AWS, started if they do not run yet.

Besides, for one environment alone, what plays the services that AWS is not: `DOUBLES`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.deploy.deployment import CHECKOUT, Deployment, folder_of
from infra.deploy.frazil_command import Frazil
from infra.local.kept_double import KeptDouble

STARTED_HERE = "services-started-here"
BROKER = "FRAZIL_LOCAL_BROKER"
REGISTRY = "FRAZIL_LOCAL_REGISTRY"
SNOWFLAKE = "FRAZIL_LOCAL_SNOWFLAKE"
NOBODY = {"CONFLUENT_CLOUD_API_KEY": "NOBODY", "CONFLUENT_CLOUD_API_SECRET": "secret-of-nobody-4tXw9"}
"""The Cloud API key that the double of Confluent Cloud takes."""

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
    if not deployment.is_local:
        return
    if not services_here().are_up:
        deployment.folder.mkdir(parents=True, exist_ok=True)
        (deployment.folder / STARTED_HERE).touch()
        Frazil(deployment.checkout).must("local", "up")
    for double in _doubles(deployment):
        double.up()


def down(deployment: Deployment) -> bool:
    """Stop what `up` started, and remove its data; whether there was something to stop."""
    stopped = [double.down() for double in _doubles(deployment)]
    mark = deployment.folder / STARTED_HERE
    if not mark.exists():
        return any(stopped)
    Frazil(deployment.checkout).must("local", "down", "--wipe")
    mark.unlink()
    return True


def addresses(services: Services, environment: str) -> Mapping[str, str]:
    """For an environment's file, which names them as `${env:…}`: a port may have been taken."""
    return {
        BROKER: services.bootstrap_servers,
        REGISTRY: services.schema_registry_url,
        "FRAZIL_LOCAL_AWS": services.aws_endpoint_url,
        SNOWFLAKE: snowflake_login(folder_of(environment)).address,
    }


def snowflake_login(folder: Path, account: str = "") -> KeptDouble:
    """Of an environment's folder. It outlives restarts of the other services, and so do its users."""
    return KeptDouble(
        module="infra.local.snowflake_double",
        folder=folder / "doubles" / "snowflake",
        preferred_port=4570,
        arguments=(account, "users.json"),
    )


def confluent_cloud(folder: Path) -> KeptDouble:
    """Of an environment's folder. It forgets its keys when it ends; the next `create` makes others."""
    return KeptDouble(
        module="infra.local.confluent_double",
        folder=folder / "doubles" / "confluent",
        preferred_port=4571,
        environment=NOBODY,
    )


def _doubles(deployment: Deployment) -> Iterator[KeptDouble]:
    if deployment.has_confluent:
        yield confluent_cloud(deployment.folder)
    account = deployment.settings.snowflake
    if account is not None and account.stand_in is not None:
        yield snowflake_login(deployment.folder, account.identifier)
