"""Stop if a stack that was removed from the settings still has resources.

Terraform needs a stack's configuration to destroy it, so `create` and `delete` would leave all of it behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from frazil.model.errors import SettingError
from infra.deploy.accounts.account_record import has_resources
from infra.deploy.deployment import STACKS, Deployment
from infra.deploy.stacks.state_files import read_state


def refuse_removed_stacks(deployment: Deployment, names: Collection[str], session: Callable[[], Any]) -> None:
    """Raise SettingError if a stack that is not in `names` still has resources. `session` opens a boto3 session.

    Looks at local states and at those in S3; HCP Terraform shows a workspace with its resources itself.
    """
    left = [name for name in STACKS if name not in names and has_resources(read_state(deployment, name, session))]
    if left:
        stacks = ", ".join(left)
        raise SettingError(
            f"the settings of {deployment.environment} no longer have the stack {stacks}, which still has resources",
            hint=_hint(deployment, left),
        )


def _hint(deployment: Deployment, left: list[str]) -> str:
    file = deployment.settings.source_file
    if left == ["exports"]:
        destroy = deployment.step("destroy exports")
        return f"restore `exports` in {file} and run `{destroy}`; then remove `exports` again. Files and manifests stay"
    if left != ["snowflake"]:
        delete = f"scripts/deploy.sh delete {deployment.options}"
        return f"restore `kafka.confluent` in {file}; to change to another Kafka, first run `{delete}`"
    destroy, abandon = deployment.step("destroy snowflake"), deployment.step("abandon-snowflake")
    return (
        f"restore `snowflake` in {file} and run `{destroy}`, with SNOWFLAKE_PRIVATE_KEY set; then remove `snowflake` "
        "again and rerun the same command. If the Snowflake account itself is gone, run "
        f"`{abandon}` instead, which deletes its roles in AWS"
    )
