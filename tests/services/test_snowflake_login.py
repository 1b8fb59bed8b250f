"""The client to Snowflake, over the real connector: its errors when Snowflake refuses or does not answer."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from devcloud.http_double import Answer, Server
from devcloud.snowflake_double import MODIFY, MONITOR, SnowflakeDouble
from shared import snowflake_login
from shared.snowflake_login import LoginRefusedError, RefusedError, Slots, SnowflakeClient
from tests.fakes.late_keys import late_key
from tests.fakes.served import served
from tests.fakes.snowflake_in_memory import SnowflakeInMemory

ACCOUNT = "FRAZIL-LOCAL"
KEY, OTHER = late_key(), late_key(4096)


@pytest.fixture
def double() -> SnowflakeDouble:
    double = SnowflakeDouble(ACCOUNT)
    double.add_user("ROTATOR", KEY.body)
    double.add_user("LOADER")
    return double


@pytest.fixture
def client(double: SnowflakeDouble, monkeypatch: pytest.MonkeyPatch) -> Iterator[SnowflakeClient]:
    monkeypatch.setattr(snowflake_login, "LOGIN_SECONDS", 3)
    with served(double) as server:
        yield SnowflakeClient(ACCOUNT, server.address)


@pytest.fixture(params=["connector", "in memory"])
def either(request: pytest.FixtureRequest, double: SnowflakeDouble) -> SnowflakeClient | SnowflakeInMemory:
    """The client, or its twin that the tests of the rotation use."""
    if request.param == "in memory":
        return SnowflakeInMemory(double)
    connected: SnowflakeClient = request.getfixturevalue("client")
    return connected


def test_a_wrong_key_and_a_missing_privilege_are_different_errors(either: SnowflakeClient) -> None:
    with pytest.raises(LoginRefusedError), either.session("ROTATOR", OTHER):
        pass
    with either.session("ROTATOR", KEY) as session, pytest.raises(RefusedError) as refused:
        session.slots_of("LOADER")

    assert not isinstance(refused.value, LoginRefusedError)


def test_slots_are_read_and_one_is_set(either: SnowflakeClient, double: SnowflakeDouble) -> None:
    double.grant(MODIFY, on="LOADER", to="ROTATOR")

    with either.session("ROTATOR", KEY) as session:
        session.set_key("LOADER", "RSA_PUBLIC_KEY_2", OTHER.body)
    with either.session("LOADER", OTHER) as session:
        after = session.slots_of("LOADER")
        bodies = session.bodies_of("LOADER")
        assert session.current_user() == "LOADER"
    with either.session("ROTATOR", KEY) as session:
        session.set_both_keys("LOADER", KEY.body, OTHER.body)

    assert (after, bodies) == (Slots(None, OTHER.fingerprint), {"RSA_PUBLIC_KEY_2": OTHER.body})
    assert double.users["LOADER"].keys == {"RSA_PUBLIC_KEY": KEY.body, "RSA_PUBLIC_KEY_2": OTHER.body}


def test_named_key_pairs_and_tokens_are_listed_and_removed(either: SnowflakeClient, double: SnowflakeDouble) -> None:
    double.grant(MODIFY, on="LOADER", to="ROTATOR")
    loader = double.users["LOADER"]
    loader.keys["RSA_PUBLIC_KEY"] = OTHER.body
    loader.credentials = {"KEY PAIR": ["theirs"], "PROGRAMMATIC ACCESS TOKEN": ["CI"]}

    with either.session("ROTATOR", KEY) as session:
        pairs = session.credentials_of("LOADER", "KEY PAIR")
        tokens = session.credentials_of("LOADER", "PROGRAMMATIC ACCESS TOKEN")
        for each in (*pairs, *tokens):
            session.remove("LOADER", each)

    assert [str(each) for each in (*pairs, *tokens)] == ["key pair theirs", "programmatic access token CI"]
    assert loader.credentials == {"KEY PAIR": [], "PROGRAMMATIC ACCESS TOKEN": []}


def test_a_key_that_does_not_open_is_told_from_a_service_that_fails(
    client: SnowflakeClient, double: SnowflakeDouble
) -> None:
    with (
        pytest.raises(LoginRefusedError, match=r"390144, .*JWT token is invalid. \[") as refused,
        client.session("ROTATOR", OTHER),
    ):
        pass
    assert "SYSTEM$GET_LOGIN_FAILURE_DETAILS" in refused.value.hint

    double.next_answers += [Answer(403)]
    with pytest.raises(RefusedError, match="refused the login of ROTATOR") as failed, client.session("ROTATOR", KEY):
        pass
    assert not isinstance(failed.value, LoginRefusedError)


def test_an_account_that_does_not_answer_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snowflake_login, "LOGIN_SECONDS", 3)
    with Server(SnowflakeDouble(ACCOUNT), 0) as closed:
        address = closed.address
    begun = time.monotonic()

    with (
        pytest.raises(RefusedError, match="refused the login of ROTATOR"),
        SnowflakeClient(ACCOUNT, address).session("ROTATOR", KEY),
    ):
        pass

    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("granted", "words"), [((), "does not exist or not authorized"), ((MODIFY, MONITOR), "Insufficient privileges")]
)
def test_a_missing_privilege_is_said_with_the_grant_that_helps(
    client: SnowflakeClient, double: SnowflakeDouble, granted: tuple[str, ...], words: str
) -> None:
    double.grant(*granted, on="LOADER", to="ROTATOR")

    with client.session("ROTATOR", KEY) as session, pytest.raises(RefusedError, match=words) as refused:
        session.slots_of("LOADER")

    assert "GRANT MODIFY PROGRAMMATIC AUTHENTICATION METHODS" in refused.value.hint


@pytest.mark.parametrize("user", ['X" SET PASSWORD', "", "a b", "é"])
def test_a_name_gets_nothing_else_into_a_statement(client: SnowflakeClient, double: SnowflakeDouble, user: str) -> None:
    with client.session("ROTATOR", KEY) as session, pytest.raises(RefusedError, match="is not a supported user name"):
        session.slots_of(user)

    assert not [statement for statement in double.statements if "DESC" in statement]


def test_no_key_is_in_what_an_error_tells(client: SnowflakeClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    with pytest.raises(LoginRefusedError) as refused, client.session("ROTATOR", OTHER):
        pass

    middle = OTHER.pem.reveal().splitlines()[5]
    told = f"{refused.getrepr(showlocals=False)}{refused.value!r}{refused.value.__cause__!r}{caplog.text}"
    assert middle not in told
    assert str(OTHER.der()[100:120]) not in told
