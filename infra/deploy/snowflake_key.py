"""The key pair that Terraform logs in to Snowflake with: looked at before anything is made, and never shown."""

from __future__ import annotations

from collections.abc import Mapping

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from infra.deploy.prerequisites import Finding
from infra.local.snowflake_tokens import fingerprint
from infra.settings import Snowflake

VARIABLE, PASSPHRASE = "SNOWFLAKE_PRIVATE_KEY", "SNOWFLAKE_PRIVATE_KEY_PASSPHRASE"
"""As Snowflake's provider reads them."""
FEWEST_BITS = 2048
WHAT = "Snowflake key"


def of_snowflake(account: Snowflake, environment: Mapping[str, str]) -> Finding:
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
    der = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return Finding(WHAT, f"RSA {key.key_size}, {fingerprint(der)}", expected)


def _read(pem: str, passphrase: str | None) -> RSAPrivateKey | None:
    """None for whatever is no private key of RSA, or has another passphrase; the reason might quote it."""
    try:
        key = load_pem_private_key(pem.encode(), passphrase.encode() if passphrase else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, RSAPrivateKey) else None
