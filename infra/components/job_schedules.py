"""Schedules of EventBridge Scheduler, which call AWS APIs as one role."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.cdk import Construct, Resource
from infra.components.region import Region
from infra.components.role import Role
from infra.permissions.iam import Policy, Statement, trust_service
from infra.resources import aws
from shared import naming

SERVICE = "scheduler.amazonaws.com"
START_JOB_RUN = "aws-sdk:emrserverless:startJobRun"
TRIED_SECONDS = 900
TRIES_AGAIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule named `word`, which calls the ARN `target` with the input `asked`.

    `time_zone` None: UTC.
    """

    word: str
    description: str
    expression: str
    target: str
    asked: Mapping[str, Any]
    time_zone: str | None = None


class JobSchedules(Construct):
    """Schedules of one group, with one role that may make all of their calls. Both are named after words."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        /,
        *,
        environment: str,
        region: Region,
        group: str = "jobs",
        role: str = "schedules",
    ) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self._region = region
        self.group = aws.SchedulerScheduleGroup(self, "group", name=naming.resource_name(environment, group))
        self._role_word = role

    def keep(self, schedules: tuple[Schedule, ...], *, may: tuple[Statement, ...], after: Sequence[Resource]) -> None:
        """Create the schedules after some resources, and delete them before these."""
        if not schedules:
            return
        role = Role(
            self,
            "acts-as",
            name=naming.resource_name(self._environment, self._role_word),
            description="Schedules of Frazil start what is due",
            trust=trust_service(SERVICE, account_id=self._region.account_id, source_arn=self.group.arn),
            policy=Policy(may),
        )
        for schedule in schedules:
            self._schedule(schedule, role, after)

    def _schedule(self, schedule: Schedule, role: Role, after: Sequence[Resource]) -> None:
        aws.SchedulerSchedule(
            self,
            schedule.word,
            name=naming.resource_name(self._environment, schedule.word),
            description=schedule.description,
            group_name=self.group.name,
            schedule_expression=schedule.expression,
            schedule_expression_timezone=schedule.time_zone,
            flexible_time_window=aws.SchedulerSchedule_FlexibleTimeWindow(mode="OFF"),
            target=aws.SchedulerSchedule_Target(
                arn=schedule.target,
                role_arn=role.arn,
                input=json.dumps(schedule.asked),
                retry_policy=aws.SchedulerSchedule_Target_RetryPolicy(
                    maximum_event_age_in_seconds=TRIED_SECONDS, maximum_retry_attempts=TRIES_AGAIN
                ),
            ),
            depends_on=[role.policy, *after],
        )


def word_of(expression: str) -> str:
    """Return the name of the schedule for an expression; another expression is another schedule."""
    return f"scheduled-{hashlib.sha256(expression.encode()).hexdigest()[:8]}"


def universal_target(region: Region) -> str:
    """Return the ARN that makes the scheduler call StartJobRun."""
    return f"arn:{region.partition}:scheduler:::{START_JOB_RUN}"
