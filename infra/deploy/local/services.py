"""Start and stop the local services: broker, registry and the double of AWS, shared by all environments.

Each environment also has its own doubles of Snowflake and Confluent Cloud.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.deploy.clouds import NOBODY
from infra.deploy.deployment import CHECKOUT, Deployment, folder_of
from infra.deploy.local.kept_double import KeptDouble
from infra.deploy.tables.frazil_command import Frazil

STARTED_HERE = "services-started-here"
BROKER = "FRAZIL_LOCAL_BROKER"
REGISTRY = "FRAZIL_LOCAL_REGISTRY"
SNOWFLAKE = "FRAZIL_LOCAL_SNOWFLAKE"

PREFERRED = ("127.0.0.1:9092", "http://127.0.0.1:8081/apis/ccompat/v7", "http://127.0.0.1:4566")
"""The default addresses, used unless a port is taken."""


@dataclass(frozen=True, slots=True)
class Services:
    """The addresses of the local services, running or not."""

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


def up(deployment: Deployment, known: Services | None) -> None:
    """Start the services that are not running, which `known` are for a local cloud.

    Records whether this deployment started them: `delete` does not stop services that ran before `create`.
    """
    if not deployment.is_local:
        return
    if known is None or not known.are_up:
        deployment.folder.mkdir(parents=True, exist_ok=True)
        (deployment.folder / STARTED_HERE).touch()
        Frazil(deployment.checkout).must("local", "up")
    for double in _needed_doubles(deployment):
        double.up()


def down(deployment: Deployment) -> bool:
    """Stop the services that `up` started and delete their data; return whether any was stopped.

    The doubles go whether or not the settings still name what they stand in for: a `delete --keep-data` before this
    one has forgotten the Snowflake account of the command line.
    """
    stopped = [double.down() for double in (confluent_cloud(deployment.folder), snowflake_login(deployment.folder))]
    mark = deployment.folder / STARTED_HERE
    if not mark.exists():
        return any(stopped)
    Frazil(deployment.checkout).must("local", "down", "--wipe")
    mark.unlink()
    return True


def addresses(services: Services, environment: str) -> Mapping[str, str]:
    """Return the variables with the actual addresses, which the environment's file reads as `${env:…}`."""
    return {
        BROKER: services.bootstrap_servers,
        REGISTRY: services.schema_registry_url,
        "FRAZIL_LOCAL_AWS": services.aws_endpoint_url,
        SNOWFLAKE: snowflake_login(folder_of(environment)).address,
    }


def snowflake_login(folder: Path, account: str = "") -> KeptDouble:
    """Return the Snowflake double of an environment; its users survive restarts of the other services."""
    return KeptDouble(
        module="devcloud.snowflake_double",
        folder=folder / "doubles" / "snowflake",
        preferred_port=4570,
        arguments=(account, "users.json"),
    )


def confluent_cloud(folder: Path) -> KeptDouble:
    """Return the Confluent Cloud double of an environment; it loses its keys when it stops."""
    return KeptDouble(
        module="devcloud.confluent_double",
        folder=folder / "doubles" / "confluent",
        preferred_port=4571,
        environment=NOBODY,
    )


def _needed_doubles(deployment: Deployment) -> Iterator[KeptDouble]:
    if deployment.has_confluent:
        yield confluent_cloud(deployment.folder)
    account = deployment.settings.snowflake
    if account is not None and account.stand_in is not None:
        yield snowflake_login(deployment.folder, account.identifier)
