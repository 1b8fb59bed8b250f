"""What differs between a real account and the cloud on this machine, as data: no step asks which one it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra.settings.model import LocalState


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """Where a profile deploys to."""

    account: str | None = None
    """What is recorded as its account; None stands for the id of the AWS account."""
    backend: LocalState | None = None
    """Where the states are, whatever the settings say; None leaves it to the settings."""
    credentials: Mapping[str, str] | None = None
    """The Cloud API key of Confluent Cloud; None stands for the variables of the process."""
    has_logins: bool = True
    """Whether `check` verifies credentials and the tools to log in."""
    native_required: bool = True
    """Whether packing fails without the native decoder for the job's machine."""
    exported: tuple[str, ...] = ("AWS_PROFILE", "AWS_DEFAULT_REGION")
    """The variables in the file that points `frazil` at the environment."""
    first_commands: tuple[str, ...] = ()
    """Commands to try before the others, at the end of `create`."""
    costs_title: str = "What it costs:"


LOCAL_CLOUD = "local"
"""What is recorded instead of an account id for the local cloud."""
NOBODY = {"CONFLUENT_CLOUD_API_KEY": "NOBODY", "CONFLUENT_CLOUD_API_SECRET": "secret-of-nobody-4tXw9"}
"""The Cloud API key that the double of Confluent Cloud accepts."""

REAL = Cloud()
LOCAL = Cloud(
    account=LOCAL_CLOUD,
    backend=LocalState(),
    credentials=NOBODY,
    has_logins=False,
    native_required=False,
    exported=("AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    first_commands=(".venv/bin/frazil local produce stock_trades --rows 100000",),
    costs_title="What it costs in a real account:",
)
