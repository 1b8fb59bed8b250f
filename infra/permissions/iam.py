"""Policies as values, and the JSON that AWS takes, always in one order so that a plan shows what really changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Effect = Literal["Allow", "Deny"]
Conditions = Mapping[str, Mapping[str, str | tuple[str, ...]]]
VERSION = "2012-10-17"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who: services (`lambda.amazonaws.com`), ARNs of accounts or roles; neither of both is everybody."""

    services: tuple[str, ...] = ()
    arns: tuple[str, ...] = ()

    def document(self) -> object:
        kinds = {"AWS": self.arns, "Service": self.services}
        return {kind: _one_or_many(names) for kind, names in kinds.items() if names} or "*"


EVERYBODY = Principal()


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What may be done to what. `resources` is empty in a trust document alone, which has its role as resource."""

    actions: tuple[str, ...]
    resources: tuple[str, ...] = ()
    principal: Principal | None = None
    conditions: Conditions = field(default_factory=dict, hash=False)
    effect: Effect = "Allow"
    sid: str = ""

    def document(self) -> dict[str, object]:
        parts: dict[str, object] = {
            "Sid": self.sid,
            "Effect": self.effect,
            "Principal": self.principal and self.principal.document(),
            "Action": _one_or_many(tuple(sorted(self.actions))),
            "Resource": _one_or_many(self.resources),
            "Condition": {
                operator: {key: _one_or_many(values) for key, values in sorted(keys.items())}
                for operator, keys in sorted(self.conditions.items())
            },
        }
        return {name: part for name, part in parts.items() if part}


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy of a role or of a resource."""

    statements: tuple[Statement, ...]

    @property
    def json(self) -> str:
        document = {"Version": VERSION, "Statement": [statement.document() for statement in self.statements]}
        return json.dumps(document)


def trust_service(service: str, *, account_id: str = "", source_arn: str = "") -> Policy:
    """Return the trust policy of a role: a service, limited to this account or to one resource if given.

    Without it, another account could point the service at our role (the confused deputy).
    """
    equals = {"aws:SourceAccount": account_id} if account_id else {}
    like = {"aws:SourceArn": source_arn} if source_arn else {}
    conditions = {name: keys for name, keys in (("StringEquals", equals), ("ArnLike", like)) if keys}
    return Policy(
        (Statement(actions=("sts:AssumeRole",), principal=Principal(services=(service,)), conditions=conditions),)
    )


def trust_external(principal_arn: str, external_id: str) -> Policy:
    """Trust another account's role that presents the external id, as Confluent's and Snowflake's do."""
    principal = Principal(arns=(principal_arn,))
    shown = {"StringEquals": {"sts:ExternalId": external_id}}
    return Policy((Statement(actions=("sts:AssumeRole", "sts:TagSession"), principal=principal, conditions=shown),))


def tls_only(bucket_arn: str) -> Statement:
    """Deny all access to a bucket without TLS."""
    return Statement(
        sid="TlsOnly",
        effect="Deny",
        principal=EVERYBODY,
        actions=("s3:*",),
        resources=(bucket_arn, f"{bucket_arn}/*"),
        conditions={"Bool": {"aws:SecureTransport": "false"}},
    )


def _one_or_many(values: str | tuple[str, ...]) -> str | list[str]:
    if isinstance(values, str):
        return values
    return values[0] if len(values) == 1 else list(values)
