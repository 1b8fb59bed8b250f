from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import boto3
import pytest
from botocore.exceptions import TokenRetrievalError

from infra.artefacts.environment import Target
from infra.deploy.checks.prerequisites import (
    Prerequisite,
    PrerequisiteError,
    of_the_account,
    of_the_aws_cli,
    of_the_confluent_cli,
    of_this_machine,
    raise_if_missing,
)

X86 = Target("3.11", "x86_64")


def answering(**answers: str) -> object:
    def run(command: Sequence[str]) -> str:
        if command[0] not in answers:
            raise FileNotFoundError(command[0])
        return answers[command[0]]

    return run


def findings(checkout: Path, *, native_required: bool = False, **answers: str) -> dict[str, Prerequisite]:
    found = of_this_machine(checkout, X86, answering(**answers), native_required=native_required)  # type: ignore[arg-type]
    return {finding.what: finding for finding in found}


@pytest.mark.parametrize(
    ("version", "is_met"), [("1.10.0", True), ("1.11.4", True), ("1.9.8", False), ("2.0.0-beta1", True)]
)
def test_terraform_must_be_new_enough(tmp_path: Path, version: str, is_met: bool) -> None:
    found = findings(tmp_path, terraform=f'{{"terraform_version": "{version}"}}', node="v22.1.0\n")

    assert (found["Terraform"].found, found["Terraform"].is_met) == (version, is_met)


@pytest.mark.parametrize(("version", "is_met"), [("v20.9.0\n", True), ("v18.19.1\n", False), ("what?", False)])
def test_node_must_be_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_met: bool) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    found = findings(tmp_path, node=version)["Node.js"]

    assert (found.found, found.is_met) == (version.strip(), is_met)


def test_everything_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    found = list(findings(tmp_path, native_required=True).values())

    with pytest.raises(PrerequisiteError, match=r"Terraform.*native decoder"):
        raise_if_missing(found)

    told = "\n".join(finding.line for finding in found)
    assert "MISSING Terraform" in told and "expected Terraform 1.10 or newer" in told


def test_a_laptop_without_a_compiler_goes_on_where_the_native_decoder_is_not_required(tmp_path: Path) -> None:
    assert findings(tmp_path)["native decoder"].is_met
    assert not findings(tmp_path, native_required=True)["native decoder"].is_met


@pytest.fixture
def no_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))


@pytest.mark.usefixtures("no_profiles")
def test_a_profile_that_does_not_exist_is_named() -> None:
    (found,) = of_the_account(lambda: boto3.Session(profile_name="nobdy"), "nobdy")

    assert not found.is_met
    assert "nobdy" in found.found
    assert "--profile" in found.hint


def test_a_session_that_has_ended_is_told_how_to_go_on() -> None:
    def ended() -> object:
        raise TokenRetrievalError(provider="sso", error_msg="Token has expired and refresh failed")

    (found,) = of_the_account(ended, "me")

    assert "has expired" in found.found
    assert found.hint == "run `aws sso login --profile me`"


@pytest.mark.parametrize(("deployed_to", "is_met"), [(None, True), ("222222222222", True), ("111111111111", False)])
def test_a_profile_of_another_account_than_the_environments_is_missing_its_own(
    deployed_to: str | None, is_met: bool
) -> None:
    caller = {"Account": "222222222222", "Arn": "arn:aws:sts::222222222222:assumed-role/admin/me"}
    sts = SimpleNamespace(get_caller_identity=lambda: caller)

    (found,) = of_the_account(lambda: SimpleNamespace(client=lambda _: sts), "me", deployed_to)

    assert found.is_met == is_met
    assert (deployed_to or "an AWS account") in found.expected


AWS = "aws-cli/{} Python/3.12.6 Linux/6.1"


@pytest.mark.parametrize(
    ("answers", "logged_in", "is_met"),
    [
        ({"aws": AWS.format("2.22.1")}, False, True),
        ({"aws": AWS.format("1.29.0")}, False, False),
        ({}, False, False),
        ({}, True, True),
    ],
)
def test_the_aws_cli_is_needed_to_log_in(answers: dict[str, str], logged_in: bool, is_met: bool) -> None:
    found = of_the_aws_cli(answering(**answers), "me", logged_in=logged_in)  # type: ignore[arg-type]

    assert found.is_met is is_met
    assert is_met or "aws sso login --profile me" in found.hint


@pytest.mark.parametrize(
    ("answers", "key_given", "is_met"),
    [
        ({"confluent": "Version:     v4.12.0\nGit Ref: 1.0.0"}, False, True),
        ({"confluent": "Version:     v3.60.0\n"}, False, False),
        ({}, False, False),
        ({}, True, True),
    ],
)
def test_the_confluent_cli_is_needed_to_make_a_cloud_key(
    answers: dict[str, str], key_given: bool, is_met: bool
) -> None:
    found = of_the_confluent_cli(answering(**answers), key_given=key_given)  # type: ignore[arg-type]

    assert found.is_met is is_met
    assert is_met or "confluent login" in found.hint
