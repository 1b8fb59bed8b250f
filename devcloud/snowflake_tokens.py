"""The tokens by which key pairs log in to Snowflake, judged as its documentation of key-pair authentication says.

A token is signed with RS256; `sub` is ACCOUNT.USER, `iss` the same with the fingerprint of the public key behind it; it
must arrive within a minute of `iat` and before `exp`. One thing is assumed: a token from the future is refused as one
from the past is, when it is more than a minute off.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key

ISSUED_WITHIN_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a token was refused, as administrators see it."""

    code: int
    name: str

    def __str__(self) -> str:
        return json.dumps({"errorCode": self.name, "errorNumber": self.code})


INVALID = Reason(390144, "JWT_TOKEN_INVALID")
UNKNOWN_USER = Reason(394300, "JWT_TOKEN_INVALID_USER_IN_ISSUER")
NO_TIMES = Reason(394301, "JWT_TOKEN_MISSING_ISSUE_OR_EXPIRATION_TIME")
ISSUE_TIME = Reason(394302, "JWT_TOKEN_INVALID_ISSUE_TIME")
EXPIRED = Reason(394303, "JWT_TOKEN_INVALID_EXPIRATION_TIME")
OTHER_KEY = Reason(394304, "JWT_TOKEN_INVALID_PUBLIC_KEY_FINGERPRINT_MISMATCH")
ALGORITHM = Reason(394305, "JWT_TOKEN_INVALID_ALGORITHM")
SIGNATURE = Reason(394306, "JWT_TOKEN_INVALID_SIGNATURE")
OTHER_ACCOUNT = Reason(394307, "JWT_TOKEN_ACCOUNT_MISMATCH")


class LoginRefused(Exception):  # noqa: N818 - as the log of logins calls it
    """A login failed. The client sees that the token is invalid, but not the reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.name)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says, before anybody knows whether the key's owner said it."""

    user: str
    fingerprint: str
    issued: object
    expires: object
    signed: bytes
    signature: bytes

    def refuse_other_times(self, now: float) -> None:
        if not isinstance(self.issued, int | float) or not isinstance(self.expires, int | float):
            raise LoginRefused(NO_TIMES)
        if abs(now - self.issued) > ISSUED_WITHIN_SECONDS:
            raise LoginRefused(ISSUE_TIME)
        if self.expires <= now:
            raise LoginRefused(EXPIRED)

    def verify(self, key: RSAPublicKey) -> None:
        try:
            key.verify(self.signature, self.signed, PKCS1v15(), SHA256())
        except InvalidSignature:
            raise LoginRefused(SIGNATURE) from None


def claims_of(token: str, *, account: str, login_name: str) -> Claims:
    """Return a token's claims. Raises LoginRefused if it is malformed or for another account or user."""
    header, claims, signed, signature = _parts(token)
    if header.get("alg") != "RS256":
        raise LoginRefused(ALGORITHM)
    subject = str(claims.get("sub", ""))
    issuer, _, key = str(claims.get("iss", "")).rpartition(".")
    said_account, _, user = subject.partition(".")
    if said_account != account:
        raise LoginRefused(OTHER_ACCOUNT)
    if issuer != subject or user != login_name.upper():
        raise LoginRefused(UNKNOWN_USER)
    return Claims(user, key, claims.get("iat"), claims.get("exp"), signed, signature)


def fingerprint(der: bytes) -> str:
    return "SHA256:" + base64.b64encode(hashlib.sha256(der).digest()).decode()


def public_key(key: str) -> RSAPublicKey:
    loaded = load_der_public_key(base64.b64decode(key, validate=True))
    if not isinstance(loaded, RSAPublicKey):
        raise TypeError("not RSA")
    return loaded


def _parts(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any], bytes, bytes]:
    """Header, claims, what is signed, and the signature of a JSON web token."""
    try:
        header, claims, signature = token.split(".")
        told, said = json.loads(_decoded(header)), json.loads(_decoded(claims))
        return dict(told), dict(said), f"{header}.{claims}".encode(), _decoded(signature)
    except (ValueError, TypeError, binascii.Error):
        raise LoginRefused(INVALID) from None


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
