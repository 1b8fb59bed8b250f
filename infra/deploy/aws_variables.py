"""The AWS variables of a shell that would take precedence over the profile."""

from __future__ import annotations

import re
from collections.abc import Iterable

CREDENTIALS = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_ENDPOINT_URL",
)
SERVICE_ENDPOINT = "AWS_ENDPOINT_URL_[A-Za-z0-9_]+|(TF_)?AWS_[A-Za-z0-9_]+_ENDPOINT"
"""A pattern, for Python and for sed, of the variables that set the endpoint of one service."""
KEPT_ENDPOINTS = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT")
"""The address at which a machine of EC2 asks for credentials, which a profile may use, and two switches."""


def overruling(shell: Iterable[str]) -> tuple[str, ...]:
    """Return the names to unset in a shell with these variables."""
    endpoints = (name for name in shell if re.fullmatch(SERVICE_ENDPOINT, name) and name not in KEPT_ENDPOINTS)
    return (*CREDENTIALS, *endpoints)


def unset_command() -> str:
    """Return the command of a shell that unsets these names."""
    endpoints = f"env | sed -nE 's/^({SERVICE_ENDPOINT})=.*/\\1/p' | grep -vxE '{'|'.join(KEPT_ENDPOINTS)}'"
    return f"unset {' '.join(CREDENTIALS)} $({endpoints})"
