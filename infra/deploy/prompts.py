"""Ask for the secrets and the Snowflake account that a verb needs and the environment variables lack."""

from __future__ import annotations

import getpass
import os
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from frazil.model.errors import SettingError
from infra.deploy.accounts.snowflake_account import ACCOUNT, ORGANIZATION, AccountFlags, is_missing
from infra.deploy.checks.snowflake_key import VARIABLE as SNOWFLAKE_KEY
from infra.deploy.deployment import NO_FLAGS, Deployment
from shared.confluent_api import KEY_VARIABLE, SECRET_VARIABLE

Open = Callable[[AccountFlags], Deployment]
"""Opens the deployment with these flags: what an answer or `recall` has set counts from the next time on."""


def ask_for_secrets(opened: Open, flags: AccountFlags, recall: Callable[[Deployment], None]) -> None:
    """Set the variables that are missing in the environment of this process, which passes them to its children.

    `recall` records the accounts of the shared state; it may need the Cloud API key. Until the Snowflake account is
    known, the deployment is opened without flags, because they may name a warehouse alone.
    Raises SettingError if an answer is empty.
    """
    deployment = opened(NO_FLAGS)
    if deployment.has_confluent:
        _ask_for_cloud_key()
    recall(deployment)
    if opened(NO_FLAGS).settings.snowflake is None and is_missing(flags, os.environ):
        _ask_for_snowflake_account(flags)
    if not os.environ.get(SNOWFLAKE_KEY) and opened(flags).needs_snowflake_key:
        _ask_for_snowflake_key()


def _ask_for_cloud_key() -> None:
    key = _ask(KEY_VARIABLE, "Confluent Cloud API key: ", _read_line)
    secret = _ask(SECRET_VARIABLE, "Confluent Cloud API secret (not shown): ", _read_hidden_line)
    if not (key and secret):
        raise SettingError(
            "the settings use Confluent Cloud: expected a Cloud API key and its secret, found none",
            hint=f"export {KEY_VARIABLE} and {SECRET_VARIABLE} if there is no terminal to prompt on",
        )


def _ask_for_snowflake_account(flags: AccountFlags) -> None:
    _ask(ORGANIZATION, "Snowflake organization (SELECT CURRENT_ORGANIZATION_NAME()): ", _read_line)
    _ask(ACCOUNT, "Snowflake account (SELECT CURRENT_ACCOUNT_NAME()): ", _read_line)
    if is_missing(flags, os.environ):
        raise SettingError(
            "the flag --snowflake-warehouse needs the organization and the name of its account, found none",
            hint=f"add --snowflake-organization= and --snowflake-account=, or export {ORGANIZATION} and {ACCOUNT}",
        )


def _ask_for_snowflake_key() -> None:
    _show("Private key for Snowflake: paste the whole PEM (not shown), then Enter and Ctrl-D\n")
    with hidden():
        key = sys.stdin.read()
    if not key.strip():
        raise SettingError(
            "Terraform needs the private key of its Snowflake user, found none",
            hint=f"paste the PEM, add --snowflake-private-key-file=FILE, or export {SNOWFLAKE_KEY}",
        )
    os.environ[SNOWFLAKE_KEY] = key


def _ask(variable: str, prompt: str, read: Callable[[str], str]) -> str:
    """Return the value of the variable; if it is unset or empty, set it to the answer."""
    if not os.environ.get(variable):
        os.environ[variable] = read(prompt).strip()
    return os.environ[variable]


def _read_line(prompt: str) -> str:
    if sys.stdin.isatty():
        _show(prompt)
    return sys.stdin.readline()


def _read_hidden_line(prompt: str) -> str:
    return getpass.getpass(prompt) if sys.stdin.isatty() else sys.stdin.readline()


@contextmanager
def hidden() -> Iterator[None]:
    """Switch off the echo of the terminal; without a terminal there is none.

    What was typed before is kept. What is unread afterwards is dropped: the shell would show it, or run it.
    """
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    silent = [*before]
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, before)


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
