"""One environment deployed to one account: the paths of its files and the credentials to use."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from frazil.model.errors import SettingError
from infra.artefacts.environment import Target
from infra.artefacts.lambda_zip import place_of
from infra.checkout import CHECKOUT
from infra.components.key_rotation import FOLDER as ROTATE_KEYS
from infra.deploy.accounts.account_record import recorded_id, refuse_the_other_cloud
from infra.deploy.accounts.snowflake_account import AccountFlags, with_account
from infra.deploy.aws_variables import overruling
from infra.deploy.cloud import Cloud
from infra.deploy.clouds import cloud_of
from infra.settings.file import load_environment
from infra.settings.model import ConfluentKafka, EnvironmentSettings, Rotation
from shared.naming import APPLICATION, log_group_name, resource_name

NO_FLAGS = AccountFlags()
STACKS = ("network", "confluent", "lake", "secrets", "connectors", "jobs", "exports", "snowflake")
"""In order of dependency."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """The settings of one environment and the AWS profile to deploy with, or `local` for the local double of AWS."""

    settings: EnvironmentSettings
    profile: str
    checkout: Path
    asks: bool
    snowflake_is_given: bool = False
    """Whether this or an earlier command line named the Snowflake account, instead of the settings file."""

    @property
    def environment(self) -> str:
        return self.settings.environment

    @property
    def cloud(self) -> Cloud:
        """The cloud of the profile: a real account or the local cloud."""
        return cloud_of(self.profile)

    @property
    def has_confluent(self) -> bool:
        return isinstance(self.settings.kafka, ConfluentKafka)

    @property
    def has_keys(self) -> bool:
        """Return whether Frazil creates and rotates any key in this environment."""
        return self.has_confluent or self.settings.snowflake is not None

    @property
    def needs_snowflake_key(self) -> bool:
        """Return whether Terraform needs a Snowflake private key."""
        return self.settings.snowflake is not None and self.cloud.needs_credentials

    @property
    def folder(self) -> Path:
        """The folder for the generated files of this environment."""
        return folder_of(self.environment, self.checkout)

    @property
    def synthesized(self) -> Path:
        return self.folder / "cdktf.out"

    def terraform_data(self, stack: str) -> Path:
        """The folder of what `terraform init` makes for a stack, kept when the stacks are synthesized again."""
        return self.folder / "terraform" / stack

    @property
    def options(self) -> str:
        """The options that select this environment, as they are typed after a command."""
        return shlex.join((f"--profile={self.profile}", f"--environment={self.environment}"))

    def step(self, name: str) -> str:
        """Return the command that runs one step for this environment."""
        return f".venv/bin/python -m infra.deploy {name} {self.options}"

    @property
    def manifest(self) -> Path:
        return self.folder / "artefacts.json"

    @property
    def config(self) -> Path:
        """The generated `frazil.yaml` of the environment."""
        return self.folder / "frazil.yaml"

    @property
    def env_file(self) -> Path:
        """A file to `source` in a shell: the variables that point `frazil` at this environment."""
        return self.folder / "env"

    @property
    def packed(self) -> Path:
        """The folder of packed artefacts, named by content hash and shared by all environments."""
        return self.checkout / ".frazil" / "artefacts"

    @property
    def tables(self) -> Path:
        return self.checkout / "tables"

    @property
    def transforms(self) -> Path:
        return self.checkout / "transforms"

    @property
    def prefix(self) -> str:
        """The common prefix of all resource names."""
        return resource_name(self.environment, "").removesuffix("-")

    @property
    def secret_prefix(self) -> str:
        return f"{APPLICATION}/{self.environment}/"

    @property
    def log_groups(self) -> tuple[str, ...]:
        return (log_group_name(self.environment, ""), f"/aws/lambda/{self.prefix}-")

    @property
    def rotation_zip(self) -> Path:
        """The path of the packed key rotation function."""
        return place_of(CHECKOUT, ROTATE_KEYS, self.cloud.function_target, self.packed)

    @property
    def target(self) -> Target:
        """The Python version and architecture of the job."""
        interpreter = Path(self.settings.jobs.python).name.removeprefix("python")
        here, target = self.cloud.function_target, Target(interpreter, self.settings.jobs.architecture)
        if not here.is_here:
            return target
        return replace(target, python=here.python, is_here=here.machine == target.machine)


def folder_of(environment: str, checkout: Path = CHECKOUT) -> Path:
    """Return the folder for the generated files of an environment."""
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
    """Load the settings of an environment and apply the flags of the command line.

    `days` and `keys_to_retain` override the environment's `rotation`; `snowflake` names an existing warehouse.
    Raises SettingError if the settings are invalid, or if they or the recorded account do not fit the profile.
    """
    folder, cloud = folder_of(environment), cloud_of(profile)
    settings = load_environment(environment, os.environ)
    if settings.doubles and not cloud.allows_doubles:
        raise SettingError(
            f"the environment {environment} runs {settings.doubles[0]} on this machine and cannot be deployed with the "
            f"AWS profile {profile}",
            hint="use --environment=dev, another file of infra/environments/, or --profile=local",
        )
    refuse_the_other_cloud(settings, profile, folder)
    rotation = Rotation(days or settings.rotation.days, keys_to_retain or settings.rotation.keys_to_retain)
    account = with_account(settings, snowflake, os.environ, folder, cloud)
    given = account is not None and settings.snowflake is None
    settings = replace(settings, rotation=rotation, snowflake=account, account_id=recorded_id(folder))
    settings = replace(settings, backend=cloud.backend or settings.backend)
    return Deployment(settings, profile, CHECKOUT, asks, snowflake_is_given=given)


def credentials(
    deployment: Deployment, aws_endpoint_url: str | None, shell: Mapping[str, str]
) -> Mapping[str, str | None]:
    """Return the AWS variables to set for this process and its children; None means to unset the variable.

    Credentials and endpoints left in the shell are unset, because they would take precedence over the profile.
    """
    region = {"AWS_REGION": deployment.settings.region, "AWS_DEFAULT_REGION": deployment.settings.region}
    unset: dict[str, str | None] = dict.fromkeys(overruling(shell))
    return {**region, **unset, **deployment.cloud.aws_variables(deployment.profile, aws_endpoint_url)}
