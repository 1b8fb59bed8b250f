"""A CloudWatch log group."""

from __future__ import annotations

from infra.cdk import Construct
from infra.permissions.iam import Statement
from infra.resources import aws


class LogGroup(Construct):
    """An encrypted log group with a retention, unlike the groups that AWS services create themselves."""

    def __init__(self, scope: Construct, construct_id: str, /, *, name: str, key_arn: str, retention_days: int) -> None:
        super().__init__(scope, construct_id)
        self.group = aws.CloudwatchLogGroup(
            self, "group", name=name, kms_key_id=key_arn, retention_in_days=retention_days
        )
        self.name = self.group.name
        self.arn = self.group.arn

    @property
    def writing(self) -> Statement:
        """Return the permissions to write to the group, but not to create it, so that a deleted group stays deleted."""
        return Statement(
            sid="WriteLogs",
            actions=("logs:CreateLogStream", "logs:PutLogEvents"),
            resources=(f"{self.arn}:log-stream:*",),
        )
