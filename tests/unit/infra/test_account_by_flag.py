from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from frazil.model.errors import SettingError
from infra.deploy.accounts.snowflake_account import (
    ACCOUNT,
    ORGANIZATION,
    AccountFlags,
    forget,
    is_missing,
    record_of,
    remember,
    with_account,
)
from infra.deploy.cloud import Cloud
from infra.deploy.clouds import LOCAL, REAL
from infra.deploy.local.services import SNOWFLAKE
from infra.settings.file import FOLDER, load_environment
from infra.settings.model import EnvironmentSettings, ExistingWarehouse, Snowflake

WAREHOUSE = AccountFlags("compute_wh")
ACME: Mapping[str, str] = {ORGANIZATION: "acme", ACCOUNT: "lake"}


def _found(
    folder: Path,
    flags: AccountFlags,
    env: Mapping[str, str] | None = None,
    *,
    settings: EnvironmentSettings | None = None,
    cloud: Cloud = REAL,
) -> Snowflake | None:
    return with_account(settings or load_environment("dev", {}), flags, env or {}, folder, cloud)


def _with_section(folder: Path) -> EnvironmentSettings:
    """The example environment with the shortest section that names an account."""
    shortest = {"organization": "ACME", "account": "LAKE", "warehouse": {"existing": "COMPUTE_WH"}}
    text = yaml.safe_load((FOLDER / "dev.yaml").read_text())
    (folder / "dev.yaml").write_text(yaml.safe_dump({**text, "snowflake": shortest}))
    return load_environment("dev", {}, folder=folder)


def test_an_account_by_variables_is_the_one_that_the_shortest_section_describes(tmp_path: Path) -> None:
    assert _found(tmp_path, WAREHOUSE, ACME) == _with_section(tmp_path).snowflake


def test_flags_win_over_variables(tmp_path: Path) -> None:
    found = _found(tmp_path, AccountFlags("WH", "OTHER", "DESK"), ACME)

    assert found is not None
    assert found.identifier == "OTHER-DESK"


def test_the_cloud_on_this_machine_asks_for_no_account(tmp_path: Path) -> None:
    found = _found(tmp_path, WAREHOUSE, {SNOWFLAKE: "http://127.0.0.1:4570"}, cloud=LOCAL)

    assert found is not None
    assert (found.identifier, found.url) == ("FRAZIL-LOCAL", "http://127.0.0.1:4570")


def test_variables_alone_attach_no_account(tmp_path: Path) -> None:
    assert _found(tmp_path, AccountFlags(), ACME) is None


@pytest.mark.parametrize("flags", [AccountFlags(), AccountFlags("OTHER_WH")])
def test_what_a_create_was_given_is_known_to_later_commands(tmp_path: Path, flags: AccountFlags) -> None:
    given = _found(tmp_path, WAREHOUSE, ACME)
    assert given is not None

    remember(record_of(given), tmp_path)

    warehouse = ExistingWarehouse(flags.warehouse or "COMPUTE_WH")
    assert _found(tmp_path, flags) == replace(given, warehouse=warehouse)
    forget(tmp_path)
    assert _found(tmp_path, AccountFlags()) is None


def test_another_account_than_the_one_that_was_given_is_refused(tmp_path: Path) -> None:
    given = _found(tmp_path, WAREHOUSE, ACME)
    assert given is not None
    remember(record_of(given), tmp_path)

    with pytest.raises(SettingError, match=r"--snowflake-account=DESK: the environment is for the .* ACME-LAKE"):
        _found(tmp_path, AccountFlags("WH", "ACME", "DESK"))


def test_another_account_than_that_of_the_settings_is_refused(tmp_path: Path) -> None:
    settings = _with_section(tmp_path)

    with pytest.raises(SettingError, match="--snowflake-organization=OTHER"):
        _found(tmp_path, AccountFlags("WH", "OTHER", "LAKE"), settings=settings)


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (AccountFlags("COMPUTE_WH"), "--snowflake-warehouse=COMPUTE_WH needs a Snowflake account"),
        (AccountFlags("COMPUTE_WH", "ACME"), "--snowflake-warehouse=COMPUTE_WH needs a Snowflake account"),
        (AccountFlags("1; DROP", "ACME", "LAKE"), "--snowflake-warehouse=1; DROP is not a valid Snowflake name"),
        (AccountFlags("WH", "a c", "LAKE"), "the Snowflake organization=a c is not a valid Snowflake name"),
    ],
)
def test_an_account_that_cannot_be_is_refused(tmp_path: Path, flags: AccountFlags, what: str) -> None:
    with pytest.raises(SettingError) as refused:
        _found(tmp_path, flags)

    assert refused.value.what.startswith(what)


@pytest.mark.parametrize(
    ("flags", "env", "missing"),
    [
        (AccountFlags(), {}, False),
        (WAREHOUSE, {}, True),
        (WAREHOUSE, {ORGANIZATION: "ACME"}, True),
        (WAREHOUSE, ACME, False),
        (AccountFlags("WH", "ACME", "LAKE"), {}, False),
    ],
)
def test_the_account_is_asked_for_where_a_warehouse_has_none(
    flags: AccountFlags, env: Mapping[str, str], missing: bool
) -> None:
    assert is_missing(flags, env) is missing
