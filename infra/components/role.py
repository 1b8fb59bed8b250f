"""An IAM role with its policy."""

from __future__ import annotations

from infra.cdk import Construct
from infra.permissions.iam import Policy
from infra.resources import aws


class Role(Construct):
    """An IAM role with an inline policy.

    What acts as the role must depend on `policy` too, or it may act before it is allowed to.
    """

    def __init__(
        self, scope: Construct, construct_id: str, /, *, name: str, description: str, trust: Policy, policy: Policy
    ) -> None:
        super().__init__(scope, construct_id)
        self.role = aws.IamRole(self, "role", name=name, description=description, assume_role_policy=trust.json)
        self.policy = aws.IamRolePolicy(self, "policy", name=name, role=self.role.id, policy=policy.json)
        self.arn = self.role.arn
        self.name = self.role.name
