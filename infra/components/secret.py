"""A secret that only this account reads, over TLS. Terraform makes it empty: no value is in its state."""

from __future__ import annotations

from collections.abc import Mapping

from infra.cdk import Construct
from infra.components.region import Region
from infra.permissions.iam import EVERYBODY, Policy, Statement
from infra.resources import aws

RECOVERY_DAYS = 30
"""How long a deleted secret of a production environment can be restored."""


def protected_secret(
    scope: Construct,
    construct_id: str,
    *,
    name: str,
    description: str,
    key_arn: str,
    region: Region,
    production: bool,
    tags: Mapping[str, str] | None = None,
) -> aws.SecretsmanagerSecret:
    secret = aws.SecretsmanagerSecret(
        scope,
        construct_id,
        name=name,
        description=description,
        kms_key_id=key_arn,
        recovery_window_in_days=RECOVERY_DAYS if production else 0,
        tags=tags,
    )
    policy = Policy((_tls_only(secret.arn), _own_account_only(secret.arn, region)))
    aws.SecretsmanagerSecretPolicy(
        scope, f"{construct_id}-policy", secret_arn=secret.arn, policy=policy.json, block_public_policy=True
    )
    return secret


def _tls_only(secret_arn: str) -> Statement:
    return Statement(
        sid="TlsOnly",
        effect="Deny",
        principal=EVERYBODY,
        actions=("secretsmanager:*",),
        resources=(secret_arn,),
        conditions={"Bool": {"aws:SecureTransport": "false"}},
    )


def _own_account_only(secret_arn: str, region: Region) -> Statement:
    """Deny all access from other accounts, even if another policy allows it."""
    return Statement(
        sid="OwnAccountOnly",
        effect="Deny",
        principal=EVERYBODY,
        actions=("secretsmanager:*",),
        resources=(secret_arn,),
        conditions={
            "StringNotEquals": {"aws:PrincipalAccount": region.account_id},
            "BoolIfExists": {"aws:PrincipalIsAWSService": "false"},
        },
    )
