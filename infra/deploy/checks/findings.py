"""Collect what `check` finds: tools, credentials and keys that this deployment needs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from infra.deploy.checks.cloud_key import of_confluent
from infra.deploy.checks.prerequisites import (
    Prerequisite,
    of_the_account,
    of_the_aws_cli,
    of_the_confluent_cli,
    of_this_machine,
    quietly,
)
from infra.deploy.checks.snowflake_key import log_in, of_snowflake
from infra.deploy.deployment import Deployment
from shared.confluent_api import KEY_VARIABLE, ConfluentCloud


def findings_of(deployment: Deployment, session: Callable[[], Any]) -> list[Prerequisite]:
    """Return the result of every check. `session` opens a boto3 session."""
    cloud, target = deployment.cloud, deployment.target
    findings = list(of_this_machine(deployment.checkout, target, quietly, native_required=cloud.native_required))
    if cloud.needs_credentials:
        account = list(of_the_account(session, deployment.profile, deployment.settings.account_id))
        logged_in = all(each.is_met for each in account)
        findings += [*account, of_the_aws_cli(quietly, deployment.profile, logged_in=logged_in)]
    if deployment.has_confluent and cloud.needs_credentials:
        key = of_confluent(ConfluentCloud, os.environ)
        findings += [key, of_the_confluent_cli(quietly, key_given=KEY_VARIABLE in os.environ)]
    if deployment.settings.snowflake is not None and deployment.needs_snowflake_key:
        abandon = deployment.step("abandon-snowflake")
        findings.append(of_snowflake(deployment.settings.snowflake, os.environ, log_in, abandon=abandon))
    return findings
