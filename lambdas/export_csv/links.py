"""Links to files that CloudFront serves: signed URLs with its canned policy.

A presigned URL of S3 ends with the session of the role that signed it, after hours at most. A signed URL of CloudFront
ends when it says, and its signature needs no session.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from shared.rsa_key import RsaKey

IN_A_QUERY = bytes.maketrans(b"+=/", b"-_~")
"""How CloudFront writes the letters of base64 that mean something in a URL."""


@dataclass(frozen=True, slots=True)
class Signer:
    """`address` is that of the distribution, `https://….cloudfront.net`, which serves the bucket of the exports by its
    keys; `key_id` the id of the public key; `key` returns the private one."""

    address: str
    key_id: str
    key: Callable[[], RsaKey]

    def links(self, addresses: list[str], until: datetime) -> list[str]:
        """Return a URL for each `s3://bucket/key`, which opens the object until this time."""
        private = self.key()
        return [self._link(address, int(until.timestamp()), private) for address in addresses]

    def _link(self, address: str, until: int, private: RsaKey) -> str:
        key = address.removeprefix("s3://").partition("/")[2]
        url = f"{self.address}/{quote(key)}"
        signature = base64.b64encode(private.sign_sha1(policy_of(url, until))).translate(IN_A_QUERY).decode()
        return f"{url}?Expires={until}&Signature={signature}&Key-Pair-Id={self.key_id}"


def policy_of(url: str, until: int) -> bytes:
    """Return the canned policy that is signed. CloudFront makes it again from the request, letter by letter."""
    condition = {"DateLessThan": {"AWS:EpochTime": until}}
    return json.dumps({"Statement": [{"Resource": url, "Condition": condition}]}, separators=(",", ":")).encode()
