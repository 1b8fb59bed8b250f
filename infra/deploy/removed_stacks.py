"""Refuse to go on while a stack that the settings no longer have still has resources.

Terraform needs a stack's configuration to destroy it, so `create` and `delete` would leave all of it behind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from frazil.model.errors import SettingError
from infra.deploy.account_record import STATE, has_resources
from infra.deploy.deployment import STACKS, Deployment
from infra.deploy.snowflake_account import FILE as SNOWFLAKE_RECORD
from infra.settings import LocalState, S3State
from shared.naming import state_key

NO_STATE = frozenset({"NoSuchKey", "AccessDenied"})
"""What S3 answers for an object that does not exist, the latter to a profile that may not list the bucket."""
State = Mapping[str, Any]
"""A state file of Terraform, parsed."""


def refuse_removed_stacks(deployment: Deployment, names: Collection[str], session: Callable[[], Any]) -> None:
    """Raise SettingError if a stack that is not in `names` still has resources. `session` opens a boto3 session.

    Looks at local states and at those in S3; HCP Terraform shows a workspace with its resources itself.
    """
    left = [name for name in STACKS if name not in names and has_resources(_state(deployment, name, session))]
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


def _state(deployment: Deployment, name: str, session: Callable[[], Any]) -> State:
    """Return the state of a stack, {} if there is none."""
    backend = LocalState() if deployment.is_local else deployment.settings.backend
    file = deployment.folder / STATE / f"{name}.tfstate"
    if isinstance(backend, S3State):
        return _in_s3(session().client("s3", region_name=backend.region), backend, deployment.environment, name)
    found: State = json.loads(file.read_text(encoding="utf-8") or "{}") if file.exists() else {}
    return found if isinstance(backend, LocalState) else {}


def _in_s3(s3: Any, backend: S3State, environment: str, name: str) -> State:
    from botocore.exceptions import ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        found = s3.get_object(Bucket=backend.bucket, Key=state_key(environment, name))
    except ClientError as refused:
        if refused.response["Error"]["Code"] not in NO_STATE:
            raise
        return {}
    told: State = json.loads(found["Body"].read() or b"{}")
    return told
