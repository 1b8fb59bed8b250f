"""CloudFront: serve the objects of a distribution to those who have a signed URL, and delete key groups.

moto stores distributions and serves nothing. It cannot delete a key group, so `terraform destroy` would fail. It also
forgets parts of what it was given, so each `terraform plan` would show a difference: a key group's comment, an origin's
access control, and that a distribution has a cache policy in the place of values to forward.

The double answers for the host of each distribution, which no name server knows on this machine:

    curl --header 'Host: d111111abcdef8.cloudfront.net' 'http://127.0.0.1:PORT/exports/…?Expires=…&Signature=…'

As CloudFront, it makes the canned policy again from the request, and checks its signature with a public key of the key
groups that the distribution trusts. It requires one: what anyone may open is not for the lake's bucket.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from moto.cloudfront.models import (
    DefaultCacheBehaviour,
    KeyGroup,
    Origin,
    ViewerCertificate,
    cloudfront_backends,
)
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


def _create_key_group(create: Callable[..., Any]) -> Callable[..., Any]:
    def create_key_group(response: CloudFrontResponse) -> Any:
        answer = create(response)
        answer.result["KeyGroup"].comment = response._get_param("KeyGroupConfig.Comment")
        return answer

    return create_key_group


def _key_group_config(group: KeyGroup) -> dict[str, Any]:
    return {"Items": group.items, "Name": group.name, "Comment": group.comment}


def _remembering(kind: type, *, changes: Callable[[Any, Mapping[str, Any]], None]) -> None:
    """Let objects of moto's keep what they were given. `changes` is called with one and with that."""
    begin: Callable[[Any, dict[str, Any]], None] = kind.__init__  # type: ignore[misc]

    def __init__(made: Any, given: dict[str, Any]) -> None:  # noqa: N807
        before = dict(given)
        begin(made, given)
        changes(made, before)

    kind.__init__ = __init__  # type: ignore[misc]


def _keep_access(origin: Any, given: Mapping[str, Any]) -> None:
    origin.origin_access_control_id = given.get("OriginAccessControlId") or ""


def _keep_cache_policy(behaviour: Any, given: Mapping[str, Any]) -> None:
    if given.get("CachePolicyId"):
        behaviour.forwarded_values = None


def _keep_own_certificate(certificate: Any, given: Mapping[str, Any]) -> None:
    if str(given.get("CloudFrontDefaultCertificate")).lower() == "true":
        certificate.ssl_support_method = None


def teach() -> None:
    CloudFrontResponse.delete_key_group = _delete_key_group
    CloudFrontResponse.create_key_group = _create_key_group(CloudFrontResponse.create_key_group)
    KeyGroup.key_group_config = property(_key_group_config)
    _remembering(Origin, changes=_keep_access)
    _remembering(DefaultCacheBehaviour, changes=_keep_cache_policy)
    _remembering(ViewerCertificate, changes=_keep_own_certificate)


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
