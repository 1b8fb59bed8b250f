"""A private, encrypted and versioned S3 bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.cdk import Construct
from infra.permissions.iam import EVERYBODY, Conditions, Policy, Principal, Statement, tls_only
from infra.resources import aws

CLOUDFRONT = Principal(services=("cloudfront.amazonaws.com",))


@dataclass(frozen=True, slots=True)
class Served:
    """A folder that CloudFront may read, for the distributions with these ARNs."""

    folder: str
    distributions: str


class Bucket(Construct):
    """A private, versioned bucket, encrypted with one key. Its account owns all objects; access requires TLS.

    `lifecycle` says what leaves it by itself, `served` what CloudFront may read. Outside production Terraform may
    destroy it with all that is in it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        /,
        *,
        name: str,
        key_arn: str,
        production: bool,
        lifecycle: Sequence[aws.S3BucketLifecycleConfiguration_Rule],
        served: Served | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.bucket = aws.S3Bucket(
            self, "bucket", bucket=name, force_destroy=not production, prevent_destroy=production
        )
        self.name = self.bucket.id
        self.arn = self.bucket.arn
        private = self._keep_private()
        self._encrypt(key_arn)
        versions = self._keep_versions()
        denied = (tls_only(self.arn), _recent_tls_only(self.arn), *_this_encryption_only(self.arn, key_arn))
        policy = Policy((*denied, *(() if served is None else (_may_serve(self.arn, served),))))
        aws.S3BucketPolicy(self, "policy", bucket=self.name, policy=policy.json, depends_on=[private])
        aws.S3BucketLifecycleConfiguration(
            self, "lifecycle", bucket=self.name, rule=list(lifecycle), depends_on=[versions]
        )

    def _keep_private(self) -> aws.S3BucketPublicAccessBlock:
        rule = aws.S3BucketOwnershipControls_Rule(object_ownership="BucketOwnerEnforced")
        aws.S3BucketOwnershipControls(self, "ownership", bucket=self.name, rule=rule)
        return aws.S3BucketPublicAccessBlock(
            self,
            "public-access",
            bucket=self.name,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
        )

    def _encrypt(self, key_arn: str) -> None:
        """Encrypt objects with a bucket key, so that S3 makes fewer of KMS's billed calls."""
        by_default = aws.S3BucketServerSideEncryptionConfiguration_Rule_ApplyServerSideEncryptionByDefault(
            sse_algorithm="aws:kms", kms_master_key_id=key_arn
        )
        rule = aws.S3BucketServerSideEncryptionConfiguration_Rule(
            bucket_key_enabled=True, apply_server_side_encryption_by_default=by_default
        )
        aws.S3BucketServerSideEncryptionConfiguration(self, "encryption", bucket=self.name, rule=rule)

    def _keep_versions(self) -> aws.S3BucketVersioning:
        enabled = aws.S3BucketVersioning_VersioningConfiguration(status="Enabled")
        return aws.S3BucketVersioning(self, "versioning", bucket=self.name, versioning_configuration=enabled)


def _may_serve(bucket_arn: str, served: Served) -> Statement:
    return Statement(
        sid="LinksOfOurs",
        principal=CLOUDFRONT,
        actions=("s3:GetObject",),
        resources=(f"{bucket_arn}/{served.folder}/*",),
        conditions={"ArnLike": {"aws:SourceArn": served.distributions}},
    )


def _recent_tls_only(bucket_arn: str) -> Statement:
    return Statement(
        sid="RecentTlsOnly",
        effect="Deny",
        principal=EVERYBODY,
        actions=("s3:*",),
        resources=(bucket_arn, f"{bucket_arn}/*"),
        conditions={"NumericLessThan": {"s3:TlsVersion": "1.2"}},
    )


def _this_encryption_only(bucket_arn: str, key_arn: str) -> tuple[Statement, ...]:
    """Deny writes that name another encryption or another key; those that name none get the bucket's.

    KMS without a key's name is another key: that of the account for S3.
    """
    kind, key = "s3:x-amz-server-side-encryption", "s3:x-amz-server-side-encryption-aws-kms-key-id"
    refused: dict[str, Conditions] = {
        "ThisEncryptionOnly": {"Null": {kind: "false"}, "StringNotEquals": {kind: "aws:kms"}},
        "ThisKeyOnly": {"Null": {key: "false"}, "StringNotEquals": {key: key_arn}},
        "NamedKeyOnly": {"Null": {key: "true"}, "StringEquals": {kind: "aws:kms"}},
    }
    return tuple(
        Statement(
            sid=sid,
            effect="Deny",
            principal=EVERYBODY,
            actions=("s3:PutObject",),
            resources=(f"{bucket_arn}/*",),
            conditions=conditions,
        )
        for sid, conditions in refused.items()
    )
