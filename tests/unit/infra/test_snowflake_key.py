from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from infra.deploy.checks.snowflake_key import of_snowflake
from infra.reports.picture import ACCOUNT
from infra.settings.model import Snowflake
from shared.rsa_key import RsaKey
from shared.snowflake_login import LoginRefusedError
from tests.fakes.late_keys import late_key

GOOD = late_key()


def pem(key: PrivateKeyTypes, how: KeySerializationEncryption | None = None) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how or NoEncryption()).decode()


LOCKED = pem(rsa.generate_private_key(65537, 2048), BestAvailableEncryption(b"open"))


def let_in(account: Snowflake, key: RsaKey) -> str:
    return account.user


def test_a_key_that_fits_is_told_by_the_fingerprint_that_snowflake_shows() -> None:
    found = of_snowflake(ACCOUNT, {"SNOWFLAKE_PRIVATE_KEY": GOOD.pem.reveal()}, let_in, abandon="abandon it")

    assert (found.is_met, found.found) == (True, f"{GOOD.fingerprint}, ACME-LAKE as FRAZIL_DEPLOYER")


def test_a_key_that_snowflake_does_not_know_is_told_with_its_reason_and_what_to_look_at() -> None:
    def turn_away(account: Snowflake, key: RsaKey) -> str:
        raise LoginRefusedError(f"{account.identifier} refuses", hint="Is the clock right?")

    finding = of_snowflake(ACCOUNT, {"SNOWFLAKE_PRIVATE_KEY": GOOD.pem.reveal()}, turn_away, abandon="abandon it")

    assert finding.found == f"{GOOD.fingerprint}: ACME-LAKE refuses"
    assert finding.hint.startswith("check that `DESC USER FRAZIL_DEPLOYER` shows this fingerprint; Is the clock right?")
    assert "If the account no longer exists, run `abandon it`" in finding.hint


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "not given"),
        ({"SNOWFLAKE_PRIVATE_KEY": "hush"}, "not an RSA private key"),
        ({"SNOWFLAKE_PRIVATE_KEY": pem(ec.generate_private_key(ec.SECP256R1()))}, "not an RSA private key"),
        ({"SNOWFLAKE_PRIVATE_KEY": pem(rsa.generate_private_key(65537, 1024))}, "a key of 1024 bits"),
        ({"SNOWFLAKE_PRIVATE_KEY": LOCKED}, "not an RSA private key"),
        ({"SNOWFLAKE_PRIVATE_KEY": LOCKED, "SNOWFLAKE_PRIVATE_KEY_PASSPHRASE": "wrong"}, "not an RSA private key"),
    ],
)
def test_what_is_no_such_key_is_refused_and_not_shown(given: dict[str, str], found: str) -> None:
    finding = of_snowflake(ACCOUNT, given, let_in, abandon="abandon it")

    assert (finding.is_met, finding.found) == (False, found)
    assert "hush" not in finding.line


def test_a_key_with_a_passphrase_is_opened_by_it() -> None:
    given = {"SNOWFLAKE_PRIVATE_KEY": LOCKED, "SNOWFLAKE_PRIVATE_KEY_PASSPHRASE": "open"}

    assert of_snowflake(ACCOUNT, given, let_in, abandon="abandon it").is_met
