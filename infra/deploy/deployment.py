"""One environment on its way into one account: where its files lie, and whose credentials are used."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from frazil.model.errors import SettingError
from infra.artefacts.environment import Target
from infra.artefacts.lambda_zip import place_of
from infra.components.key_rotation import FOLDER as ROTATE_KEYS
from infra.components.python_lambda import ARCHITECTURE, RUNTIME
from infra.deploy.snowflake_account import AccountFlags, with_account
from infra.naming import APPLICATION, log_group_name, resource_name
from infra.settings import ConfluentKafka, EnvironmentSettings, Rotation
from infra.settings_file import load_environment

LOCAL = "local"
CHECKOUT = Path(__file__).parents[2]
OF_SOMEBODY = (
    "AWS_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL",
)
NO_FLAGS = AccountFlags()
STACKS = ("network", "confluent", "lake", "secrets", "connectors", "jobs", "snowflake")
"""In the order in which each finds what it needs."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """`profile` is one of AWS, or `local` for the double of AWS on this machine, whatever the environment."""

    settings: EnvironmentSettings
    profile: str
    checkout: Path
    asks: bool
    snowflake_is_given: bool = False
    """By the command line of this or of an earlier `create`, rather than by the settings file."""

    @property
    def environment(self) -> str:
        return self.settings.environment

    @property
    def is_local(self) -> bool:
        return self.profile == LOCAL

    @property
    def has_confluent(self) -> bool:
        return isinstance(self.settings.kafka, ConfluentKafka)

    @property
    def has_keys(self) -> bool:
        """Whether there is a key that is ours to make and to rotate."""
        return self.has_confluent or self.settings.snowflake is not None

    @property
    def needs_snowflake_key(self) -> bool:
        """The stand-in of the cloud on this machine asks for none."""
        return self.settings.snowflake is not None and not self.is_local

    @property
    def folder(self) -> Path:
        """Everything that belongs to this environment and is made, never written by hand."""
        return folder_of(self.environment, self.checkout)

    @property
    def synthesized(self) -> Path:
        return self.folder / "cdktf.out"

    @property
    def manifest(self) -> Path:
        return self.folder / "artefacts.json"

    @property
    def config(self) -> Path:
        """The `frazil.yaml` of the environment, for every command of `frazil`."""
        return self.folder / "frazil.yaml"

    @property
    def env_file(self) -> Path:
        """For a shell to read: whose account the commands of `frazil` are for."""
        return self.folder / "env"

    @property
    def packed(self) -> Path:
        """Shared by all environments: what is packed is named by its content."""
        return self.checkout / ".frazil" / "artefacts"

    @property
    def tables(self) -> Path:
        return self.checkout / "tables"

    @property
    def prefix(self) -> str:
        """What the names of all its resources begin with."""
        return resource_name(self.environment, "").removesuffix("-")

    @property
    def secret_prefix(self) -> str:
        return f"{APPLICATION}/{self.environment}/"

    @property
    def log_groups(self) -> tuple[str, ...]:
        return (log_group_name(self.environment, ""), f"/aws/lambda/{self.prefix}-")

    @property
    def rotation_zip(self) -> Path:
        """The function that rotates keys, where it is packed."""
        return place_of(CHECKOUT, ROTATE_KEYS, self.function_target, self.packed)

    @property
    def function_target(self) -> Target:
        """What packages of Lambda functions must fit. The double of AWS runs them here, too."""
        here = Target("{}.{}".format(*sys.version_info[:2]), platform.machine())
        return here if self.is_local else Target(RUNTIME.removeprefix("python"), ARCHITECTURE)

    def target(self, running: tuple[int, ...]) -> Target:
        """What the job's packages must fit. The double of AWS runs jobs with the Python that runs it."""
        interpreter = Path(self.settings.jobs.python).name.removeprefix("python")
        python = f"{running[0]}.{running[1]}" if self.is_local else interpreter
        return Target(python, self.settings.jobs.architecture)


def folder_of(environment: str, checkout: Path = CHECKOUT) -> Path:
    """Where everything lies that is made of an environment."""
    return checkout / ".frazil" / "deploy" / environment


def open_deployment(
    environment: str,
    profile: str,
    *,
    asks: bool,
    days: int | None = None,
    keys_to_retain: int | None = None,
    snowflake: AccountFlags = NO_FLAGS,
) -> Deployment:
    """`days` and `keys_to_retain` win over the environment's `rotation`, `snowflake` names a warehouse that exists.

    Raises SettingError for settings that cannot be used, or that belong to another kind of account.
    """
    settings = load_environment(environment, os.environ)
    if profile != LOCAL and (plays := _played_here(settings)):
        raise SettingError(
            f"the environment {environment} has {plays} on this machine, found the profile {profile}",
            hint="add --environment=dev, or a file of your own in infra/environments/, or use --profile=local",
        )
    told = settings.rotation
    rotation = Rotation(days or told.days, keys_to_retain or told.keys_to_retain)
    account = with_account(settings, snowflake, os.environ, folder_of(environment), is_local=profile == LOCAL)
    given = account is not None and settings.snowflake is None
    settings = replace(settings, rotation=rotation, snowflake=account)
    return Deployment(settings, profile, CHECKOUT, asks, snowflake_is_given=given)


def _played_here(settings: EnvironmentSettings) -> str | None:
    """What a stand-in of the cloud on this machine takes the place of."""
    if isinstance(settings.kafka, ConfluentKafka) and settings.kafka.stand_in:
        return "its cluster"
    return "its Snowflake" if settings.snowflake is not None and settings.snowflake.stand_in else None


def credentials(deployment: Deployment, aws_endpoint_url: str | None) -> Mapping[str, str | None]:
    """For this process and its children: AWS finds the profile by them, and Terraform's provider its endpoint.

    None: a variable that is to go. Keys that the shell still has would win over the profile that was asked for.
    """
    region = {"AWS_REGION": deployment.settings.region, "AWS_DEFAULT_REGION": deployment.settings.region}
    if not deployment.is_local:
        return {**region, **dict.fromkeys(OF_SOMEBODY), "AWS_PROFILE": deployment.profile}
    nobody = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_EC2_METADATA_DISABLED": "true"}
    return {**region, **dict.fromkeys(OF_SOMEBODY), **nobody, "AWS_ENDPOINT_URL": aws_endpoint_url}
