"""The local cloud: doubles of AWS, Confluent Cloud and Snowflake, and stubs of their Terraform providers."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from infra.artefacts.environment import Target
from infra.components.snowflake_integrations import IAM_SECONDS
from infra.deploy.cloud import Services
from infra.deploy.local import services
from infra.deploy.local.services import BROKER, CLOUD_KEY, REGISTRY, SNOWFLAKE
from infra.settings.model import EnvironmentSettings, LocalState
from infra.terraform.environment import stub_values
from infra.terraform.prepare import prepare_for_doubles
from shared.doubles import CONFLUENT_URL, SNOWFLAKE_URL

if TYPE_CHECKING:
    from infra.deploy.deployment import Deployment

PYTHON = "{}.{}".format(*sys.version_info[:2])
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}
"""The double of AWS accepts any."""


class LocalCloud:
    """The cloud of `--profile=local`. Functions and jobs run with the Python of this process."""

    name = "the local cloud"
    account = "local"
    backend = LocalState()
    snowflake_account = ("FRAZIL", "LOCAL")
    needs_credentials = False
    allows_doubles = True
    native_required = False
    function_target = Target(PYTHON, platform.machine(), is_here=True)
    elastic_ips = None
    exported = ("AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", *CREDENTIALS)
    first_commands = (".venv/bin/frazil local produce stock_trades --rows 100000",)
    costs_title = "What it costs in a real account:"

    def describe(self, account: str) -> str:
        return self.name

    def profile_for(self, account: str) -> str:
        return f"--profile={account}"

    def aws_variables(self, profile: str, aws_endpoint_url: str | None) -> Mapping[str, str | None]:
        return {**CREDENTIALS, "AWS_EC2_METADATA_DISABLED": "true", "AWS_ENDPOINT_URL": aws_endpoint_url}

    def confluent_variables(self) -> Mapping[str, str]:
        return CLOUD_KEY

    def double_variables(self, folder: Path) -> Mapping[str, str]:
        return {CONFLUENT_URL: services.confluent_cloud(folder).address}

    def stub_variables(self, settings: EnvironmentSettings) -> Mapping[str, str]:
        login = None if settings.snowflake is None else settings.snowflake.url
        return {
            **({} if login is None else {SNOWFLAKE_URL: login, IAM_SECONDS: "0"}),
            **stub_values("confluent_kafka_cluster", bootstrap_endpoint=f"SASL_SSL://{os.environ[BROKER]}"),
            **stub_values("confluent_schema_registry_cluster", rest_endpoint=os.environ[REGISTRY]),
        }

    def snowflake_url(self, env: Mapping[str, str]) -> str | None:
        return env.get(SNOWFLAKE)

    def prepare(self, directory: Path, checkout: Path) -> Mapping[str, str]:
        return prepare_for_doubles(directory, checkout)

    def find_services(self, folder: Path) -> Services:
        return services.find(folder)

    def start_services(self, deployment: Deployment, known: Services) -> None:
        services.up(deployment, known)

    def stop_services(self, deployment: Deployment, known: Services) -> Sequence[str]:
        return services.down(deployment, known)

    def link_services(self, deployment: Deployment) -> None:
        services.link(deployment)
