"""The key pair that signs links: the private half is in a secret, the public half in CloudFront."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from frazil.model.errors import SettingError
from frazil.model.secret import Secret
from shared.rsa_key import RsaKey

BITS = 2048
"""What CloudFront takes."""

DENIED = frozenset({"AccessDenied", "AccessDeniedException"})
TRIES, PAUSE_SECONDS = 12, 5.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LinkKeys:
    """`client` is boto3's of Secrets Manager; `secret` the name or ARN of the secret, whose value is a key in PEM."""

    client: Any
    secret: str

    def made(self, token: str) -> RsaKey:
        """Return the key, and make it if there is none. `token` names the version: a repeated call makes no other."""
        if self._stored() is None:
            pem = RsaKey.new(BITS).pem.reveal()
            with suppress(self.client.exceptions.ResourceExistsException):  # the same call was made twice at a time
                self.client.put_secret_value(SecretId=self.secret, ClientRequestToken=token, SecretString=pem)
        return self.current()

    def current(self) -> RsaKey:
        """Return the key. Raises SettingError if the secret has none."""
        stored = self._stored()
        if stored is None:
            raise SettingError(
                f"the secret {self.secret} has no key that signs links",
                hint="run `scripts/deploy.sh create`, which makes it",
            )
        return RsaKey.of_pem(stored)

    def _stored(self) -> Secret | None:
        try:
            return Secret(self.client.get_secret_value(SecretId=self.secret)["SecretString"])
        except self.client.exceptions.ResourceNotFoundException:
            return None


def when_allowed(act: Callable[[], T], sleep: Callable[[float], None]) -> T:
    """Try again for a minute while access is denied: it takes IAM seconds to know a role's policy everywhere."""
    for _ in range(TRIES):
        try:
            return act()
        except Exception as failed:
            if getattr(failed, "response", {}).get("Error", {}).get("Code", "") not in DENIED:
                raise
            sleep(PAUSE_SECONDS)
    return act()
