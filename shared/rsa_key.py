"""An RSA key pair as Snowflake and CloudFront take it."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from frazil.model.secret import Secret

EXPONENT = 65537


@dataclass(frozen=True, slots=True)
class RsaKey:
    """An RSA key pair. The private half never prints; `body` and `fingerprint` are of the public half."""

    _private: RSAPrivateKey = field(repr=False)

    @staticmethod
    def new(bits: int) -> RsaKey:
        return RsaKey(generate_private_key(EXPONENT, bits))

    @staticmethod
    def of_pem(text: Secret) -> RsaKey:
        """Parse an unencrypted private key in PEM. Raises ValueError, which does not quote the text."""
        try:
            key = load_pem_private_key(text.reveal().encode(), password=None)
        except (ValueError, TypeError):
            raise ValueError("the text is not an unencrypted private key in PEM") from None
        if not isinstance(key, RSAPrivateKey):
            raise ValueError("the private key is not an RSA key")
        return RsaKey(key)

    @property
    def pem(self) -> Secret:
        """The key as PKCS#8 PEM without a passphrase: Secrets Manager encrypts it."""
        return Secret(self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())

    def der(self) -> bytes:
        """Return the private key in DER, as the connector takes it; keep it no longer than the call."""
        return self._private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())

    @property
    def body(self) -> str:
        """The public key as `ALTER USER … SET RSA_PUBLIC_KEY` takes it: PEM without its first and last line."""
        return base64.b64encode(self._public()).decode()

    @property
    def fingerprint(self) -> str:
        """The fingerprint in the form of `DESC USER`."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self._public()).digest()).decode()

    @property
    def public_pem(self) -> str:
        """The public key in PEM, as CloudFront takes it."""
        return self._private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def sign_sha1(self, message: bytes) -> bytes:
        """Sign as CloudFront checks the policy of a link, which knows no other hash for RSA keys."""
        return self._private.sign(message, PKCS1v15(), SHA1())  # noqa: S303 - the service's choice

    def _public(self) -> bytes:
        return self._private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
