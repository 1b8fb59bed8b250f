"""Hints for failures of a step, chosen by the error text of Terraform, a provider or AWS."""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.model.errors import ServiceError


class AwsError(ServiceError):
    """An AWS call failed: no answer, invalid credentials, or a refused request. The step is incomplete."""


TERRAFORM, OPTIONS = "{terraform}", "{options}"
"""In hints: the start of a Terraform command for the stack, and the options that select the environment."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A known failure: `pattern` is a regular expression searched for in the whole output."""

    pattern: str
    hint: str


CAUSES = (
    Cause(
        r"Cannot read the public keys of",
        "Snowflake did not answer the rotation function, or its network policy blocked the function's address; nothing "
        "was changed. If the address is blocked, add it to `snowflake.allowed_cidrs` or to the account's network "
        "policy; then rerun the same command",
    ),
    Cause(
        r"open snowflake connection|failed to connect to db|failed to auth for unknown reason|\b390144 \("
        r"|JWT token is invalid|[Ff]ree trial has ended|[Aa]ccount (is|has been|was) (suspended|locked|deleted)"
        r"|snowflakecomputing\.com.*(no such host|HTTP: 40[34])|HTTP: 40[34].*snowflakecomputing\.com",
        f"the login to Snowflake failed. If the account exists, run `scripts/deploy.sh check {OPTIONS}`, which tests "
        "its name and the key, and rerun the same command. If the account no longer exists, for example after a trial, "
        f"run `.venv/bin/python -m infra.deploy abandon-snowflake {OPTIONS}`, which takes its objects out of "
        "Terraform's state and deletes its roles in AWS; then rerun the same command",
    ),
    Cause(
        r"Error acquiring the state lock",
        "another run holds the lock: wait until it ends. If that run has died, run "
        f"`{TERRAFORM} force-unlock LOCK_ID` with the ID from the log",
    ),
    Cause(
        r"config profile \(.*\) could not be found|failed to get shared config profile",
        "the AWS profile does not exist: run `aws configure sso`, or correct --profile",
    ),
    Cause(
        r"ExpiredToken|[Tt]oken has expired|SSO session (associated|has expired)|InvalidGrantException"
        r"|No valid credential sources|failed to refresh cached credentials|InvalidClientTokenId"
        r"|Error loading SSO Token|Error when retrieving token from sso|Unable to locate credentials"
        r"|UnrecognizedClientException|Credentials were refreshed, but",
        "run `aws sso login` for your profile, then rerun the same command: it resumes where it stopped",
    ),
    Cause(
        r"TABLEFLOW_API_KEY",
        "Terraform needs the Tableflow key, also to disable Tableflow. It is in the secret "
        "`frazil/<environment>/tableflow`: HCP Terraform needs a copy (docs/hcp.md). If the secret is empty or gone, "
        "set `tableflow` again and run `scripts/deploy.sh create`, which makes a new key",
    ),
    Cause(
        r"FLINK_API_KEY|flink_api_key",
        "Terraform needs the Flink key, also to delete statements. It is in the secret "
        "`frazil/<environment>/flink`: HCP Terraform needs a copy (docs/hcp.md). If the secret is empty or gone, "
        "set `flink` again and run `scripts/deploy.sh create`, which makes a new key",
    ),
    Cause(
        r"401 Unauthorized",
        "Confluent Cloud rejected the Cloud API key: export CONFLUENT_CLOUD_API_KEY and CONFLUENT_CLOUD_API_SECRET of "
        "a valid key (`confluent api-key create --resource cloud` creates one)",
    ),
    Cause(
        r"AddressLimitExceeded",
        "the region has no Elastic IP left: ask AWS for a higher quota (EC2-VPC Elastic IPs), or release addresses; "
        "then rerun the same command. To switch `nat` with fewer addresses, set `nat_gateways: one` for one `create`",
    ),
    Cause(
        r"account must be verified before you can add new CloudFront resources",
        "AWS has not verified the account for CloudFront, whatever its permissions: open a case at AWS Support with "
        "the text of the error, and rerun the same command when it is closed. Until then, remove `link` from the specs "
        "in exports/: mails then name the files without links",
    ),
    Cause(
        r"AccessDenied|not authorized to perform|UnauthorizedOperation|403 Forbidden",
        "the profile lacks a permission: ask an administrator to grant the action named in the error, then rerun the "
        "same command",
    ),
    Cause(
        r"BucketAlreadyExists|BucketAlreadyOwnedByYou|AlreadyExists|already exists|ResourceConflict",
        "the name is already in use, by another owner or by a run whose state was lost: choose another name in the "
        "environment's file, or delete the conflicting resource",
    ),
    Cause(
        r"Failed to query available provider packages|Failed to install provider|Invalid provider registry host",
        "Terraform cannot download a provider: check the network connection, or configure a provider mirror",
    ),
    Cause(
        r"no such host|[Cc]onnection refused|i/o timeout|TLS handshake timeout|connection reset"
        r"|network is unreachable|RequestError: send request failed"
        r"|Could not connect to the endpoint|timeout on endpoint|Connection was closed before",
        "the network connection failed: rerun the same command, it resumes where it stopped",
    ),
    Cause(
        r"Unable to find remote state|No stored state was found",
        "a stack that this one depends on is not applied: run `scripts/deploy.sh create`, which applies all in order",
    ),
    Cause(
        r"Instance cannot be destroyed|prevent_destroy",
        "production environments protect resources that hold data: set `production: false` in the environment's file "
        "and rerun the command",
    ),
)


def hint_for(
    said: str, *, terraform: str = "terraform", options: str = "--profile=PROFILE --environment=NAME"
) -> str | None:
    """Return the hint of the first known cause found in the output, or None.

    `terraform` is the start of a Terraform command for the stack, `options` those that select the environment.
    """
    found = next((cause.hint for cause in CAUSES if re.search(cause.pattern, said)), None)
    return found and found.replace(TERRAFORM, terraform).replace(OPTIONS, options)


def of_aws(problem: Exception, step: str) -> AwsError | None:
    """Convert a botocore exception to an AwsError; return None for any other exception."""
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

    if not isinstance(problem, (BotoCoreError, ClientError)):
        return None
    said = " ".join(str(problem).split())
    return AwsError(
        f"the step {step} failed: {type(problem).__name__}: {said[:600]}",
        hint=hint_for(said) or "run `scripts/deploy.sh check`, fix what it reports, and rerun the same command",
    )
