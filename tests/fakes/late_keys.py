"""RSA keys that are generated at first use: each takes a sixth of a CPU second, and every worker imports every test."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from shared.rsa_key import EXPONENT, RsaKey


def late_key(bits: int = 2048) -> RsaKey:
    """Return a key that nothing has generated yet."""
    return RsaKey(cast(RSAPrivateKey, _Late(bits)))


class _Late:
    def __init__(self, bits: int) -> None:
        self._bits = bits

    @cached_property
    def _made(self) -> RSAPrivateKey:
        return generate_private_key(EXPONENT, self._bits)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)
