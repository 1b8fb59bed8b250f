"""Start and stop the local services: broker, registry and the double of AWS, shared by all environments.

Each environment also has its own doubles of Snowflake and Confluent Cloud.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from infra.checkout import CHECKOUT
from infra.deploy.cloud import Services
from infra.deploy.local.double_process import DoubleProcess
from infra.deploy.tables.frazil_command import Frazil
from shared.confluent_api import KEY_VARIABLE, SECRET_VARIABLE

if TYPE_CHECKING:
    from infra.deploy.deployment import Deployment

STARTED_HERE = "services-started-here"
"""A file of the environment: its deployment started the services, `WITH_DATA` of before or `WITHOUT_DATA`."""
WITH_DATA, WITHOUT_DATA = "with data", "without data"
BROKER = "FRAZIL_LOCAL_BROKER"
REGISTRY = "FRAZIL_LOCAL_REGISTRY"
AWS = "FRAZIL_LOCAL_AWS"
SNOWFLAKE = "FRAZIL_LOCAL_SNOWFLAKE"
"""These variables have the actual addresses; the environment's file reads them as `${env:…}`."""
CLOUD_KEY = {KEY_VARIABLE: "NOBODY", SECRET_VARIABLE: "secret-of-nobody-4tXw9"}
"""The Cloud API key that the double of Confluent Cloud accepts."""
PREFERRED = ("127.0.0.1:9092", "http://127.0.0.1:8081/apis/ccompat/v7", "http://127.0.0.1:4566")
"""The default addresses, used unless a port is taken."""


def find(folder: Path) -> Services:
    """Return the addresses of the services, running or not. `folder` is the environment's."""
    status = Frazil(CHECKOUT).told("local", "status", "--json")
    given = (status["bootstrap_servers"], status["schema_registry_url"], status["aws_endpoint_url"])
    broker, registry, aws = (address or preferred for address, preferred in zip(given, PREFERRED, strict=True))
    each = status["services"].values()
    addresses = {BROKER: broker, REGISTRY: registry, AWS: aws, SNOWFLAKE: snowflake_login(folder).address}
    return Services(addresses, aws, are_up=bool(each) and all(service["ready"] for service in each))


def up(deployment: Deployment, known: Services) -> None:
    """Start the services that are not running; `known` is their state before.

    Records whether this deployment started them, and whether they had data: `delete` does not stop services that ran
    before `create`, and deletes no topics that were there before it.
    """
    if not known.are_up:
        deployment.folder.mkdir(parents=True, exist_ok=True)
        mark = deployment.folder / STARTED_HERE
        if not mark.exists():
            mark.write_text(WITH_DATA if _topics(deployment).exists() else WITHOUT_DATA)
        Frazil(deployment.checkout).must("local", "up")
    for double in _needed_doubles(deployment):
        double.up()


def down(deployment: Deployment, known: Services) -> tuple[str, ...]:
    """Stop the services that `up` started and delete the data that they have since. Return a line about each.

    `known` is as for `up`.

    The doubles are stopped even if the settings no longer use them: a `delete --keep-data` before this
    one has forgotten the Snowflake account of the command line.
    """
    doubles = {
        "Confluent Cloud": confluent_cloud(deployment.folder),
        "Snowflake": snowflake_login(deployment.folder),
    }
    stopped = tuple(f"the double of {name}: stopped, data deleted" for name, double in doubles.items() if double.down())
    return (*stopped, *_shared_down(deployment, known))


def _shared_down(deployment: Deployment, known: Services) -> Iterator[str]:
    which = f"broker, registry and double of AWS in {deployment.checkout / '.frazil/local'}"
    mark = deployment.folder / STARTED_HERE
    if mark.exists():
        had_data = mark.read_text() != WITHOUT_DATA
        Frazil(deployment.checkout).must("local", "down", *(() if had_data else ("--wipe",)))
        mark.unlink()
        kept = (
            "stopped; their data are kept, since there were topics before `create`;"
            " `.venv/bin/frazil local down --wipe` deletes them"
        )
        yield f"{which}: {kept if had_data else 'stopped, data deleted'}"
    elif known.are_up:
        yield (
            f"{which}: they ran before `create`, so they keep running, with all topics;"
            " `.venv/bin/frazil local down` stops them"
        )


def _topics(deployment: Deployment) -> Path:
    """Return the folder of the broker's data, which `frazil local down --wipe` deletes."""
    return deployment.checkout / ".frazil" / "local" / "broker"


def link(deployment: Deployment) -> None:
    """Make the services known to `frazil local`, which looks for them beside its configuration."""
    services = deployment.folder / ".frazil"
    if not services.exists():
        services.symlink_to(deployment.checkout / ".frazil", target_is_directory=True)


def snowflake_login(folder: Path, account: str = "") -> DoubleProcess:
    """Return the Snowflake double of an environment; its users survive restarts of the other services."""
    return DoubleProcess(
        module="devcloud.snowflake_double",
        folder=folder / "doubles" / "snowflake",
        preferred_port=4570,
        arguments=(account, "users.json"),
    )


def confluent_cloud(folder: Path) -> DoubleProcess:
    """Return the Confluent Cloud double of an environment; it loses its keys when it stops."""
    return DoubleProcess(
        module="devcloud.confluent_double",
        folder=folder / "doubles" / "confluent",
        preferred_port=4571,
        environment=CLOUD_KEY,
    )


def _needed_doubles(deployment: Deployment) -> Iterator[DoubleProcess]:
    if deployment.has_confluent:
        yield confluent_cloud(deployment.folder)
    account = deployment.settings.snowflake
    if account is not None and account.url is not None:
        yield snowflake_login(deployment.folder, account.identifier)
