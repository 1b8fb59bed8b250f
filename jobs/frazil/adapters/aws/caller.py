"""The AWS identity of this process, and AWS's clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from frazil.model.errors import ServiceError
from frazil.model.secret import SettingValue, revealed

OF_A_SESSION = {
    "region_name": "region",
    "profile_name": "profile-name",
    "aws_access_key_id": "access-key-id",
    "aws_secret_access_key": "secret-access-key",
    "aws_session_token": "session-token",
}
SERVICES = ("glue", "client", "s3")
"""Prefixes of the catalog's settings that may hold credentials; earlier ones take precedence.

Without such settings, the process's default credentials are used.
"""


@dataclass(frozen=True, slots=True)
class Caller:
    arn: str
    account: str
    region: str
    told_at: datetime | None


def who_am_i(catalog: Mapping[str, SettingValue], *, seconds: float) -> Caller:
    """Return whose the AWS credentials are, without needing permissions. Raises ServiceError if AWS does not answer."""
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - slow, and only AWS needs it
    from botocore.config import Config  # type: ignore[import-untyped]  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

    bounded = Config(connect_timeout=seconds, read_timeout=seconds, retries={"total_max_attempts": 1})
    try:
        session = boto3.Session(**session_options(catalog))
        identity: Mapping[str, Any] = session.client("sts", config=bounded).get_caller_identity()
    except (ClientError, BotoCoreError) as problem:
        raise ServiceError(
            f"could not look up the AWS identity (sts:GetCallerIdentity): {problem}", hint=_hint(problem)
        ) from problem
    date = identity["ResponseMetadata"]["HTTPHeaders"].get("date")
    return Caller(
        arn=identity["Arn"],
        account=identity["Account"],
        region=session.region_name or "no region",
        told_at=None if date is None else parsedate_to_datetime(date),
    )


def session_options(catalog: Mapping[str, SettingValue]) -> dict[str, str]:
    given = revealed(catalog)
    found = {option: [given.get(f"{service}.{key}") for service in SERVICES] for option, key in OF_A_SESSION.items()}
    return {option: value for option, values in found.items() for value in values[::-1] if value}


def _hint(problem: Exception) -> str:
    return {
        "NoRegionError": "set AWS_REGION, or `client.region` under `catalog`",
        "NoCredentialsError": "run `aws configure sso`, or set AWS_PROFILE; on EMR Serverless, check the job role",
        "ProfileNotFound": "run `aws configure list-profiles`, and set AWS_PROFILE to one of them",
        "EndpointConnectionError": "check that this network can reach AWS, by a NAT gateway or a VPC endpoint for sts",
        "ReadTimeoutError": "the endpoint accepts connections but does not answer: check proxies and AWS_ENDPOINT_URL",
        "ConnectTimeoutError": "check that this network can reach AWS, by a NAT gateway or a VPC endpoint for sts",
    }.get(type(problem).__name__, "run `aws sts get-caller-identity`; if the session has expired, run `aws sso login`")
