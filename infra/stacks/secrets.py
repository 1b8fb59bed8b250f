"""Where API keys are kept: one secret an account, made empty.

What is in them comes from elsewhere and never passes through Terraform, which would write it into its state.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra import naming
from infra.backends import keep_state
from infra.cdk import App, Output, Stack
from infra.components.region import Region, enter_region
from infra.iam import EVERYBODY, Policy, Statement
from infra.naming import Account
from infra.resources import aws
from infra.settings import EnvironmentSettings
from infra.stacks.kafka import Kafka
from infra.stacks.lake import LakeStack

RECOVERY_DAYS = 30


@dataclass(frozen=True, slots=True)
class Secret:
    """`arn` is for policies: of a secret that is not ours it leaves open the six letters that AWS appended."""

    name: str
    arn: str


class SecretsStack(Stack):
    """A secret for each account that has a key of ours; none for a Kafka that brings its own."""

    def __init__(self, app: App, settings: EnvironmentSettings, *, lake: LakeStack, kafka: Kafka) -> None:
        super().__init__(app, "secrets")
        keep_state(self, settings)
        self._region = enter_region(self, settings)
        self._made = {account: self._secret(account, settings, lake) for account in kafka.accounts}
        if self._made:
            Output(self, "secrets", value={account: secret.name for account, secret in self._made.items()})

    def of_account(self, account: Account) -> Secret:
        """The secret with this account's key."""
        return self._made[account]

    def named(self, name: str) -> Secret:
        """A secret of ours, or of others who filled it before."""
        ours = {secret.name: secret for secret in self._made.values()}
        return ours.get(name) or Secret(name, self._region.arn("secretsmanager", f"secret:{name}-??????"))

    def _secret(self, account: Account, settings: EnvironmentSettings, lake: LakeStack) -> Secret:
        name = naming.secret_name(settings.environment, account)
        secret = aws.SecretsmanagerSecret(
            self,
            account,
            name=name,
            description=f"API keys of the service account {account}",
            kms_key_id=lake.key_arn,
            recovery_window_in_days=RECOVERY_DAYS if settings.production else 0,
        )
        policy = Policy((_tls_only(secret.arn), _own_account_only(secret.arn, self._region)))
        aws.SecretsmanagerSecretPolicy(
            self, f"{account}-policy", secret_arn=secret.arn, policy=policy.json, block_public_policy=True
        )
        return Secret(name, secret.arn)


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
    """A role of another account reads nothing, whoever allows it."""
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
