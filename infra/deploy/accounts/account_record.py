"""The AWS account of an environment: recorded at its first apply, compared with the session before later steps.

If the record is missing, the outputs in Terraform's state name the account. Without the comparison, a profile of
another account would make Terraform drop all resources from its state, because it finds none of them there, and create
them a second time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, assert_never

from frazil.model.errors import SettingError
from infra.deploy.cloud import Cloud
from infra.deploy.clouds import cloud_of
from infra.settings.model import EnvironmentSettings, HcpState, LocalState, S3State
from shared.naming import state_key, workspace_name

FILE = "aws-account"
STATE = "state"
"""The folder of local states, in the folder of the environment."""

Session = Callable[[], Any]
"""Opens a boto3 session."""
Outputs = Callable[[str], Mapping[str, Any]]
"""Returns the outputs of a stack by name; {} if it was never applied."""
Remains = Callable[[], bool]
"""Returns whether any stack has managed resources in its state."""


def recorded(folder: Path) -> str | None:
    """Return the account that the environment is deployed to, an id or the name of a cloud; None without a record."""
    file = folder / FILE
    return file.read_text(encoding="utf-8").strip() if file.exists() else None


def recorded_id(folder: Path) -> str | None:
    """Return the account id that the environment is deployed to; None also for the local cloud."""
    found = recorded(folder)
    return found if found is not None and cloud_of(found).account is None else None


def remember(account: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(f"{account}\n", encoding="utf-8")


def forget(folder: Path) -> None:
    """Remove the record, after a `delete`."""
    (folder / FILE).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class SharedState:
    """Reads a state that is not on this machine."""

    outputs: Outputs
    remains: Remains


def recall(settings: EnvironmentSettings, folder: Path, shared: SharedState, session: Session, cloud: Cloud) -> None:
    """Record the account that the state names, unless there is a record.

    Raises SettingError if something is applied, but no output names its account.
    """
    if recorded(folder) is not None:
        return
    is_here = isinstance(settings.backend, LocalState)
    here = SharedState(partial(outputs_here, folder), partial(remains_here, folder))
    account = account_in_state(settings.environment, folder, here if is_here else shared)
    if account is not None:
        own = cloud.account
        remember(own if own is not None and account == account_of(session) else account, folder)


def account_in_state(environment: str, folder: Path, state: SharedState) -> str | None:
    """Return the account id that the outputs of the stacks name, or None if nothing is applied.

    Raises SettingError if something is applied, but no output names its account: an interrupted destroy removes the
    outputs first.
    """
    network = state.outputs("network")
    account = network.get("aws_account_id") or _account_of_arn(state.outputs("lake").get("key_arn", ""))
    if not account and (network or state.remains()):
        raise SettingError(
            f"the environment {environment} has Terraform state, but its AWS account is not known",
            hint=f"write the 12 digits of its account to the file {folder / FILE}, then rerun the same command",
        )
    return account or None


def _account_of_arn(arn: str) -> str:
    """Return the account id in an ARN, or nothing if the text is no ARN."""
    return "".join(arn.split(":")[4:5])


def outputs_here(folder: Path, stack: str) -> Mapping[str, Any]:
    """Return the outputs in a local state file; {} if there is no such file."""
    file = folder / STATE / f"{stack}.tfstate"
    told = json.loads(file.read_text(encoding="utf-8") or "{}") if file.exists() else {}
    return {name: output["value"] for name, output in told.get("outputs", {}).items()}


def remains_here(folder: Path) -> bool:
    """Return whether a local state file has managed resources."""
    files = sorted((folder / STATE).glob("*.tfstate"))
    return any(has_resources(json.loads(file.read_text(encoding="utf-8") or "{}")) for file in files)


def has_resources(state: Mapping[str, Any]) -> bool:
    """Return whether a parsed state file of Terraform has managed resources."""
    return any(each["mode"] == "managed" and each.get("instances") for each in state.get("resources", ()))


def refuse_the_other_cloud(settings: EnvironmentSettings, profile: str, folder: Path) -> None:
    """Raise SettingError if a real environment is opened with `--profile=local`, or a local one with a real profile."""
    known, cloud = recorded(folder), cloud_of(profile)
    if known is not None and cloud_of(known) != cloud:
        raise _another(settings, profile, folder, known, cloud.name)


def refuse_another_account(settings: EnvironmentSettings, profile: str, folder: Path, session: Session) -> None:
    """Raise SettingError if the session is of another account than the recorded one.

    Makes no request if there is no record or the environment is in the local cloud.
    """
    known = recorded_id(folder)
    if known is None:
        return
    found = account_of(session)
    if found != known:
        raise _another(settings, profile, folder, known, cloud_of(known).describe(found))


def account_of(session: Session) -> str:
    return str(session().client("sts").get_caller_identity()["Account"])


def _another(settings: EnvironmentSettings, profile: str, folder: Path, known: str, found: str) -> SettingError:
    """Return the error for a profile of `found`, while the environment is recorded in the account `known`."""
    cloud = cloud_of(known)
    place, state = cloud.describe(known), _state(settings, cloud.backend or settings.backend, folder)
    return SettingError(
        f"the environment {settings.environment} is deployed to {place}, but --profile={profile} is {found}",
        hint=f"use {cloud.profile_for(known)}, or deploy to another account with another --environment=NAME. "
        f"If nothing of the environment is left in {place}, delete {state} and then {folder / FILE}",
    )


def _state(settings: EnvironmentSettings, backend: LocalState | S3State | HcpState, folder: Path) -> str:
    """Return what a user deletes to delete the state of all stacks."""
    match backend:
        case LocalState():
            return str(folder / STATE)
        case S3State(bucket):
            return f"the objects s3://{bucket}/{state_key(settings.environment, '*')}"
        case HcpState(organization):
            return f"the workspaces {workspace_name(settings.environment, '*')} of the organization {organization}"
        case _ as unknown:
            assert_never(unknown)
