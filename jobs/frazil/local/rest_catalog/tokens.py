"""Bearer tokens that expire, signed with the client's secret: another secret, or another client, voids them."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tokens:
    """The client that may ask for tokens, and how long one is valid."""

    client_id: str
    client_secret: str = field(repr=False)
    seconds: float = 3600.0
    clock: Callable[[], float] = time.time

    def issue(self) -> str:
        """Return a new token."""
        ends = f"{self.clock() + self.seconds:.3f}"
        return f"{ends}-{self._signature(ends)}"

    def accepts(self, token: str) -> bool:
        """Return whether the token was issued to this client and has not expired."""
        ends, _, signature = token.partition("-")
        return hmac.compare_digest(signature.encode(), self._signature(ends).encode()) and self.clock() < float(ends)

    def is_client(self, client_id: str, client_secret: str) -> bool:
        same_id = hmac.compare_digest(client_id.encode(), self.client_id.encode())
        same_secret = hmac.compare_digest(client_secret.encode(), self.client_secret.encode())
        return same_id and same_secret

    def _signature(self, ends: str) -> str:
        text = f"{self.client_id} {ends}"
        return hmac.new(self.client_secret.encode(), text.encode(), hashlib.sha256).hexdigest()
