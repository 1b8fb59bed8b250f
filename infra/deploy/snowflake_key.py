"""The key pair that Terraform logs in to Snowflake with: tried before anything is made, and never shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from frazil.model.errors import FrazilError
from infra.deploy.prerequisites import Finding
from infra.settings import Snowflake
from lambdas.rotate_keys.rsa_key import RsaKey
from lambdas.rotate_keys.snowflake_door import SnowflakeDoor

VARIABLE, PASSPHRASE = "SNOWFLAKE_PRIVATE_KEY", "SNOWFLAKE_PRIVATE_KEY_PASSPHRASE"
"""As Snowflake's provider reads them."""
FEWEST_BITS = 2048
WHAT = "Snowflake key"

LogIn = Callable[[Snowflake, RsaKey], str]
"""Whom Snowflake takes the owner of a key for; raises FrazilError where it lets nobody in."""


def log_in(account: Snowflake, key: RsaKey) -> str:
    """By Snowflake's own connector."""
    with SnowflakeDoor(account.identifier, account.stand_in).session(account.user, key) as session:
        return session.current_user()


def of_snowflake(account: Snowflake, environment: Mapping[str, str], log_in: LogIn) -> Finding:
    """With the fingerprint that `DESC USER` shows for the public half."""
    expected = f"in {VARIABLE}: the private key of {account.user}, RSA of {FEWEST_BITS} bits or more, PKCS#8 in PEM"
    given = environment.get(VARIABLE, "").strip()
    if not given:
        hint = f'export {VARIABLE}="$(cat deployer.p8)", or let `create` ask'
        return Finding(WHAT, "not given", expected, hint)
    key = _read(given, environment.get(PASSPHRASE))
    if key is None or key.key_size < FEWEST_BITS:
        found = "no key of RSA" if key is None else f"a key of {key.key_size} bits"
        return Finding(WHAT, found, expected, f"make one as docs/snowflake.md says; its passphrase: {PASSPHRASE}")
    return _tried(account, RsaKey(key), log_in)


def _tried(account: Snowflake, key: RsaKey, log_in: LogIn) -> Finding:
    expected = f"a login to {account.identifier} as {account.user}"
    try:
        who = log_in(account, key)
    except FrazilError as refused:
        hint = f"does `DESC USER {account.user}` show this fingerprint? {refused.hint}"
        return Finding(WHAT, f"{key.fingerprint}: {refused.what}", expected, hint)
    return Finding(WHAT, f"{key.fingerprint}, {account.identifier} as {who}", expected)


def _read(pem: str, passphrase: str | None) -> RSAPrivateKey | None:
    """None for whatever is no private key of RSA, or has another passphrase; the reason might quote it."""
    try:
        key = load_pem_private_key(pem.encode(), passphrase.encode() if passphrase else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, RSAPrivateKey) else None
