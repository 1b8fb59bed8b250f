"""Tables in Snowflake by the real connector: refreshed by their owner, looked at by their reader, in the double."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from devcloud.snowflake_double import SnowflakeDouble
from devcloud.snowflake_tables import Shown, Tables
from devcloud.stub_behind import EXTERNAL, OWNERSHIP, SnowflakeLogin
from frazil.adapters.snowflake import SnowflakeAccount
from frazil.model.errors import SettingError, SnowflakeError
from frazil.model.secret import DeferredSecret, Secret
from frazil.model.settings import SnowflakeSettings, SnowflakeUser
from frazil.model.snowflake import Served
from tests.fakes.late_keys import late_key
from tests.fakes.served import served

ACCOUNT = "FRAZIL-LOCAL"
KEY, OTHER = late_key(), late_key()
DELTA = {"database": "FRAZIL_DEV", "schema": "LAKE", "name": "TRADES__DELTA"}
OWNS = {
    "account_role_name": "LOADER",
    "on": [{"future": [{"object_type_plural": "EXTERNAL TABLES", "in_schema": '"FRAZIL_DEV"."LAKE"'}]}],
}


@dataclass(slots=True)
class Vault:
    """The text of every secret, which may change."""

    text: str = field(default_factory=lambda: KEY.pem.reveal())  # noqa: PLW0108 - the key is generated at the first call

    def secret(self) -> Secret:
        return Secret(self.text)


@dataclass(slots=True)
class Account:
    double: SnowflakeDouble
    url: str
    vault: Vault = field(default_factory=Vault)

    def of(self, user: str, *, database: str = "FRAZIL_DEV") -> SnowflakeAccount:
        settings = SnowflakeSettings(ACCOUNT, database, "LAKE", url=self.url)
        return SnowflakeAccount(settings, SnowflakeUser(user, DeferredSecret(self.vault.secret)), login_seconds=3)


@pytest.fixture
def account() -> Iterator[Account]:
    double = SnowflakeDouble(ACCOUNT)
    for user in ("LOADER", "READER"):
        double.add_user(user, KEY.body)
    with served(double) as server:
        yield Account(double, server.address)


@pytest.fixture
def made(account: Account) -> Account:
    """With an external table, as Terraform makes it."""
    terraform = SnowflakeLogin(account.url)
    terraform.make(OWNERSHIP, OWNS)
    terraform.make(EXTERNAL, DELTA)
    return account


def test_the_loader_refreshes_what_it_owns(made: Account) -> None:
    made.of("LOADER").refresh("TRADES__DELTA")

    assert made.double.tables.refreshed == ["FRAZIL_DEV.LAKE.TRADES__DELTA"]


def test_when_a_table_was_refreshed_is_told(made: Account) -> None:
    before = datetime.now(UTC)
    assert made.of("READER").refreshed_at("TRADES__DELTA") is None

    made.of("LOADER").refresh("TRADES__DELTA")

    at = made.of("READER").refreshed_at("TRADES__DELTA")
    assert at is not None
    assert before <= at <= datetime.now(UTC)


def test_a_table_that_nobody_sees_was_never_refreshed(account: Account) -> None:
    with pytest.raises(SnowflakeError, match="user READER cannot see TRADES__DELTA, or it does not exist"):
        account.of("READER").refreshed_at("TRADES__DELTA")


def test_who_does_not_own_a_table_is_told_what_to_run(made: Account) -> None:
    with pytest.raises(SnowflakeError, match=r"let READER refresh TRADES__DELTA: 3001, .*privileges") as refused:
        made.of("READER").refresh("TRADES__DELTA")

    assert "scripts/deploy.sh create" in refused.value.hint


def test_a_table_that_is_gone_is_named(made: Account) -> None:
    SnowflakeLogin(made.url).drop(EXTERNAL, DELTA)

    with pytest.raises(SnowflakeError, match=r"2003, .*does not exist or not authorized"):
        made.of("LOADER").refresh("TRADES__DELTA")


def test_a_name_cannot_leave_its_quotes(made: Account) -> None:
    name = """X" REFRESH; DROP TABLE "Y'"""
    with pytest.raises(SnowflakeError):
        made.of("LOADER").refresh(name)
    with pytest.raises(SnowflakeError):
        made.of("READER").served(name)

    refresh, look = [said for said in made.double.statements if "DROP" in said]
    assert refresh == """ALTER EXTERNAL TABLE "FRAZIL_DEV"."LAKE"."X"" REFRESH; DROP TABLE ""Y'" REFRESH"""
    assert look.endswith("""'"FRAZIL_DEV"."LAKE"."X"" REFRESH; DROP TABLE ""Y''"')""")


@pytest.mark.parametrize(
    ("shown", "served"),
    [
        (Shown("s3://lake/t/1.json"), Served("s3://lake/t/1.json", "success", "RUNNING")),
        (Shown("s3://lake/t/1.json", "STALLED", "S3"), Served("s3://lake/t/1.json", "success", "STALLED: S3")),
        (Shown(None), Served(None, "failure: no snapshot was ever read", "RUNNING")),
    ],
)
def test_the_reader_sees_what_queries_see(account: Account, shown: Shown, served: Served) -> None:
    account.double.tables.serve('"FRAZIL_DEV"."LAKE"."TRADES"', shown)

    assert account.of("READER").served("TRADES") == served


def test_a_key_that_was_rotated_meanwhile_is_taken_up(made: Account) -> None:
    loader = made.of("LOADER")
    loader.refresh("TRADES__DELTA")
    made.double.users["LOADER"].keys = {"RSA_PUBLIC_KEY_2": OTHER.body}

    with pytest.raises(SnowflakeError, match="390144") as refused:
        loader.refresh("TRADES__DELTA")
    made.vault.text = OTHER.pem.reveal()
    loader.refresh("TRADES__DELTA")

    assert "frazil status" in refused.value.hint
    assert len(made.double.tables.refreshed) == 2


def test_external_tables_of_the_double_outlive_it(tmp_path: Path) -> None:
    before = Tables(tmp_path / "tables.json")
    before.own('"FRAZIL_DEV"."LAKE"', "LOADER")
    for name in ("KEPT", "DROPPED"):
        before.add_external(f'"FRAZIL_DEV"."LAKE"."{name}"')
    before.drop("FRAZIL_DEV.LAKE.DROPPED")

    after = Tables(tmp_path / "tables.json")

    assert (after.owners, after.external) == ({"FRAZIL_DEV.LAKE": "LOADER"}, {"FRAZIL_DEV.LAKE.KEPT"})


def test_a_secret_that_holds_no_key_is_not_quoted(account: Account) -> None:
    account.vault.text = "hush"

    with pytest.raises(SettingError, match="LOADER is not an unencrypted PEM key") as refused:
        account.of("LOADER").refresh("TRADES__DELTA")

    assert "hush" not in str(refused.value)
    assert refused.value.__cause__ is None
