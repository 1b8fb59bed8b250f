"""S3: ignore conditional denials of bucket policies, and make conditional writes atomic.

moto ignores the condition of a Deny statement, so "deny unless aws:SecureTransport" denies every request. These
conditions are about how a request arrives (TLS, VPC endpoint, headers), which has no meaning on loopback. Deny
statements with conditions are therefore removed here; moto evaluates the others.

moto checks whether an object exists and writes it in two steps. Two writers with If-None-Match could then both succeed,
and a Delta log would lose a version.
"""

from __future__ import annotations

import json
import threading

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import FakeBucket
from moto.s3.responses import S3Response

_writing = threading.Lock()
_put_object = S3Response.put_object


def without_conditional_denials(policy: str) -> str:
    document = json.loads(policy)
    given = document["Statement"]
    statements = given if isinstance(given, list) else [given]
    kept = [one for one in statements if one.get("Effect") != "Deny" or not one.get("Condition")]
    return json.dumps(document | {"Statement": kept})


def _get_permission(bucket: FakeBucket, action: str, resource: str) -> object:
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    return IAMPolicy(without_conditional_denials(bucket.policy.decode())).is_action_permitted(action, resource)


def _put_alone(response: S3Response) -> object:
    if response.headers.get("If-None-Match") is None and response.headers.get("If-Match") is None:
        return _put_object(response)
    with _writing:
        return _put_object(response)


def teach() -> None:
    FakeBucket.get_permission = _get_permission
    S3Response.put_object = _put_alone
