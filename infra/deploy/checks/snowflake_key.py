"""Test the key pair that Terraform uses for Snowflake, before anything is created; the key is never printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from frazil.model.errors import FrazilError
from infra.deploy.checks.prerequisites import Prerequisite
from infra.settings.model import Snowflake
from shared.rsa_key import RsaKey
from shared.snowflake_login import SnowflakeClient

VARIABLE, PASSPHRASE = "SNOWFLAKE_PRIVATE_KEY", "SNOWFLAKE_PRIVATE_KEY_PASSPHRASE"
"""Environment variables of Snowflake's Terraform provider."""
FEWEST_BITS = 2048
WHAT = "Snowflake key"

LogIn = Callable[[Snowflake, RsaKey], str]
"""Logs in with a key and returns the current user. Raises FrazilError if the login fails."""


def log_in(account: Snowflake, key: RsaKey) -> str:
    """Log in with Snowflake's Python connector and return the current user."""
    with SnowflakeClient(account.identifier, account.url).session(account.user, key) as session:
        return session.current_user()


def of_snowflake(account: Snowflake, environment: Mapping[str, str], log_in: LogIn, *, abandon: str) -> Prerequisite:
    """Check the key and try a login; the finding shows the fingerprint that `DESC USER` prints.

    `abandon` is the command for an account that no longer exists.
    """
    expected = f"in {VARIABLE}: the private key of {account.user}, RSA of {FEWEST_BITS} bits or more, PKCS#8 in PEM"
    given = environment.get(VARIABLE, "").strip()
    if not given:
        hint = f'export {VARIABLE}="$(cat deployer.p8)", or let `create` ask for it'
        return Prerequisite(WHAT, "not given", expected, hint)
    key = _read(given, environment.get(PASSPHRASE))
    if key is None or key.key_size < FEWEST_BITS:
        found = "not an RSA private key" if key is None else f"a key of {key.key_size} bits"
        hint = f"create one as described in docs/snowflake.md; put its passphrase, if any, into {PASSPHRASE}"
        return Prerequisite(WHAT, found, expected, hint)
    return _tried(account, RsaKey(key), log_in, abandon)


def _tried(account: Snowflake, key: RsaKey, log_in: LogIn, abandon: str) -> Prerequisite:
    expected = f"a login to {account.identifier} as {account.user}"
    try:
        who = log_in(account, key)
    except FrazilError as refused:
        hint = (
            f"check that `DESC USER {account.user}` shows this fingerprint; {refused.hint}. If the account no longer "
            f"exists, run `{abandon}`, which gives it up without a request to Snowflake"
        )
        return Prerequisite(WHAT, f"{key.fingerprint}: {refused.what}", expected, hint)
    return Prerequisite(WHAT, f"{key.fingerprint}, {account.identifier} as {who}", expected)


def _read(pem: str, passphrase: str | None) -> RSAPrivateKey | None:
    """Return the key, or None if it is not an RSA private key or the passphrase is wrong.

    The exception is dropped, because its text may quote the key.
    """
    try:
        key = load_pem_private_key(pem.encode(), passphrase.encode() if passphrase else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, RSAPrivateKey) else None
