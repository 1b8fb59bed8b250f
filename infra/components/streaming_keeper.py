"""The function that starts, replaces and stops the streaming job run, and its invocation by Terraform."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from infra.cdk import Construct
from infra.components.job_request import Request
from infra.components.python_lambda import Function, PythonLambda
from infra.components.role import Role
from infra.permissions.of_roles import KEEPER, PolicyTarget, Scope, statements
from infra.resources import aws
from infra.settings.model import EnvironmentSettings
from shared import naming

FOLDER = Path(__file__).parents[2] / "lambdas" / "streaming_job"
SECONDS = 900
"""The most that Lambda allows: a run that is cancelled first finishes the batches that are on their way."""


class StreamingKeeper(Construct):
    """The function of lambdas/streaming_job, invoked in each apply that changes the wanted run.

    An application takes no change while a run is on. So whatever changes it undoes the invocation before, which stops
    all runs, and does it again after. `asked` is the event.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        /,
        *,
        settings: EnvironmentSettings,
        application: aws.EmrserverlessApplication,
        job_role: Role,
        key_arn: str,
        wanted: Request | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.asked: dict[str, Any] = {"application_id": application.id, "wanted": wanted}
        function = PythonLambda(
            self,
            "function",
            Function(
                name=naming.resource_name(settings.environment, "streaming-job"),
                description="Starts, replaces and stops the streaming job run of Frazil",
                code=FOLDER,
                timeout_seconds=SECONDS,
            ),
            may=statements(KEEPER, run_scopes(application.arn, job_role.arn)),
            key_arn=key_arn,
            log_retention_days=settings.log_retention_days,
        )
        self.arn = function.arn
        self.name = function.name
        self.kept = aws.LambdaInvocation(
            self,
            "kept",
            function_name=function.name,
            input=json.dumps(self.asked),
            lifecycle_scope="CRUD",
            depends_on=[function.ready, job_role.policy],
            replace_triggered_by=[application],
        )


def run_scopes(application_arn: str, job_role_arn: str) -> dict[PolicyTarget, Scope]:
    """Return the resources needed to start job runs. The role can be passed to EMR Serverless only."""
    passed = {"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}}
    return {
        PolicyTarget.APPLICATION: Scope((application_arn,)),
        PolicyTarget.JOB_RUNS: Scope((f"{application_arn}/jobruns/*",)),
        PolicyTarget.JOB_ROLE: Scope((job_role_arn,), passed),
    }
