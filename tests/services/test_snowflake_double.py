"""The double of Snowflake's login, by the real connector and by tokens that no connector would make."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import load_der_private_key
from snowflake.connector import connect
from snowflake.connector.errors import DatabaseError, ProgrammingError

from devcloud.http_double import Server
from devcloud.snowflake_double import MODIFY, MONITOR, LoginRefused, SnowflakeDouble
from devcloud.stub_behind import GRANT, USER, SnowflakeLogin
from infra.deploy.checks.snowflake_key import log_in, of_snowflake
from infra.deploy.cloud import NO_SERVICES
from infra.deploy.deployment import open_deployment
from infra.deploy.local import services
from infra.deploy.local.double_process import DoubleProcess
from infra.reports.picture import ACCOUNT as DEPLOYERS
from shared.rsa_key import RsaKey
from tests.fakes.late_keys import late_key
from tests.fakes.served import served

ACCOUNT = "FRAZIL-LOCAL"
KEY, OTHER = late_key(), late_key()


class Clock:
    """Return the real time, and how far the double's clock is ahead."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def double() -> SnowflakeDouble:
    double = SnowflakeDouble(ACCOUNT, now=Clock())
    double.add_user("LOADER", KEY.body)
    return double


@pytest.fixture
def server(double: SnowflakeDouble) -> Iterator[int]:
    """Its port."""
    with served(double) as server:
        yield server.server_address[1]


def logged_in(server: int, user: str, key: RsaKey) -> Any:
    return connect(
        account=ACCOUNT,
        user=user,
        private_key=key.der(),
        authenticator="SNOWFLAKE_JWT",
        host="127.0.0.1",
        port=server,
        protocol="http",
        login_timeout=10,
        platform_detection_timeout_seconds=0,
    )


def asked(server: int, user: str, key: RsaKey, statement: str) -> list[Any]:
    with logged_in(server, user, key) as connection, connection.cursor() as cursor:
        return list(cursor.execute(statement).fetchall())


def token(key: RsaKey = KEY, *, algorithm: str = "RS256", **claims: Any) -> str:
    """As the connector signs it, but for the claims that are given; None leaves one out."""
    now = int(time.time())
    told = {"sub": f"{ACCOUNT}.LOADER", "iss": f"{ACCOUNT}.LOADER.{KEY.fingerprint}", "iat": now, "exp": now + 60}
    left = {name: value for name, value in {**told, **claims}.items() if value is not None}
    return jwt.encode(left, load_der_private_key(key.der(), None), algorithm=algorithm)  # type: ignore[arg-type]


def test_a_registered_key_logs_in(server: int, double: SnowflakeDouble) -> None:
    assert asked(server, "loader", KEY, "SELECT CURRENT_USER()") == [("LOADER",)]
    assert double.logins == [("LOADER", "RSA_PUBLIC_KEY")]


def test_check_logs_in_with_the_key_that_terraform_is_given(server: int) -> None:
    account = replace(DEPLOYERS, organization="FRAZIL", account="LOCAL", url=f"http://127.0.0.1:{server}")
    given = {"SNOWFLAKE_PRIVATE_KEY": KEY.pem.reveal()}

    found, refused = (
        of_snowflake(replace(account, user=user), given, log_in, abandon="abandon") for user in ("LOADER", "NOBODY")
    )

    assert (found.is_met, found.found) == (True, f"{KEY.fingerprint}, FRAZIL-LOCAL as LOADER")
    assert not refused.is_met
    assert "390144" in refused.found


def test_a_key_of_nobody_is_refused_with_snowflakes_code(server: int, double: SnowflakeDouble) -> None:
    with pytest.raises(DatabaseError, match=r"JWT token is invalid. \[") as refused:
        logged_in(server, "LOADER", OTHER)

    assert refused.value.errno == 390144
    assert [reason.code for reason in double.failures.values()] == [394304]


