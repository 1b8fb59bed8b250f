"""CloudFront: serve the objects of a distribution to those who have a signed URL, and delete key groups.

moto stores distributions and serves nothing. It cannot delete a key group, so `terraform destroy` would fail.

The double answers for the host of each distribution, which no name server knows on this machine:

    curl --header 'Host: d111111abcdef8.cloudfront.net' 'http://127.0.0.1:PORT/exports/…?Expires=…&Signature=…'

As CloudFront, it makes the canned policy again from the request, and checks its signature with a public key of the key
groups that the distribution trusts. It requires one: what anyone may open is not for the lake's bucket.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from moto.cloudfront.models import cloudfront_backends
from moto.cloudfront.responses import CloudFrontResponse
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.responses import EmptyResult
from moto.s3.models import s3_backends

DOMAIN = ".cloudfront.net"
PARTITION = "aws"
AS_IN_BASE64 = bytes.maketrans(b"-_~", b"+=/")

Answer = tuple[HTTPStatus, bytes]


def host_of(environ: Mapping[str, Any]) -> str | None:
    """Return the host of a request if it is one of CloudFront's."""
    host = str(environ.get("HTTP_HOST", "")).partition(":")[0]
    return host if host.endswith(DOMAIN) else None


def serve(host: str, path: str, query: str) -> Answer:
    """Return the object at a path, or why it is refused."""
    backend = cloudfront_backends[DEFAULT_ACCOUNT_ID][PARTITION]
    found = [each for each in backend.distributions.values() if each.domain_name == host]
    if not found or not found[0].distribution_config.Enabled:
        return HTTPStatus.NOT_FOUND, b"no such distribution"
    config = found[0].distribution_config
    groups = config.DefaultCacheBehavior.trusted_key_groups.items
    keys = {key: backend.public_keys[key] for group in groups for key in backend.key_groups[group].items}
    refused = _refused(f"https://{host}{quote(path)}", dict(parse_qsl(query)), keys)
    if refused:
        return HTTPStatus.FORBIDDEN, refused.encode()
    bucket = config.Origins["Items"][0].domain_name.partition(".s3.")[0]
    stored = s3_backends[DEFAULT_ACCOUNT_ID][PARTITION].get_object(bucket, path.removeprefix("/"))
    return (HTTPStatus.FORBIDDEN, b"AccessDenied") if stored is None else (HTTPStatus.OK, stored.value)


def _delete_key_group(response: CloudFrontResponse) -> EmptyResult:
    response.backend.key_groups.pop(response._get_param("Id"), None)
    return EmptyResult()


def teach() -> None:
    CloudFrontResponse.delete_key_group = _delete_key_group


def _refused(url: str, given: Mapping[str, str], keys: Mapping[str, Any]) -> str:
    """Return why a URL does not open its object, empty if it does."""
    if not {"Expires", "Signature", "Key-Pair-Id"} <= set(given):
        return "MissingKey"
    if given["Key-Pair-Id"] not in keys:
        return "InvalidKey"
    until = f'{{"DateLessThan":{{"AWS:EpochTime":{given["Expires"]}}}}}'
    policy = f'{{"Statement":[{{"Resource":"{url}","Condition":{until}}}]}}'
    public = load_pem_public_key(keys[given["Key-Pair-Id"]].encoded_key.encode())
    assert isinstance(public, RSAPublicKey), "CloudFront takes RSA keys for this kind of signature"  # noqa: S101
    try:
        signature = base64.b64decode(given["Signature"].encode().translate(AS_IN_BASE64), validate=True)
        public.verify(signature, policy.encode(), PKCS1v15(), SHA1())  # noqa: S303 - CloudFront's choice
    except (ValueError, InvalidSignature):
        return "InvalidSignature"
    return "" if time.time() < int(given["Expires"]) else "AccessDenied: the URL has expired"
