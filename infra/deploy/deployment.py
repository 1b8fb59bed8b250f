"""One environment deployed to one account: the paths of its files and the credentials to use."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from frazil.model.errors import SettingError
from infra.artefacts.environment import Target
from infra.artefacts.lambda_zip import place_of
from infra.components.key_rotation import FOLDER as ROTATE_KEYS
from infra.components.python_lambda import ARCHITECTURE, RUNTIME
from infra.deploy import clouds
from infra.deploy.accounts.account_record import recorded_id, refuse_the_other_cloud
from infra.deploy.accounts.snowflake_account import AccountFlags, with_account
from infra.deploy.clouds import Cloud
from infra.settings.file import load_environment
from infra.settings.model import ConfluentKafka, EnvironmentSettings, Rotation
from shared.naming import APPLICATION, log_group_name, resource_name

LOCAL = "local"
CHECKOUT = Path(__file__).parents[2]
AWS_CREDENTIAL_VARS = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_ENDPOINT_URL",
)
SERVICE_ENDPOINT = re.compile(r"AWS_ENDPOINT_URL_\w+|(TF_)?AWS_\w+_ENDPOINT")
"""The variables by which AWS's libraries and Terraform find the endpoint of one service."""
KEPT_ENDPOINTS = frozenset({"AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT"})
"""The address at which a machine of EC2 asks for credentials, which a profile may use, and two switches."""
NO_FLAGS = AccountFlags()
STACKS = ("network", "confluent", "lake", "secrets", "connectors", "jobs", "snowflake")
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
    def is_local(self) -> bool:
        return self.profile == LOCAL

    @property
    def cloud(self) -> Cloud:
        """Return what differs between a real account and the local cloud."""
        return _cloud_of(self.profile)

    @property
    def has_confluent(self) -> bool:
        return isinstance(self.settings.kafka, ConfluentKafka)

    @property
    def has_keys(self) -> bool:
        """Whether Frazil creates and rotates any key in this environment."""
        return self.has_confluent or self.settings.snowflake is not None

    @property
    def needs_snowflake_key(self) -> bool:
        """Whether Terraform needs a Snowflake private key; the local stand-in needs none."""
        return self.settings.snowflake is not None and not self.is_local

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
        return place_of(CHECKOUT, ROTATE_KEYS, self.function_target, self.packed)

    @property
    def function_target(self) -> Target:
        """The Python version and architecture of the Lambda functions; the local double runs them on this machine."""
        here = Target("{}.{}".format(*sys.version_info[:2]), platform.machine())
        return here if self.is_local else Target(RUNTIME.removeprefix("python"), ARCHITECTURE)

    def target(self, running: tuple[int, ...]) -> Target:
        """Return the Python version and architecture of the job; the local double uses the `running` Python."""
        interpreter = Path(self.settings.jobs.python).name.removeprefix("python")
        python = f"{running[0]}.{running[1]}" if self.is_local else interpreter
        return Target(python, self.settings.jobs.architecture)


def _cloud_of(profile: str) -> Cloud:
    return clouds.LOCAL if profile == LOCAL else clouds.REAL


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
    folder = folder_of(environment)
    settings = load_environment(environment, os.environ)
    if profile != LOCAL and (plays := _played_here(settings)):
        raise SettingError(
            f"the environment {environment} runs {plays} on this machine and cannot be deployed with the AWS profile "
            f"{profile}",
            hint="use --environment=dev, another file of infra/environments/, or --profile=local",
        )
    refuse_the_other_cloud(settings, profile, folder, is_local=profile == LOCAL)
    told = settings.rotation
    rotation = Rotation(days or told.days, keys_to_retain or told.keys_to_retain)
    account = with_account(settings, snowflake, os.environ, folder, is_local=profile == LOCAL)
    given = account is not None and settings.snowflake is None
    settings = replace(settings, rotation=rotation, snowflake=account, account_id=recorded_id(folder))
    settings = replace(settings, backend=_cloud_of(profile).backend or settings.backend)
    return Deployment(settings, profile, CHECKOUT, asks, snowflake_is_given=given)


def _played_here(settings: EnvironmentSettings) -> str | None:
    """Return the first service that the settings replace by a local stand-in, or None."""
    if isinstance(settings.kafka, ConfluentKafka) and settings.kafka.stand_in:
        return "its cluster"
    return "its Snowflake" if settings.snowflake is not None and settings.snowflake.stand_in else None


def credentials(
    deployment: Deployment, aws_endpoint_url: str | None, shell: Mapping[str, str]
) -> Mapping[str, str | None]:
    """Return the AWS variables to set for this process and its children; None means to unset the variable.

    Credentials and endpoints left in the shell are unset, because they would take precedence over the profile.
    """
    region = {"AWS_REGION": deployment.settings.region, "AWS_DEFAULT_REGION": deployment.settings.region}
    endpoints = [name for name in shell if SERVICE_ENDPOINT.fullmatch(name) and name not in KEPT_ENDPOINTS]
    unset: dict[str, str | None] = dict.fromkeys((*AWS_CREDENTIAL_VARS, *endpoints))
    if not deployment.is_local:
        return {**region, **unset, "AWS_PROFILE": deployment.profile}
    nobody = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_EC2_METADATA_DISABLED": "true"}
    return {**region, **unset, **nobody, "AWS_ENDPOINT_URL": aws_endpoint_url}
