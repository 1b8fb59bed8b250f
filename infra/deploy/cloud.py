"""What differs between a real account and the local cloud: no step asks which one it works in.

`Cloud` is a real account; `LocalCloud` in infra/deploy/local/cloud.py is the other one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infra.artefacts.environment import Target
from infra.components.python_lambda import ARCHITECTURE, RUNTIME
from infra.settings.model import EnvironmentSettings, LocalState
from infra.terraform.prepare import prepare_for_account

if TYPE_CHECKING:
    from infra.deploy.deployment import Deployment

FUNCTIONS = Target(RUNTIME.removeprefix("python"), ARCHITECTURE)
"""What Lambda runs functions with."""


@dataclass(frozen=True, slots=True)
class Services:
    """The local services that an environment uses. `variables` are their addresses, for its settings file."""

    variables: Mapping[str, str]
    aws_endpoint_url: str | None
    are_up: bool


NO_SERVICES = Services({}, None, are_up=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """A real account of AWS, of Confluent Cloud and of Snowflake."""

    name: str = "an AWS account"
    """What messages call it if the account is not known."""
    account: str | None = None
    """What is recorded as its account; None if it is the id of the AWS account."""
    backend: LocalState | None = None
    """Where Terraform's states are, whatever the settings say; None leaves it to the settings."""
    snowflake_account: tuple[str, str] | None = None
    """Organization and account for `--snowflake-warehouse`; None leaves them to flags and variables."""
    needs_credentials: bool = True
    """Whether `create` asks for missing keys, and `check` verifies credentials and the tools to log in."""
    allows_doubles: bool = False
    """Whether the settings may name doubles instead of services."""
    native_required: bool = True
    """Whether packing fails without the native decoder for the job's machine."""
    function_target: Target = FUNCTIONS
    """The Python version and architecture of the Lambda functions."""
    job_python: str | None = None
    """The Python version of the job; None leaves it to the settings."""
    elastic_ips: int | None = 5
    """The default quota of Elastic IPs in a region; None for no quota."""
    exported: tuple[str, ...] = ("AWS_PROFILE", "AWS_DEFAULT_REGION")
    """The variables in the file that points `frazil` at the environment."""
    first_commands: tuple[str, ...] = ()
    """Commands to try before the others, at the end of `create`."""
    costs_title: str = "What it costs:"

    def describe(self, account: str) -> str:
        """Return what messages call the recorded account."""
        return f"the AWS account {account}"

    def profile_for(self, account: str) -> str:
        """Return which profile a hint asks for."""
        return f"a profile of the account {account}"

    def aws_variables(self, profile: str, aws_endpoint_url: str | None) -> Mapping[str, str | None]:
        """Return the variables with which AWS's libraries and Terraform log in."""
        del aws_endpoint_url
        return {"AWS_PROFILE": profile}

    def confluent_variables(self) -> Mapping[str, str]:
        """Return the variables with the Cloud API key."""
        return os.environ

    def double_variables(self, folder: Path) -> Mapping[str, str]:
        """Return the variables that lead to the double of Confluent Cloud. `folder` is the environment's."""
        del folder
        return {}

    def stub_variables(self, settings: EnvironmentSettings) -> Mapping[str, str]:
        """Return the variables that Terraform's stub providers need."""
        del settings
        return {}

    def snowflake_url(self, env: Mapping[str, str]) -> str | None:
        """Return the address of the login of an account that is not in the settings; None for Snowflake itself."""
        del env
        return None

    def prepare(self, directory: Path, checkout: Path) -> Mapping[str, str]:
        """Write what Terraform needs into the folder of a synthesized stack, and return the variables for it."""
        return prepare_for_account(directory, checkout)

    def find_services(self, folder: Path) -> Services:
        """Return the services that an environment needs on this machine. `folder` is the environment's."""
        del folder
        return NO_SERVICES

    def start_services(self, deployment: Deployment, known: Services) -> None:
        """Start the services that are not running."""

    def stop_services(self, deployment: Deployment) -> bool:
        """Stop the services that `start_services` started and delete their data; return whether any was stopped."""
        del deployment
        return False

    def link_services(self, deployment: Deployment) -> None:
        """Let `frazil local` find the services from the environment's `frazil.yaml`."""
