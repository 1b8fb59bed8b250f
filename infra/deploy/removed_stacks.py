"""Refuse to go on while a stack that the settings no longer have still has resources.

Terraform needs a stack's configuration to destroy it, so `create` and `delete` would leave all of it behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from frazil.model.errors import SettingError
from infra.deploy.account_record import STATE, has_resources
from infra.deploy.deployment import STACKS, Deployment
from infra.deploy.snowflake_account import FILE as SNOWFLAKE_RECORD
from infra.deploy.state_files import read_state
from infra.settings import LocalState, S3State
from shared.naming import state_key


def refuse_removed_stacks(deployment: Deployment, names: Collection[str], session: Callable[[], Any]) -> None:
    """Raise SettingError if a stack that is not in `names` still has resources. `session` opens a boto3 session.

    Looks at local states and at those in S3; HCP Terraform shows a workspace with its resources itself.
    """
    left = [name for name in STACKS if name not in names and has_resources(read_state(deployment, name, session))]
    if left:
        stacks = ", ".join(left)
        raise SettingError(
            f"the settings of {deployment.environment} no longer have the stack {stacks}, which still has resources",
            hint=_hint(deployment, left),
        )


def _hint(deployment: Deployment, left: list[str]) -> str:
    file, of = deployment.settings.source_file, f"--profile={deployment.profile} --environment={deployment.environment}"
    if left != ["snowflake"]:
        delete = f"scripts/deploy.sh delete {of}"
        return f"restore `kafka.confluent` in {file}; to change to another Kafka, first run `{delete}`"
    return (
        f"restore `snowflake` in {file} and run `.venv/bin/python -m infra.deploy destroy snowflake {of}`, with "
        "SNOWFLAKE_PRIVATE_KEY set; then remove `snowflake` again and rerun the same command. If the Snowflake account "
        f"itself is gone, move {_place(deployment, left[0])} and {deployment.folder / SNOWFLAKE_RECORD} away instead"
    )


def _place(deployment: Deployment, name: str) -> str:
    """Return the file or the object that holds the state of a stack."""
    backend = LocalState() if deployment.is_local else deployment.settings.backend
    if isinstance(backend, S3State):
        return f"s3://{backend.bucket}/{state_key(deployment.environment, name)}"
    return str(deployment.folder / STATE / f"{name}.tfstate")
