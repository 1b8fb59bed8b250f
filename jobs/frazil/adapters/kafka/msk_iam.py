"""Proves to Amazon MSK who asks, by the IAM role of the process: `aws_msk_iam: true` instead of a password.

MSK takes it as SASL/OAUTHBEARER, whose token is a request to `kafka-cluster:Connect` that is signed with the role's
credentials and valid for 15 minutes. Before that, librdkafka asks a client in Python for the next one; for the native
reader, a thread sets it (`batch_consumer.TokenRenewal`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from frazil.model.errors import BrokerError, SettingError

_BROKER = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com", re.IGNORECASE)


def oauthbearer(bootstrap_servers: str, env: Mapping[str, str]) -> dict[str, object]:
    """Return the settings of librdkafka for MSK's IAM. Raises SettingError if nothing names the cluster's region."""
    region = region_of(bootstrap_servers, env)
    return {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: new_token(region),
    }


def for_this_process(bootstrap_servers: str) -> dict[str, object]:
    return oauthbearer(bootstrap_servers, os.environ)


def region_of(bootstrap_servers: str, env: Mapping[str, str]) -> str:
    """Return the region in the brokers' names, or that of the process if they have custom names.

    Raises SettingError if neither names a region.
    """
    named = _BROKER.search(bootstrap_servers)
    region = named[1].lower() if named else env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")
    if region is None:
        raise SettingError(
            f"kafka.aws_msk_iam: the AWS region of {bootstrap_servers} is unknown",
            hint="set AWS_REGION, or use the brokers' own host names, which end with .amazonaws.com",
        )
    return region


def new_token(region: str) -> tuple[str, float]:
    """A token, and when it ends, in seconds since 1970. Raises BrokerError where the process has no credentials."""
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 - slow, and only MSK needs it

    try:
        token, ends_ms = MSKAuthTokenProvider.generate_auth_token(region)
    except Exception as error:
        raise BrokerError(
            f"could not sign an MSK token for {region}: {error}",
            hint="run `aws sts get-caller-identity`: the process needs IAM credentials, such as the EMR"
            " Serverless job role",
        ) from error
    return token, ends_ms / 1000
