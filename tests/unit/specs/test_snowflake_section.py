"""The section `snowflake`: what it becomes, what is refused, and that keys are looked up only when they are used."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_files import GOOD, Load

from frazil.model.errors import ServiceError, SettingError
from frazil.model.settings import SnowflakeSettings
from frazil.specs.load import load_settings
from tests.fakes.clients_in_memory import SecretsInMemory

SECTION = """
snowflake:
  account: ACME-LAKE
  database: frazil_dev
  schema: LAKE
  warehouse: FRAZIL_DEV
  loader: {user: FRAZIL_DEV_LOADER, private_key: '${secret:frazil/dev/snowflake/loader#private_key}'}
  reader: {user: frazil_dev_reader, private_key: '${secret:frazil/dev/snowflake/reader#private_key}'}
"""
LOADERS = {"frazil/dev/snowflake/loader": '{"private_key": "hush"}'}
MINIMAL = "snowflake: {account: ACME-LAKE, database: D, schema: S%s}"


class NobodyMayRead:
    """Every secret is forbidden."""

    def read(self, name: str) -> str | None:
        raise ServiceError(f"The secret {name} cannot be read: AccessDeniedException.", hint="ask for it")


def test_names_are_as_snowflake_stores_them_and_keys_come_from_secrets(load: Load) -> None:
    snowflake = load(GOOD + SECTION, secrets=LOADERS).snowflake

    assert snowflake is not None and snowflake.loader is not None and snowflake.reader is not None
    assert (snowflake.account, snowflake.database, snowflake.schema) == ("ACME-LAKE", "FRAZIL_DEV", "LAKE")
    assert (snowflake.warehouse, snowflake.reader.user, snowflake.url) == ("FRAZIL_DEV", "FRAZIL_DEV_READER", None)
    assert snowflake.loader.private_key.read().reveal() == "hush"


def test_loader_and_reader_may_be_left_out(load: Load) -> None:
    assert load(GOOD + MINIMAL % "").snowflake == SnowflakeSettings("ACME-LAKE", "D", "S")


def test_every_secret_that_the_file_refers_to_is_known_by_name_though_none_was_read(load: Load) -> None:
    settings = load(GOOD + SECTION + "# not ${secret:this}\n", secrets={})

    assert settings.secrets == ("frazil/dev/snowflake/loader", "frazil/dev/snowflake/reader")


def test_the_section_may_be_left_out(load: Load) -> None:
    assert load(GOOD).snowflake is None


def test_a_key_that_may_not_be_read_fails_whoever_uses_it_and_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "a.yaml").write_text("topic: orders")
    (tmp_path / "frazil.yaml").write_text(GOOD + SECTION)

    snowflake = load_settings(tmp_path / "frazil.yaml", {}, NobodyMayRead()).snowflake

    assert snowflake is not None and snowflake.reader is not None
    with pytest.raises(ServiceError, match="AccessDenied"):
        snowflake.reader.private_key.read()


def test_a_secret_that_is_not_there_names_the_line_when_it_is_used(load: Load) -> None:
    snowflake = load(GOOD + SECTION, secrets={}).snowflake

    assert snowflake is not None and snowflake.loader is not None
    with pytest.raises(
        SettingError, match=r"snowflake\.loader\.private_key: the secret frazil/dev/snowflake/loader does not exist"
    ):
        snowflake.loader.private_key.read()


def test_the_key_is_looked_up_each_time_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "a.yaml").write_text("topic: orders")
    (tmp_path / "frazil.yaml").write_text(GOOD + SECTION)
    vault = SecretsInMemory(LOADERS)
    snowflake = load_settings(tmp_path / "frazil.yaml", {}, vault).snowflake
    assert snowflake is not None and snowflake.loader is not None

    vault.known = {"frazil/dev/snowflake/loader": '{"private_key": "rotated"}'}

    assert snowflake.loader.private_key.read().reveal() == "rotated"


def test_a_key_that_is_written_out_is_never_printed(load: Load) -> None:
    settings = load(GOOD + MINIMAL % ", loader: {user: U, private_key: hush}")

    assert "hush" not in f"{settings}{settings!r}{settings.snowflake}"
    assert settings.snowflake is not None and settings.snowflake.loader is not None
    assert f"{settings.snowflake.loader.private_key}" == "***"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (", loder: {}", "snowflake.loder: unknown key\n\nhint: did you mean loader?"),
        (", reader: {user: U}", "snowflake.reader.private_key: required key is missing"),
        (", reader: {user: 'a b', private_key: x}", "snowflake.reader.user: expected a name in Snowflake"),
        (", reader: {user: U, password: x}", "snowflake.reader.password: users authenticate with a key pair"),
        (
            ", reader: {user: U, private_key: '${secrt:x}'}",
            "invalid placeholder after ${",
        ),
        (", url: 'http://lake.example'", "snowflake.url: http:// is allowed only on loopback"),
        (", role: R", "snowflake.role: each user uses its default role"),
    ],
)
def test_what_is_wrong_is_named(load: Load, more: str, expected: str) -> None:
    with pytest.raises(SettingError) as refused:
        load(GOOD + MINIMAL % more)

    assert expected in str(refused.value)


def test_an_account_is_no_url(load: Load) -> None:
    with pytest.raises(SettingError, match="write ORGANIZATION-ACCOUNT, not a URL"):
        load(GOOD + "snowflake: {account: 'https://acme-lake.snowflakecomputing.com', database: D, schema: S}")