@pytest.mark.parametrize("ahead", [90, -90])
def test_a_clock_that_is_off_is_refused_with_the_same_code(
    server: int, double: SnowflakeDouble, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    monkeypatch.setattr(Clock, "ahead", ahead)

    with pytest.raises(DatabaseError) as refused:
        logged_in(server, "LOADER", KEY)

    assert refused.value.errno == 390144
    assert [reason.name for reason in double.failures.values()] == ["JWT_TOKEN_INVALID_ISSUE_TIME"]


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (token, None),
        (lambda: "no.token.at-all", 390144),
        (lambda: token(sub="FRAZIL-LOCAL.NOBODY", iss=f"FRAZIL-LOCAL.NOBODY.{KEY.fingerprint}"), 394300),
        (lambda: token(iss=f"FRAZIL-LOCAL.OTHER.{KEY.fingerprint}"), 394300),
        (lambda: token(iat=None), 394301),
        (lambda: token(exp=None), 394301),
        (lambda: token(iat=int(time.time()) - 3600), 394302),
        (lambda: token(exp=int(time.time()) - 1), 394303),
        (lambda: token(iss=f"{ACCOUNT}.LOADER.{OTHER.fingerprint}"), 394304),
        (lambda: token(algorithm="RS512"), 394305),
        (lambda: token(OTHER), 394306),
        (lambda: token(sub="ELSEWHERE.LOADER", iss=f"ELSEWHERE.LOADER.{KEY.fingerprint}"), 394307),
    ],
)
def test_a_token_is_judged_as_documented(double: SnowflakeDouble, made: Callable[[], str], code: int | None) -> None:
    """Tokens are made when they are judged: they are good for a minute."""
    if code is None:
        assert double.login("LOADER", made()) == "LOADER"
        return
    with pytest.raises(LoginRefused) as refused:
        double.login("LOADER", made())

    assert refused.value.reason.code == code


def test_a_second_key_is_set_described_used_and_unset(server: int, double: SnowflakeDouble) -> None:
    double.grant(MODIFY, MONITOR, on="LOADER", to="LOADER")

    asked(server, "LOADER", KEY, f"ALTER USER LOADER SET RSA_PUBLIC_KEY_2 = '{OTHER.body}'")
    described = {row[0]: row[1] for row in asked(server, "LOADER", OTHER, 'DESC USER "LOADER"')}
    asked(server, "LOADER", OTHER, "ALTER USER LOADER UNSET RSA_PUBLIC_KEY")

    assert described["RSA_PUBLIC_KEY_FP"] == KEY.fingerprint
    assert described["RSA_PUBLIC_KEY_2_FP"] == OTHER.fingerprint
    with pytest.raises(DatabaseError):
        logged_in(server, "LOADER", KEY)


@pytest.mark.parametrize(
    ("privileges", "statement", "errno", "words"),
    [
        ((), "DESC USER OTHER", 2003, "does not exist or not authorized"),
        ((MODIFY,), "DESC USER OTHER", 3001, "Insufficient privileges"),
        ((MONITOR,), "ALTER USER OTHER SET RSA_PUBLIC_KEY = 'x'", 3001, "Insufficient privileges"),
        ((MODIFY,), "ALTER USER OTHER SET RSA_PUBLIC_KEY = 'x'", 3013, "New public key rejected by current policy"),
        ((), "ALTER USER LOADER SET RSA_PUBLIC_KEY_2 = 'x'", 3001, "Insufficient privileges"),
        ((), "DROP TABLE t", 1003, "does not know"),
    ],
)
def test_who_may_not_is_refused_with_snowflakes_codes(
    server: int, double: SnowflakeDouble, privileges: tuple[str, ...], statement: str, errno: int, words: str
) -> None:
    double.add_user("OTHER")
    if privileges:
        double.grant(*privileges, on="OTHER", to="LOADER")

    with pytest.raises(ProgrammingError, match=words) as refused:
        asked(server, "LOADER", KEY, statement)

    assert refused.value.errno == errno


