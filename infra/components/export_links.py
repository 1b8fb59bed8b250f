"""CloudFront in front of the exported files: only a URL that is signed with the key of the links opens a file."""

from __future__ import annotations

import json

from infra.cdk import Construct, Fn
from infra.components.python_lambda import PythonLambda
from infra.resources import aws
from shared import naming

NO_CACHE = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
"""CachingDisabled, a policy that AWS manages: a file is opened a few times, and what S3 deletes is gone at once."""
ORIGIN = "lake"


class ExportLinks(Construct):
    """A distribution that serves the bucket of the exports. `address` is that of the distribution, `key_id` the key's.

    The function that exports makes the key: the private half is in `secret` alone, Terraform gets the public one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        /,
        *,
        environment: str,
        function: PythonLambda,
        secret: aws.SecretsmanagerSecret,
        bucket_domain: str,
    ) -> None:
        super().__init__(scope, construct_id)
        name = naming.resource_name(environment, "exports")
        self.secret = secret.name
        key = self._key(name, function, secret)
        group = aws.CloudfrontKeyGroup(self, "keys", name=name, items=[key.id], comment="Signs links to exports")
        access = aws.CloudfrontOriginAccessControl(
            self,
            "access",
            name=name,
            description="Reads exports as CloudFront",
            origin_access_control_origin_type="s3",
            signing_behavior="always",
            signing_protocol="sigv4",
        )
        distribution = self._distribution(name, group, access, bucket_domain)
        self.key_id = key.id
        self.address = f"https://{distribution.domain_name}"

    def _key(self, name: str, function: PythonLambda, secret: aws.SecretsmanagerSecret) -> aws.CloudfrontPublicKey:
        made = aws.LambdaInvocation(
            self,
            "key-pair",
            function_name=function.name,
            input=json.dumps({"link_key": secret.name}),
            depends_on=[function.ready],
            replace_triggered_by=[f"{secret.address}.arn"],
        )
        public = Fn.lookup(Fn.jsondecode(made.result), "public_key")
        return aws.CloudfrontPublicKey(
            self, "public-key", name_prefix=f"{name}-", encoded_key=str(public), create_before_destroy=True
        )

    def _distribution(
        self, name: str, group: aws.CloudfrontKeyGroup, access: aws.CloudfrontOriginAccessControl, bucket_domain: str
    ) -> aws.CloudfrontDistribution:
        return aws.CloudfrontDistribution(
            self,
            "distribution",
            comment=name,
            enabled=True,
            is_ipv6_enabled=True,
            http_version="http2and3",
            wait_for_deployment=False,
            origin=aws.CloudfrontDistribution_Origin(
                domain_name=bucket_domain, origin_id=ORIGIN, origin_access_control_id=access.id
            ),
            default_cache_behavior=aws.CloudfrontDistribution_DefaultCacheBehavior(
                allowed_methods=["GET", "HEAD"],
                cached_methods=["GET", "HEAD"],
                cache_policy_id=NO_CACHE,
                compress=False,
                target_origin_id=ORIGIN,
                trusted_key_groups=[group.id],
                viewer_protocol_policy="https-only",
            ),
            restrictions=aws.CloudfrontDistribution_Restrictions(
                geo_restriction=aws.CloudfrontDistribution_Restrictions_GeoRestriction(restriction_type="none")
            ),
            viewer_certificate=aws.CloudfrontDistribution_ViewerCertificate(cloudfront_default_certificate=True),
        )
