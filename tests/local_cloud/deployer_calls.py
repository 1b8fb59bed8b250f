"""Calls of whoever deploys, as IAM names the actions that they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

READS_OF_BUCKETS = {
    "GetBucketAccelerateConfiguration": "GetAccelerateConfiguration",
    "GetBucketCors": "GetBucketCORS",
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "GetBucketReplication": "GetReplicationConfiguration",
    "GetObjectLockConfiguration": "GetBucketObjectLockConfiguration",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "HeadBucket": "ListBucket",
    "HeadObject": "GetObject",
    "ListBuckets": "ListAllMyBuckets",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListObjectVersions": "ListBucketVersions",
    "ListObjectsV2": "ListBucket",
}
WRITES_OF_BUCKETS = {
    "CompleteMultipartUpload": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "DeleteBucketEncryption": "PutEncryptionConfiguration",
    "DeleteBucketLifecycle": "PutLifecycleConfiguration",
    "DeleteBucketOwnershipControls": "PutBucketOwnershipControls",
    "DeleteObjects": "DeleteObject",
    "DeletePublicAccessBlock": "PutBucketPublicAccessBlock",
    "PutBucketEncryption": "PutEncryptionConfiguration",
    "PutBucketLifecycleConfiguration": "PutLifecycleConfiguration",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
    "UploadPart": "PutObject",
}
OTHER_NAMES = {
    **{f"s3:{call}": f"s3:{action}" for call, action in {**READS_OF_BUCKETS, **WRITES_OF_BUCKETS}.items()},
    "lambda:Invoke": "lambda:InvokeFunction",
}
"""From the service authorization reference of AWS: calls whose action has another name."""
PREFIXES = {"monitoring": "cloudwatch"}
"""Services that sign calls with another name than the prefix of their actions."""


def not_allowed(calls: Iterable[Mapping[str, Any]], allowed: Iterable[str]) -> set[str]:
    """The actions of recorded calls that no pattern allows."""
    wanted = {f"{PREFIXES.get(call['service'], call['service'])}:{call['operation']}" for call in calls}
    patterns = list(allowed)
    needed = {OTHER_NAMES.get(api, api) for api in wanted}
    return {action for action in needed if not any(fnmatchcase(action, pattern) for pattern in patterns)}