def test_a_short_key_is_refused(double: SnowflakeDouble) -> None:
    double.grant(MODIFY, on="LOADER", to="LOADER")

    with pytest.raises(Exception, match="Invalid Public key"):
        double.execute("LOADER", f"ALTER USER LOADER SET RSA_PUBLIC_KEY_2 = '{RsaKey.new(1024).body}'")


def test_the_reason_of_a_refusal_is_told_by_its_id(server: int, double: SnowflakeDouble) -> None:
    with pytest.raises(DatabaseError):
        logged_in(server, "LOADER", OTHER)
    failure = next(iter(double.failures))

    told = asked(server, "LOADER", KEY, f"SELECT SYSTEM$GET_LOGIN_FAILURE_DETAILS('{failure}')")

    assert json.loads(told[0][0])["errorCode"] == "JWT_TOKEN_INVALID_PUBLIC_KEY_FINGERPRINT_MISMATCH"


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[DoubleProcess]:
    """As the cloud on this machine keeps it."""
    module, arguments = "devcloud.snowflake_double", (ACCOUNT, "users.json")
    kept = DoubleProcess(module=module, folder=tmp_path / "snowflake", preferred_port=0, arguments=arguments)
    kept.up()
    yield kept
    kept.down()


def test_users_that_terraform_made_outlive_the_process_with_their_keys_and_grants(kept: DoubleProcess) -> None:
    told = {"name": "LOADER", "default_role": "ROLE", "rsa_public_key": KEY.body, "rsa_public_key_2": None}
    grant = {"account_role_name": "ROLE", "privileges": [MODIFY, MONITOR]}
    on_user = {"on_account_object": [{"object_type": "USER", "object_name": "LOADER"}]}
    login = SnowflakeLogin(kept.address)
    login.make(USER, told)
    login.make(GRANT, {**grant, **on_user})
    port = int(kept.address.rpartition(":")[2])
    asked(port, "LOADER", KEY, f"ALTER USER LOADER SET RSA_PUBLIC_KEY_2 = '{OTHER.body}'")

    before, was = kept.address, kept.process
    assert was is not None
    was.kill()
    was.wait(10)
    kept.up()

    assert kept.address == before
    assert login.found(USER, told) == {**told, "rsa_public_key_2": OTHER.body}
    assert asked(port, "LOADER", OTHER, "SELECT CURRENT_USER()") == [("LOADER",)]
    assert login.found(GRANT, {**grant, **on_user}) == {**grant, **on_user}
    login.drop(USER, told)
    assert login.found(USER, told) is None
    assert login.found(GRANT, {**grant, **on_user}) is None, "grants on a user go with it"
    with pytest.raises(OSError, match="refused PUT users/LOADER"):
        login.make(USER, {**told, "rsa_public_key": "no key"})


def test_a_kept_double_is_started_once_and_leaves_nothing(kept: DoubleProcess) -> None:
    first = kept.process
    kept.up()

    assert first is not None
    assert kept.process == first
    assert kept.down()
    assert not first.is_running()
    assert not kept.folder.exists()
    assert not kept.down()


def test_a_double_is_stopped_when_nothing_names_its_account_any_more(tmp_path: Path) -> None:
    """As after `delete --keep-data` of an account that the command line named."""
    here = open_deployment("dev", "me", asks=False)
    here = replace(here, settings=replace(here.settings, snowflake=None), checkout=tmp_path)
    left = services.snowflake_login(here.folder, ACCOUNT)
    left.up()
    process = left.process
    assert process is not None

    assert services.down(here, NO_SERVICES)[0] == "the double of Snowflake: stopped, data deleted"
    assert not process.is_running()


def test_a_double_whose_port_is_taken_answers_at_another(kept: DoubleProcess) -> None:
    port = int(kept.address.rpartition(":")[2])

    with Server(SnowflakeDouble(ACCOUNT), port) as other:
        assert other.server_address[1] not in (0, port)


def test_the_fingerprint_is_of_the_der_of_the_public_key() -> None:
    assert len(base64.b64decode(KEY.fingerprint.removeprefix("SHA256:"))) == 32
    assert len(base64.b64decode(KEY.body)) == 294
