from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.model.errors import SettingError
from infra.deploy.deployment import Deployment, credentials, open_deployment
from infra.deploy.snowflake_account import AccountFlags
from infra.settings import ExistingWarehouse


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
    given = credentials(open_deployment("dev", "me", asks=True), None)

    assert given == {
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_PROFILE": "me",
        "AWS_ACCESS_KEY_ID": None,
        "AWS_SECRET_ACCESS_KEY": None,
        "AWS_SESSION_TOKEN": None,
        "AWS_ENDPOINT_URL": None,
    }


def test_the_cloud_on_this_machine_is_entered_as_nobody() -> None:
    given = credentials(open_deployment("local", "local", asks=True), "http://127.0.0.1:1")

    assert given["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert given["AWS_ACCESS_KEY_ID"] == "local"
    assert given["AWS_PROFILE"] is None


@pytest.mark.parametrize(("profile", "python"), [("local", "3.13"), ("me", "3.11")])
def test_packages_are_for_the_interpreter_that_runs_them(profile: str, python: str) -> None:
    deployment: Deployment = open_deployment("dev", profile, asks=True)

    assert deployment.target((3, 13)).python == python
