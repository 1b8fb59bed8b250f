"""The AWS and Snowflake accounts that an environment is deployed to: recall them from the state, and compare AWS's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from frazil.model.errors import FrazilError
from infra.deploy.accounts import account_record
from infra.deploy.accounts.account_record import has_resources
from infra.deploy.accounts.snowflake_account import Recorded, account_from, remember
from infra.deploy.asked import Asked
from infra.deploy.deployment import Deployment
from infra.deploy.stacks.state_files import read_state
from infra.settings.model import HcpState, LocalState

WITHOUT_AWS = frozenset({"check", "policy", "recall", "services-up", "services-down", "artefacts"})
"""Steps that change and read nothing in the account; `check` reports another account as a prerequisite."""


def compare_accounts(deployment: Deployment, step: str, asked: Asked) -> None:
    """Recall the accounts that the state names, then compare that of AWS with the session's.

    Raises SettingError if the step would work on the environment in another AWS account.
    """
    if step in WITHOUT_AWS:
        return
    try:
        recall(deployment, asked)
    except FrazilError:  # a session of another account may be why a shared state cannot be read
        _refuse_another_account(deployment, asked)
        raise
    _refuse_another_account(deployment, asked)


def recall(deployment: Deployment, asked: Asked) -> None:
    """Read from the state which accounts of AWS and Snowflake an earlier `create` deployed to."""
    _recall_account(deployment, asked)
    if isinstance(deployment.settings.backend, LocalState):
        return
    stacks = asked.readable(deployment)
    if account := stacks.outputs("network").get("aws_account_id"):  # it may have been deployed anew elsewhere
        account_record.remember(account, deployment.folder)
    told = stacks.outputs("secrets").get("snowflake_account") if deployment.settings.snowflake is None else None
    if told:
        _recall_snowflake(deployment, asked, Recorded(told["organization"], told["account"], told["warehouse"] or None))


def _recall_snowflake(deployment: Deployment, asked: Asked, account: Recorded) -> None:
    """Record the account, unless its stack has no resources: then it was given up, or nothing was made there."""
    if _has_snowflake(deployment, asked, account):
        remember(account, deployment.folder)


def _has_snowflake(deployment: Deployment, asked: Asked, account: Recorded) -> bool:
    if not isinstance(deployment.settings.backend, HcpState):
        return has_resources(read_state(deployment, "snowflake", asked.session))
    settings = replace(deployment.settings, snowflake=account_from(account))
    with_account = replace(deployment, settings=settings, snowflake_is_given=True)
    return _any_managed(asked.readable(with_account).resources().get("snowflake", []))


def _recall_account(deployment: Deployment, asked: Asked) -> None:
    def outputs_of(stack: str) -> Mapping[str, Any]:
        return asked.readable(deployment).outputs(stack)

    def remains() -> bool:
        return any(_any_managed(addresses) for addresses in asked.readable(deployment).resources().values())

    shared = account_record.SharedState(outputs_of, remains)
    local = deployment.is_local
    account_record.recall(deployment.settings, deployment.folder, shared, asked.session, is_local=local)


def _any_managed(addresses: list[str]) -> bool:
    return any(not address.startswith("data.") for address in addresses)


def _refuse_another_account(deployment: Deployment, asked: Asked) -> None:
    account_record.refuse_another_account(deployment.settings, deployment.profile, deployment.folder, asked.session)
