"""The AWS account of an environment: recorded at its first apply, compared with the session before later steps.

Without the comparison, a profile of another account would make Terraform drop all resources from its state, because it
finds none of them there, and create them a second time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from frazil.model.errors import SettingError

FILE = "aws-account"
LOCAL_CLOUD = "local"
"""What is recorded instead of an account id for the local cloud."""


def recorded(folder: Path) -> str | None:
    """Return the account id that the environment is deployed to, LOCAL_CLOUD, or None if it was never applied."""
    file = folder / FILE
    return file.read_text(encoding="utf-8").strip() if file.exists() else None


def recorded_id(folder: Path) -> str | None:
    """Return the account id that the environment is deployed to; None also for the local cloud."""
    found = recorded(folder)
    return None if found == LOCAL_CLOUD else found


def remember(account: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(f"{account}\n", encoding="utf-8")


def forget(folder: Path) -> None:
    """Remove the record, after a `delete`."""
    (folder / FILE).unlink(missing_ok=True)


def refuse_the_other_cloud(environment: str, profile: str, folder: Path, *, is_local: bool) -> None:
    """Raise SettingError if a real environment is opened with `--profile=local`, or a local one with a real profile."""
    known = recorded(folder)
    if known is not None and (known == LOCAL_CLOUD) != is_local:
        raise _another(environment, profile, folder, "the local cloud" if is_local else "an AWS account")


def refuse_another_account(environment: str, profile: str, folder: Path, session: Callable[[], Any]) -> None:
    """Raise SettingError if the session is of another account than the recorded one. `session` opens a boto3 session.

    Makes no request if there is no record or the environment is in the local cloud.
    """
    known = recorded_id(folder)
    if known is None:
        return
    found = account_of(session)
    if found != known:
        raise _another(environment, profile, folder, f"the AWS account {found}")


def account_of(session: Callable[[], Any]) -> str:
    return str(session().client("sts").get_caller_identity()["Account"])


def _another(environment: str, profile: str, folder: Path, found: str) -> SettingError:
    known = recorded(folder)
    place = "the local cloud" if known == LOCAL_CLOUD else f"the AWS account {known}"
    right = "--profile=local" if known == LOCAL_CLOUD else f"a profile of the account {known}"
    return SettingError(
        f"the environment {environment} is deployed to {place}, but --profile={profile} is {found}",
        hint=f"use {right}, or deploy to another account with another --environment=NAME. If nothing of the "
        f"environment is left in {place}, delete {folder / FILE}",
    )
