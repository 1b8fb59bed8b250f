from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from frazil.model.errors import SettingError
from infra.deploy.__main__ import _parser
from infra.deploy.accounts import account_record
from infra.deploy.accounts.snowflake_account import AccountFlags
from infra.deploy.deployment import credentials, open_deployment
from infra.deploy.tables.client_files import write_client_files
from infra.settings.file import load_environment
from infra.settings.model import ExistingWarehouse, LocalState, S3State


@pytest.fixture(autouse=True)
def services_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_LOCAL_AWS", "http://127.0.0.1:4566")
    monkeypatch.setenv("FRAZIL_LOCAL_SNOWFLAKE", "http://127.0.0.1:4570")


def test_the_cluster_on_this_machine_is_not_deployed_to_an_account() -> None:
    with pytest.raises(SettingError, match="cannot be deployed with the AWS profile me"):
        open_deployment("local", "me", asks=True)


def test_flags_win_over_the_settings_and_what_they_leave_out_stays() -> None:
    deployment = open_deployment("dev", "me", asks=True, days=7)

    assert (deployment.settings.rotation.days, deployment.settings.rotation.keys_to_retain) == (7, 2)


SHELL = dict.fromkeys(
    ("AWS_ENDPOINT_URL_S3", "AWS_STS_ENDPOINT", "TF_AWS_S3_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT"), "http://x"
) | {"AWS_USE_FIPS_ENDPOINT": "true", "AWS_DEFAULT_PROFILE": "another"}
"""What would take precedence over a profile, and two variables that would not."""


def test_a_warehouse_by_flag_is_one_that_is_there() -> None:
    deployment = open_deployment("local", "local", asks=True, snowflake=AccountFlags("compute_wh"))

    assert deployment.settings.snowflake is not None
    assert deployment.settings.snowflake.warehouse == ExistingWarehouse("COMPUTE_WH")


def test_the_key_for_snowflake_is_for_real_accounts() -> None:
    here = open_deployment("local", "local", asks=True)

    assert not here.needs_snowflake_key
    assert replace(here, profile="me").needs_snowflake_key
    assert not open_deployment("dev", "me", asks=True).needs_snowflake_key


def test_a_profile_is_not_overruled_by_keys_that_the_shell_still_has() -> None:
    given = credentials(open_deployment("dev", "me", asks=True), None, SHELL | {"AWS_CA_BUNDLE": "kept"})

    assert given == {
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_PROFILE": "me",
        "AWS_DEFAULT_PROFILE": None,
        "AWS_ACCESS_KEY_ID": None,
        "AWS_SECRET_ACCESS_KEY": None,
        "AWS_SESSION_TOKEN": None,
        "AWS_SECURITY_TOKEN": None,
        "AWS_WEB_IDENTITY_TOKEN_FILE": None,
        "AWS_ROLE_ARN": None,
        "AWS_ROLE_SESSION_NAME": None,
        "AWS_ENDPOINT_URL": None,
        "AWS_ENDPOINT_URL_S3": None,
        "AWS_STS_ENDPOINT": None,
        "TF_AWS_S3_ENDPOINT": None,
    }


def test_the_command_that_a_hint_prints_for_a_step_is_one_that_can_be_typed() -> None:
    deployment = open_deployment("dev", "my profile", asks=True)

    python, *module, step, profile, environment = shlex.split(deployment.step("abandon-snowflake"))

    given = _parser().parse_args([step, profile, environment])
    assert (given.step, given.profile, given.environment) == ("abandon-snowflake", "my profile", "dev")
    assert (python, module) == (".venv/bin/python", ["-m", "infra.deploy"])


def test_the_cloud_on_this_machine_is_entered_as_nobody() -> None:
    given = credentials(open_deployment("local", "local", asks=True), "http://127.0.0.1:1", {})

    assert given["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert given["AWS_ACCESS_KEY_ID"] == "local"
    assert given["AWS_PROFILE"] is None


@pytest.mark.parametrize(("profile", "python"), [("local", "{}.{}".format(*sys.version_info)), ("me", "3.9")])
def test_packages_are_for_the_interpreter_that_runs_them(profile: str, python: str) -> None:
    deployment = open_deployment("dev", profile, asks=True)
    jobs = replace(deployment.settings.jobs, python="/usr/bin/python3.9")

    target = replace(deployment, settings=replace(deployment.settings, jobs=jobs)).target

    assert target.python == python
    assert target.is_here is (profile == "local" and target.machine == platform.machine())


@pytest.mark.parametrize(("profile", "kept"), [("local", LocalState()), ("me", S3State("states", "us-east-1"))])
def test_the_states_of_the_local_cloud_stay_here(
    monkeypatch: pytest.MonkeyPatch, profile: str, kept: LocalState | S3State
) -> None:
    shared = replace(load_environment("dev", {}), backend=S3State("states", "us-east-1"))
    monkeypatch.setattr("infra.deploy.deployment.load_environment", lambda *_: shared)

    assert open_deployment("dev", profile, asks=True).settings.backend == kept


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of every environment."""
    monkeypatch.setattr("infra.deploy.deployment.folder_of", lambda *_: tmp_path)
    return tmp_path


def test_the_state_of_a_real_account_is_not_used_in_the_local_cloud(folder: Path) -> None:
    account_record.remember("111122223333", folder)

    with pytest.raises(SettingError, match="dev is deployed to the AWS account 111122223333, but --profile=local is"):
        open_deployment("dev", "local", asks=True)


def test_the_state_of_the_local_cloud_is_not_used_in_a_real_account(folder: Path) -> None:
    account_record.remember("local", folder)

    with pytest.raises(SettingError, match="dev is deployed to the local cloud, but --profile=me is an AWS account"):
        open_deployment("dev", "me", asks=True)

    account_record.forget(folder)
    assert open_deployment("dev", "me", asks=True).settings.account_id is None


@pytest.mark.parametrize(
    ("record", "profile", "known"), [("111122223333", "me", "111122223333"), ("local", "local", None)]
)
def test_the_account_of_an_environment_is_known_at_synthesis(
    folder: Path, record: str, profile: str, known: str | None
) -> None:
    account_record.remember(record, folder)

    assert open_deployment("dev", profile, asks=True).settings.account_id == known


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_sourced_env_file_leaves_no_variable_that_overrules_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    (tmp_path / "tables").mkdir()
    deployment = replace(open_deployment("dev", "me", asks=True), checkout=tmp_path)
    monkeypatch.setenv("AWS_PROFILE", "me")
    write_client_files(deployment, "")
    kept = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "x", "AWS_CA_BUNDLE": "x", "PATH": os.environ["PATH"]}
    unset = {name: "x" for name, value in credentials(deployment, None, SHELL).items() if value is None}

    def after(variables: Mapping[str, str]) -> dict[str, str]:
        command = (shell, "-ec", f". '{deployment.env_file}' && env")
        lines = subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.splitlines()
        return dict(line.split("=", 1) for line in lines)

    found = after({**SHELL, **unset, **kept})

    assert found.keys().isdisjoint(unset)
    assert kept.items() <= found.items()
    assert (found["AWS_PROFILE"], found["FRAZIL_CONFIG"]) == ("me", str(deployment.config))
    assert after(kept)["AWS_PROFILE"] == "me"
