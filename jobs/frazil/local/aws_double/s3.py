"""S3: a bucket policy that denies what does not come by TLS must not deny everything.

moto lets a statement that denies take effect whatever its condition says, so "deny unless aws:SecureTransport" denies
every object. Its conditions are about how requests arrive from outside (TLS, VPC endpoint, headers), which loopback
has none of: denials with conditions are left out here, and the rest is moto's to judge.
"""

from __future__ import annotations

import json

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import FakeBucket


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


def teach() -> None:
    FakeBucket.get_permission = _get_permission
