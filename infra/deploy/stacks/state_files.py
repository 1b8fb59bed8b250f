"""Read Terraform's state of one stack without Terraform: from a local file, or from S3."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from infra.deploy.accounts.account_record import STATE
from infra.deploy.deployment import Deployment
from infra.settings.model import LocalState, S3State
from infra.terraform.states import State
from shared.naming import state_key

NO_STATE = frozenset({"NoSuchKey", "AccessDenied"})
"""What S3 answers for an object that does not exist, the latter to a profile that may not list the bucket."""
Session = Callable[[], Any]
"""Opens a boto3 session."""


def read_state(deployment: Deployment, name: str, session: Session) -> State:
    """Return the state of a stack; {} if there is none, or if HCP Terraform has it."""
    backend = deployment.settings.backend
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
