"""The function that rotates keys, and the schedule on which Secrets Manager calls it for each secret."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra.cdk import Construct, Fn, Resource
from infra.components.python_lambda import Function, PythonLambda
from infra.components.region import Region
from infra.permissions.of_roles import ROTATION, WITH_CLOUD_KEY, PolicyTarget, Scope, statements
from infra.resources import aws
from infra.settings.model import EnvironmentSettings
from shared import naming

FOLDER = Path(__file__).parents[2] / "lambdas" / "rotate_keys"
CALLER = "secretsmanager.amazonaws.com"
SECONDS = 900
"""The most that Lambda allows: a new API key takes minutes to work, and a step waits for it."""
MEMORY_MB = 512


@dataclass(frozen=True, slots=True)
class Code:
    """The package of lambdas/rotate_keys. `doubles`: variables with the addresses of doubles on this machine.

    `zip` is None if nothing is packed here; that is enough to read a stack's outputs or to destroy it.
    """

    zip: Path | None = None
    doubles: Mapping[str, str] = field(default_factory=dict)


NOT_PACKED = Code()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The secrets that the function may touch, by ARN: those that it rotates, and those that it reads to do so."""

    rotated: Sequence[str]
    read: Sequence[str]


class KeyRotation(Construct):
    """The function of lambdas/rotate_keys. Secrets Manager may call it, for this account alone."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        /,
        *,
        settings: EnvironmentSettings,
        region: Region,
        key_arn: str,
        code: Code,
        variables: Mapping[str, str],
        kept: Kept,
    ) -> None:
        super().__init__(scope, construct_id)
        self._days = settings.rotation.days
        self.function = PythonLambda(
            self,
            "function",
            Function(
                name=naming.resource_name(settings.environment, "rotate-keys"),
                description="Rotates the keys of Frazil",
                code=code.zip or FOLDER,
                timeout_seconds=SECONDS,
                memory_mb=MEMORY_MB,
                environment={**variables, **code.doubles},
            ),
            may=statements(ROTATION | (WITH_CLOUD_KEY if kept.read else frozenset()), _scopes(kept, region, key_arn)),
            key_arn=key_arn,
            log_retention_days=settings.log_retention_days,
        )
        self.arn, self.name = self.function.arn, self.function.name
        self.log_group_name = self.function.log_group.name
        self._may_call = aws.LambdaPermission(
            self,
            "called-by-secrets-manager",
            statement_id="SecretsManager",
            action="lambda:InvokeFunction",
            function_name=self.name,
            principal=CALLER,
            source_account=region.account_id,
        )

    def first_key(self, construct_id: str, secret: aws.SecretsmanagerSecret) -> aws.LambdaInvocation:
        """Make the first key of a secret. The function's answer, which is in the state, has only the public key."""
        return aws.LambdaInvocation(
            self,
            f"first-key-of-{construct_id}",
            function_name=self.name,
            input=json.dumps({"SecretId": secret.arn, "Step": "firstKey"}),
            depends_on=[self.function.ready],
        )

    def keep_rotating(
        self, construct_id: str, secret: aws.SecretsmanagerSecret, *, after: Sequence[aws.LambdaInvocation] = ()
    ) -> None:
        """Rotate a secret on schedule; the first rotation is `days` after the apply, when the secret has a value."""
        ready = [self._may_call, self.function.ready, *after]
        rotate_by_calendar(self, construct_id, secret, function_arn=self.arn, days=self._days, depends_on=ready)


def rotate_by_calendar(
    scope: Construct,
    construct_id: str,
    secret: aws.SecretsmanagerSecret,
    *,
    function_arn: str,
    days: int,
    depends_on: Sequence[Resource] = (),
) -> None:
    """Switch on rotation. The secret must have a value: otherwise, Secrets Manager refuses it or tests nothing."""
    aws.SecretsmanagerSecretRotation(
        scope,
        construct_id,
        secret_id=secret.id,
        rotation_lambda_arn=function_arn,
        rotate_immediately=False,
        rotation_rules=aws.SecretsmanagerSecretRotation_RotationRules(automatically_after_days=days),
        depends_on=list(depends_on),
    )


@dataclass(frozen=True, slots=True)
class PublicKeys:
    """The public keys in a Snowflake user's two slots: Terraform references, null for an empty slot."""

    first: str
    second: str


@dataclass(frozen=True, slots=True)
class UserKeys:
    """The source of a Snowflake user's public keys: the function that rotates them, and their secret."""

    function_name: str
    secret_arn: str

    def ask(self, scope: Construct, construct_id: str) -> PublicKeys:
        """Read the keys at each plan: a recreated user or secret gets the current key, and a rotation is no change."""
        asked = {"SecretId": self.secret_arn, "Step": "installedKeys"}
        told = aws.DataLambdaInvocation(
            scope, construct_id, function_name=self.function_name, input=json.dumps(asked)
        ).result
        first, second = (
            str(Fn.one(Fn.compact([Fn.lookup(Fn.jsondecode(told), slot)])))
            for slot in ("RSA_PUBLIC_KEY", "RSA_PUBLIC_KEY_2")
        )
        return PublicKeys(first, second)


def _scopes(kept: Kept, region: Region, key_arn: str) -> dict[PolicyTarget, Scope]:
    return {
        PolicyTarget.ROTATED: Scope(tuple(kept.rotated)),
        PolicyTarget.SECRETS: Scope(tuple(kept.read)),
        PolicyTarget.KEY_UNDER_SECRETS: Scope((key_arn,), region.through("secretsmanager")),
    }
