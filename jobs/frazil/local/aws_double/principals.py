"""Principals of calls: find the role of an access key, and create sessions of roles for job runs and functions.

As in AWS, a job run or a Lambda function gets a session of its role if the role trusts the service. moto stores the
sessions; it does not check their permissions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.iam.exceptions import NotFoundException
from moto.iam.models import get_account_id_from, iam_backends
from moto.sts.models import sts_backends

PARTITION = "aws"
USER = "user"
SESSION_SECONDS = 12 * 3600
_SCOPE = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/aws4_request")


@dataclass(frozen=True, slots=True)
class Signature:
    """The parts of a request's signature: the access key, the region and the signing name of the service."""

    access_key: str
    region: str
    service: str

    @property
    def account(self) -> str:
        return str(get_account_id_from(self.access_key))


@dataclass(frozen=True, slots=True)
class Session:
    """Temporary credentials of a role."""

    role: str
    access_key: str
    secret_key: str
    token: str

    def as_environment(self) -> Mapping[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_SESSION_TOKEN": self.token,
        }

    def as_client_options(self) -> Mapping[str, str]:
        return {
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "aws_session_token": self.token,
        }


class NotAssumableError(Exception):
    """The role does not exist, or does not trust the service."""


def read_signature(authorization: str) -> Signature | None:
    """Read the signature from an `Authorization` header, or from `X-Amz-Credential` in the same form."""
    found = _SCOPE.search(authorization)
    return Signature(found[1], found[2], found[3]) if found else None


def principal(access_key: str) -> str:
    """Return the ARN of the role whose session has this access key, or `user` for any other key."""
    account = str(get_account_id_from(access_key))
    session = sts_backends[account][PARTITION].get_assumed_role_from_access_key(access_key)
    return str(session.role_arn) if session else USER


def caller_arn(signature: Signature) -> str:
    """Return the caller's ARN as `aws sts get-caller-identity` shows it."""
    backend = sts_backends[signature.account][PARTITION]
    return str(backend.get_caller_identity(signature.access_key, signature.region)[1])


def assume(role: str, *, service: str, session_name: str) -> Session:
    """Create a session of the role as `service` (such as `lambda.amazonaws.com`) would. Raises NotAssumableError."""
    account = role.split(":")[4]
    _refuse_without_trust(role, account, service)
    session = sts_backends[account][PARTITION].assume_role(
        region_name=PARTITION,
        role_session_name=session_name,
        role_arn=role,
        policy=None,
        duration=SESSION_SECONDS,
        external_id=None,
    )
    return Session(role, session.access_key_id, session.secret_access_key, session.session_token)


def _refuse_without_trust(role: str, account: str, service: str) -> None:
    try:
        found = iam_backends[account][PARTITION].get_role_by_arn(role)
    except NotFoundException as exc:
        raise NotAssumableError(f"The role {role} does not exist.") from exc
    trusted = [entry for statement in _statements(found) for entry in _trusted_services(statement)]
    if service not in trusted:
        raise NotAssumableError(
            f"The role {role} does not let {service} assume it; it trusts {trusted or 'no service'}."
        )


def _statements(role: Any) -> list[Any]:
    return _listed(json.loads(role.assume_role_policy_document).get("Statement"))


def _trusted_services(statement: Mapping[str, object]) -> list[Any]:
    allows = statement.get("Effect") == "Allow" and "sts:AssumeRole" in _listed(statement.get("Action"))
    named = statement.get("Principal")
    return _listed(named.get("Service")) if allows and isinstance(named, Mapping) else []


def _listed(value: object) -> list[Any]:
    """Return a list: IAM policies may give a single value instead of a list of one."""
    return value if isinstance(value, list) else [] if value is None else [value]
