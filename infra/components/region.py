"""The AWS account and region of a stack."""

from __future__ import annotations

from dataclasses import dataclass

from infra.cdk import Stack
from infra.permissions.iam import Conditions
from infra.resources import aws
from infra.settings.model import EnvironmentSettings
from shared import naming

DOMAIN = "amazonaws.com"


@dataclass(frozen=True, slots=True)
class Region:
    """A region. `account_id` is a Terraform reference to the account of the current credentials."""

    name: str
    account_id: str

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource in this account and region."""
        return f"arn:{self.partition}:{service}:{self.name}:{self.account_id}:{resource}"

    @property
    def root(self) -> str:
        """The account itself, as a principal."""
        return f"arn:{self.partition}:iam::{self.account_id}:root"

    @property
    def partition(self) -> str:
        return naming.partition_of(self.name)

    @property
    def logs_principal(self) -> str:
        """CloudWatch Logs as the principal of a policy; in China it has the ending of that partition's addresses."""
        return f"logs.{self.name}.{DOMAIN}{self._ending}"

    def through(self, service: str) -> Conditions:
        """Return the condition that a key is used only through the service whose data it encrypts.

        In China both endings are allowed: each names this service alone, and AWS documents neither for it.
        """
        usual = f"{service}.{self.name}.{DOMAIN}"
        return {"StringEquals": {"kms:ViaService": (usual, f"{usual}{self._ending}") if self._ending else usual}}

    @property
    def _ending(self) -> str:
        return ".cn" if self.partition == "aws-cn" else ""


def enter_region(stack: Stack, settings: EnvironmentSettings) -> Region:
    """Add the AWS provider, which tags every resource; called once in each stack with AWS resources."""
    tags = naming.tags(settings.environment, stack.node.id, settings.tags)
    aws.Provider(
        stack,
        "aws",
        region=settings.region,
        allowed_account_ids=[settings.account_id] if settings.account_id else None,
        default_tags=aws.Provider_DefaultTags(tags=tags),
    )
    return Region(settings.region, aws.DataCallerIdentity(stack, "caller").account_id)
