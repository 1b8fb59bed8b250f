"""A real account of AWS, of Confluent Cloud and of Snowflake."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from infra.artefacts.environment import Target
from infra.components.python_lambda import ARCHITECTURE, RUNTIME
from infra.deploy.cloud import NO_SERVICES, Services
from infra.settings.model import EnvironmentSettings
from infra.terraform.prepare import prepare_for_account

if TYPE_CHECKING:
    from infra.deploy.deployment import Deployment


class AwsCloud:
    """A real account. The values are explained in `Cloud`."""

    name = "an AWS account"
    account = None
    backend = None
    snowflake_account = None
    needs_credentials = True
    allows_doubles = False
    native_required = True
    function_target = Target(RUNTIME.removeprefix("python"), ARCHITECTURE)
    elastic_ips = 5
    exported = ("AWS_PROFILE", "AWS_DEFAULT_REGION")
    first_commands = ()
    costs_title = "What it costs:"

    def describe(self, account: str) -> str:
        return f"the AWS account {account}"

    def profile_for(self, account: str) -> str:
        return f"a profile of the account {account}"

    def aws_variables(self, profile: str, aws_endpoint_url: str | None) -> Mapping[str, str | None]:
        return {"AWS_PROFILE": profile}

    def confluent_variables(self) -> Mapping[str, str]:
        return os.environ

    def double_variables(self, folder: Path) -> Mapping[str, str]:
        return {}

    def stub_variables(self, settings: EnvironmentSettings) -> Mapping[str, str]:
        return {}

    def snowflake_url(self, env: Mapping[str, str]) -> str | None:
        return None

    def prepare(self, directory: Path, checkout: Path) -> Mapping[str, str]:
        return prepare_for_account(directory, checkout)

    def find_services(self, folder: Path) -> Services:
        return NO_SERVICES

    def start_services(self, deployment: Deployment, known: Services) -> None:
        """Start nothing: an account runs its services itself."""

    def stop_services(self, deployment: Deployment, known: Services) -> Sequence[str]:
        return ()

    def link_services(self, deployment: Deployment) -> None:
        """Link nothing: `frazil.yaml` has the addresses of the account's services."""
