"""What AWS's library raises under a step becomes a sentence with what to do, at the one edge of all steps."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import boto3
import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ProfileNotFound,
    SSOTokenLoadError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

from infra.deploy.__main__ import run
from infra.terraform.causes import hint_for, of_aws

SSO = """
[profile me]
sso_session = mine
sso_account_id = 123456789012
sso_role_name = admin
[sso-session mine]
sso_region = us-east-1
sso_start_url = https://example.awsapps.com/start
"""
DENIED = ClientError(
    {"Error": {"Code": "AccessDeniedException", "Message": "User me is not authorized to perform: x:Y"}}, "ListSecrets"
)


@pytest.fixture
def own_environment(tmp_path: Path) -> Iterator[None]:
    """A step gives its process the account's credentials. Log handlers of earlier tests write to closed streams."""
    (tmp_path / "config").write_text(SSO)
    files = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none")}
    handlers = patch.object(logging.getLogger(), "handlers", [logging.NullHandler()])
    with handlers, patch.dict(os.environ, {**files, "HOME": str(tmp_path)}):
        yield


@pytest.mark.usefixtures("own_environment")
@pytest.mark.parametrize(
    ("profile", "name", "hint"),
    [("nobdy", "ProfileNotFound", "aws configure sso"), ("me", "SSOTokenLoadError", "aws sso login")],
)
def test_a_step_says_what_is_wrong_with_the_profile(
    profile: str, name: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(["free-names", f"--profile={profile}", "--environment=dev"])

    told = capsys.readouterr().err
    assert status == 1
    assert told.startswith(f"AwsError: the step free-names failed: {name}: ")
    assert hint in told.split("hint: ")[1]


@pytest.mark.usefixtures("own_environment")
def test_what_is_not_of_aws_keeps_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def defect() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(boto3, "Session", defect)

    with pytest.raises(ZeroDivisionError):
        run(["free-names", "--profile=me", "--environment=dev"])


@pytest.mark.parametrize(
    ("problem", "hint"),
    [
        (ProfileNotFound(profile="nobdy"), "correct --profile"),
        (SSOTokenLoadError(error_msg="Token for mine does not exist"), "aws sso login"),
        (TokenRetrievalError(provider="sso", error_msg="Token has expired and refresh failed"), "aws sso login"),
        (UnauthorizedSSOTokenError(), "aws sso login"),
        (NoCredentialsError(), "aws sso login"),
        (DENIED, "lacks a permission"),
        (EndpointConnectionError(endpoint_url="https://s3.example.com/"), "the network connection failed"),
        (ClientError({"Error": {"Code": "Odd", "Message": "new"}}, "ListSecrets"), "deploy.sh check"),
    ],
)
def test_each_kind_of_trouble_has_its_hint(problem: Exception, hint: str) -> None:
    told = of_aws(problem, "inventory")

    assert told is not None
    assert hint in told.hint


SNOWFLAKE_IS_GONE = (
    "Error: open snowflake connection: 390144 (08004): JWT token is invalid. [0ce9eb56-821d-4ca9-a774-04ae89a0cf5a]",
    "Error: open snowflake connection: 261004 (08004): failed to auth for unknown reason. HTTP: 404, URL: "
    "https://ACME-LAKE.snowflakecomputing.com:443/session/v1/login-request?request_id=0&roleName=FRAZIL",
    "Error: open snowflake connection: 260004 (08004): failed to connect to db. verify account name is correct. "
    "HTTP: 403, URL: https://ACME-LAKE.snowflakecomputing.com",
    "Error: 000666 (57014): Your free trial has ended and all of your virtual warehouses have been suspended.",
    'Error: open snowflake connection: Post "https://ACME-LAKE.snowflakecomputing.com:443/session": dial tcp: lookup '
    "ACME-LAKE.snowflakecomputing.com: no such host",
)


@pytest.mark.parametrize("said", SNOWFLAKE_IS_GONE)
def test_a_snowflake_account_that_does_not_answer_has_a_way_out(said: str) -> None:
    hint = hint_for(said, options="--profile=me --environment=dev")

    assert hint is not None
    assert "`.venv/bin/python -m infra.deploy abandon-snowflake --profile=me --environment=dev`" in hint


@pytest.mark.parametrize(
    "said",
    [
        "Error: lookup kms.us-east-1.amazonaws.com: no such host",
        "Error: api error ExpiredToken, HTTP: 403",
        "Error: arn:aws:iam::390144123456:role/x is not authorized to perform: AccessDenied",
        "snowflake_database.x: Creation complete\nError: lookup kms.us-east-1.amazonaws.com: no such host",
    ],
)
def test_other_failures_are_not_blamed_on_snowflake(said: str) -> None:
    assert "abandon-snowflake" not in (hint_for(said) or "")


def test_an_account_that_aws_has_not_verified_for_cloudfront_is_not_blamed_on_permissions() -> None:
    hint = hint_for(
        "Error: creating CloudFront Distribution: operation error CloudFront: CreateDistributionWithTags, "
        "StatusCode: 403, AccessDenied: Your account must be verified before you can add new CloudFront resources."
    )

    assert hint is not None
    assert "AWS Support" in hint
    assert "lacks a permission" not in hint


def test_a_key_that_confluent_cloud_does_not_know_is_told_apart_from_a_session_of_aws() -> None:
    hint = hint_for('Error: error creating Environment "frazil-dev-kafka": 401 Unauthorized: Unauthorized')

    assert hint is not None
    assert "export CONFLUENT_CLOUD_API_KEY" in hint
