"""A text as an object in the lake's bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.cdk import Construct
from infra.resources import aws

if TYPE_CHECKING:
    from typing import Unpack

    from infra.cdk import Meta


def stored_text(
    scope: Construct,
    construct_id: str,
    *,
    bucket: str,
    key: str,
    text: str,
    content_type: str,
    key_arn: str,
    **meta: Unpack[Meta],
) -> aws.S3Object:
    """Create the object, without tags: S3 takes ten for an object, and the settings may have more."""
    none = aws.S3Object_OverrideProvider_DefaultTags(tags={})
    return aws.S3Object(
        scope,
        construct_id,
        bucket=bucket,
        key=key,
        content=text,
        content_type=content_type,
        server_side_encryption="aws:kms",
        kms_key_id=key_arn,
        override_provider=aws.S3Object_OverrideProvider(default_tags=none),
        **meta,
    )
