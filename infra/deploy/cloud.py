"""What differs between a real account and the local cloud. No step asks which one it works in.

`AwsCloud` in infra/deploy/aws_cloud.py is a real account, `LocalCloud` in infra/deploy/local/cloud.py the local cloud.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from infra.artefacts.environment import Target
from infra.settings.model import EnvironmentSettings, LocalState

if TYPE_CHECKING:
    from infra.deploy.deployment import Deployment


@dataclass(frozen=True, slots=True)
class Services:
    """The local services that an environment uses. `variables` are their addresses, for its settings file."""

    variables: Mapping[str, str]
    aws_endpoint_url: str | None
    are_up: bool


NO_SERVICES = Services({}, None, are_up=True)


class Cloud(Protocol):
    """Where an environment is deployed to. It has no defaults, so that each cloud decides everything itself."""

    @property
    def name(self) -> str:
        """The name in messages if the account is not known."""

    @property
    def account(self) -> str | None:
        """The account that is recorded; None for the id of the AWS account."""

    @property
    def backend(self) -> LocalState | None:
        """The backend of Terraform's states, which overrides the settings; None to use that of the settings."""

    @property
    def snowflake_account(self) -> tuple[str, str] | None:
        """Organization and account for `--snowflake-warehouse`; None leaves them to flags and variables."""

    @property
    def needs_credentials(self) -> bool:
        """True if `create` asks for missing keys, and `check` verifies credentials and the tools to log in."""

    @property
    def allows_doubles(self) -> bool:
        """True if the settings may name doubles instead of services."""

    @property
    def native_required(self) -> bool:
        """True if packing fails without the native decoder for the job's machine."""

    @property
    def function_target(self) -> Target:
        """The Python version and architecture of the Lambda functions; one that `is_here` also runs the jobs."""

    @property
    def elastic_ips(self) -> int | None:
        """The default quota of Elastic IPs in a region; None for no quota."""

    @property
    def exported(self) -> tuple[str, ...]:
        """The variables in the file that points `frazil` at the environment."""

    @property
    def first_commands(self) -> tuple[str, ...]:
        """Commands to try before the others, at the end of `create`."""

    @property
    def costs_title(self) -> str:
        """The heading of the list of costs."""

    def describe(self, account: str) -> str:
        """Return what messages call the recorded account."""

    def profile_for(self, account: str) -> str:
        """Return which profile a hint asks for."""

    def aws_variables(self, profile: str, aws_endpoint_url: str | None) -> Mapping[str, str | None]:
        """Return the variables with which AWS's libraries and Terraform log in."""

    def confluent_variables(self) -> Mapping[str, str]:
        """Return the variables with the Cloud API key."""

    def double_variables(self, folder: Path) -> Mapping[str, str]:
        """Return the variables that lead to the double of Confluent Cloud. `folder` is the environment's."""

    def stub_variables(self, settings: EnvironmentSettings) -> Mapping[str, str]:
        """Return the variables that Terraform's stub providers need."""

    def snowflake_url(self, env: Mapping[str, str]) -> str | None:
        """Return the address of the login of an account that is not in the settings; None for Snowflake itself."""

    def prepare(self, directory: Path, checkout: Path) -> Mapping[str, str]:
        """Write what Terraform needs into the folder of a synthesized stack, and return the variables for it."""

    def find_services(self, folder: Path) -> Services:
        """Return the services that an environment needs on this machine. `folder` is the environment's."""

    def start_services(self, deployment: Deployment, known: Services) -> None:
        """Start the services that are not running."""

    def stop_services(self, deployment: Deployment, known: Services) -> Sequence[str]:
        """Stop the services that `start_services` started and delete their data.

        Return a line about each that was stopped or keeps running. `known` is their state before.
        """

    def link_services(self, deployment: Deployment) -> None:
        """Let `frazil local` find the services from the environment's `frazil.yaml`."""
