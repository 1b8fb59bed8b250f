"""The AWS and Snowflake accounts that an environment is deployed to: recall them from the state, and compare AWS's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from frazil.model.errors import FrazilError
from infra.deploy.accounts import account_record
from infra.deploy.accounts.account_record import has_resources
from infra.deploy.accounts.snowflake_account import Recorded, account_from, forget, recorded, remember
from infra.deploy.asked import Asked
from infra.deploy.console import tell
from infra.deploy.deployment import Deployment
from infra.deploy.stacks.state_files import read_state
from infra.settings.model import HcpState, LocalState

WITHOUT_AWS = frozenset({"check", "policy", "recall", "services-up", "services-down", "artefacts", "move-states"})
"""Steps that work without the state; `check` reports another account as a prerequisite."""


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
    """Read from the state which accounts of AWS and Snowflake an earlier `create` deployed to.

    A shared state counts more than the records of this machine, because another machine may have changed it since.
    """
    _recall_account(deployment, asked)
    if isinstance(deployment.settings.backend, LocalState):
        return
    stacks = asked.readable(deployment)
    if account := stacks.outputs("network").get("aws_account_id"):  # it may have been deployed anew elsewhere
        account_record.remember(account, deployment.folder)
    if deployment.settings.snowflake is None or deployment.snowflake_is_given:
        _recall_snowflake(deployment, asked, stacks.outputs("secrets").get("snowflake_account"))


def _recall_snowflake(deployment: Deployment, asked: Asked, told: Mapping[str, Any] | None) -> None:
    """Record the account that the state names, unless its stack has no resources; forget one that was given up."""
    account = Recorded(told["organization"], told["account"], told["warehouse"] or None) if told else None
    if account is not None and _has_snowflake(deployment, asked, account):
        remember(account, deployment.folder)
    elif (known := recorded(deployment.folder)) is not None and asked.is_first and _was_given_up(deployment, asked):
        forget(deployment.folder)
        tell(
            f"snowflake: the shared state no longer has resources of {known.organization}-{known.account}, so this "
            "machine forgets the account; to attach it again, run `create --snowflake-warehouse=…`"
        )


def _was_given_up(deployment: Deployment, asked: Asked) -> bool:
    """Return whether the stack has a state without resources.

    A stack that was never applied has no state in S3; there, the record of an interrupted first `create` stays. HCP
    Terraform does not tell the two apart, so that its records stay as well.
    """
    state = read_state(deployment, "snowflake", asked.session)
    return bool(state) and not has_resources(state)


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
    account_record.recall(deployment.settings, deployment.folder, shared, asked.session, deployment.cloud)


def _any_managed(addresses: list[str]) -> bool:
    return any(not address.startswith("data.") for address in addresses)


def _refuse_another_account(deployment: Deployment, asked: Asked) -> None:
    account_record.refuse_another_account(deployment.settings, deployment.profile, deployment.folder, asked.session)
