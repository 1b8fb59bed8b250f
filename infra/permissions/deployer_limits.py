"""What limits each action of the deployer's policy: names, tags, or the service that uses the key.

From the service authorization reference of AWS. Limits are left out where they would refuse a call that the deployment
makes: on resources that are not tagged yet, and on those of an existing network, which have other tags.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.model.settings import GlueSource
from infra.settings.model import EnvironmentSettings, ExternalKafka, ExternalRegistry, S3State
from shared.naming import APPLICATION, database_name, partition_of

IN_ANY_RESOURCE = frozenset(
    {
        "cloudwatch:DescribeAlarms",
        "glue:GetDatabase",
        "glue:GetDatabases",
        "glue:GetSchemaVersion",
        "glue:GetTable",
        "glue:GetTables",
        "glue:GetTags",
        "logs:Describe*",
        "sns:GetSubscriptionAttributes",
        "sns:SetSubscriptionAttributes",
        "sns:Unsubscribe",
    }
)
"""Actions without resource types, and the lookups of the inventory, in services that are limited by name otherwise."""

BY_TAG = frozenset(
    {
        *(f"cloudfront:{verb}" for verb in ("DeleteDistribution", "UntagResource", "UpdateDistribution")),
        *(f"ec2:Delete{what}" for what in ("InternetGateway", "NatGateway", "Route", "RouteTable", "SecurityGroup")),
        *(f"ec2:Delete{what}" for what in ("Subnet", "Tags", "Vpc", "VpcEndpoints")),
        *(f"ec2:{verb}Instances" for verb in ("Start", "Stop", "Terminate")),
        "ec2:ModifyInstanceAttribute",
        "ec2:ReleaseAddress",
        *(f"emr-serverless:{verb}Application" for verb in ("Delete", "Start", "Stop", "Update")),
        "emr-serverless:UntagResource",
        *(f"kms:{verb}" for verb in ("DisableKeyRotation", "PutKeyPolicy", "ScheduleKeyDeletion", "UntagResource")),
    }
)
"""Actions on resources that have only ids of AWS, and that carry the environment's tags since they were created.

KMS needs up to five minutes to see the tags of a new key, so nothing that `create` does at once is among them.
"""

THROUGH_SERVICES = frozenset(
    f"kms:{verb}"
    for verb in (
        *("CreateGrant", "Decrypt", "Encrypt", "GenerateDataKey", "GenerateDataKeyWithoutPlaintext"),
        *("ReEncryptFrom", "ReEncryptTo"),
    )
)
"""Uses of a key, allowed only in requests to services, whose own actions are limited by name."""
SERVICE_ROLES = "iam::*:role/aws-service-role/*"
SERVICES_WITH_KEYS = ("ec2", "glue", "lambda", "logs", "s3", "secretsmanager", "sns", "sqs")
"""Of EC2 and Glue it is a key of the account's own: for new disks by default, and for the Data Catalog."""

OF_KEY_AND_ALIAS = frozenset({"kms:DeleteAlias"})
"""KMS checks it on the alias, which has a name, and on the key. Aliases are created while a key is too new for tags."""

WITHIN_BOUNDARY = frozenset(
    f"iam:{verb}" for verb in ("AttachRolePolicy", "CreateRole", "PutRolePermissionsBoundary", "PutRolePolicy")
)
"""What gives a role permissions: allowed only for roles with the permissions boundary, if the settings name one."""

OF_SERVICE_ROLES = frozenset({"iam:PutRolePolicy"})
"""Lake Formation writes the policy of its service-linked role with the caller's permissions; that has no boundary."""

Condition = tuple[str, str, tuple[str, ...]]
"""Operator, key and values."""


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """The resources and the conditions of one statement."""

    resources: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()

    def statement(self, actions: list[str]) -> Mapping[str, object]:
        """Return the statement that allows the actions here."""
        wanted: dict[str, dict[str, list[str]]] = {}
        for operator, key, values in self.conditions:
            wanted.setdefault(operator, {})[key] = list(values)
        allowed = {"Effect": "Allow", "Action": actions, "Resource": list(self.resources)}
        return {**allowed, "Condition": wanted} if wanted else allowed


ANYWHERE = Scope(("*",))


@dataclass(frozen=True, slots=True)
class Limits:
    """The names of an environment's resources. `partition`: the first word of its ARNs, `aws` in most regions.

    `bucket`: the lake's, None for the name that follows from the environment. `databases`: name patterns of Glue
    databases. `secrets`: names or ARNs of secrets that the settings name, which the step tables reads. `boundary`: the
    ARN of the permissions boundary of all roles. `in_glue`: whether AWS Glue's schema registry is read.
    """

    environment: str
    partition: str = "aws"
    bucket: str | None = None
    state_bucket: str | None = None
    databases: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    boundary: str | None = None
    in_glue: bool = False

    def scopes(self, action: str) -> tuple[Scope, ...]:
        """Return where the action is allowed; a call that concerns two resources needs both scopes."""
        service, _, word = action.partition(":")
        is_listing = word.startswith("List") and word != "ListSecretVersionIds"
        if action in BY_TAG:
            return (self._tagged(),)
        if action in THROUGH_SERVICES:
            return (_through_services(),)
        if action in OF_KEY_AND_ALIAS:
            return (self._named("kms:*:*:alias/", f"{APPLICATION}-{self.environment}-*"), self._tagged())
        if action in WITHIN_BOUNDARY and self.boundary is not None:
            return self._within(self.boundary, and_service_roles=action in OF_SERVICE_ROLES)
        if is_listing or action in IN_ANY_RESOURCE or service not in self._by_name():
            return (ANYWHERE,)
        return (Scope(self._by_name()[service]),)

    def named_objects(self) -> Mapping[Scope, list[str]]:
        """Return what is allowed on objects outside of the environment's names: states, and secrets of the settings."""
        found = dict[Scope, list[str]]()
        if self.state_bucket is not None:
            states = self._named("s3:::", f"{self.state_bucket}/{APPLICATION}/{self.environment}/*")
            found[states] = ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
        if self.secrets:
            found[Scope(tuple(self._secret(name) for name in self.secrets))] = ["secretsmanager:GetSecretValue"]
        return found

    def _by_name(self) -> Mapping[str, tuple[str, ...]]:
        """Return the ARNs of each service whose resources have names."""
        name, lake = f"{APPLICATION}-{self.environment}-*", self.bucket or f"{APPLICATION}-{self.environment}-*"
        parts: Mapping[str, tuple[str, ...]] = {
            "athena": (f"athena:*:*:workgroup/{name}",),
            "cloudwatch": (f"cloudwatch:*:*:alarm:{name}", f"cloudwatch::*:dashboard/{name}"),
            "glue": ("glue:*:*:catalog", *self._databases()),
            "iam": (f"iam::*:role/{name}", SERVICE_ROLES),
            "lambda": (f"lambda:*:*:function:{name}",),
            "logs": tuple(
                f"logs:*:*:log-group:{prefix}*"
                for prefix in (f"/{APPLICATION}/{self.environment}/", f"/aws/lambda/{APPLICATION}-{self.environment}-")
            ),
            "s3": (f"s3:::{lake}", f"s3:::{lake}/*"),
            "scheduler": (f"scheduler:*:*:schedule*/{name}",),
            "secretsmanager": (f"secretsmanager:*:*:secret:{APPLICATION}/{self.environment}/*",),
            "sns": (f"sns:*:*:{name}",),
            "sqs": (f"sqs:*:*:{name}",),
            "ssm": ("ssm:*::parameter/aws/service/*",),
        }
        return {service: tuple(f"arn:{self.partition}:{each}" for each in listed) for service, listed in parts.items()}

    def _databases(self) -> tuple[str, ...]:
        """Return the databases with their contents, against all of which Glue checks a deletion."""
        return tuple(
            f"glue:*:*:{part}"
            for name in self.databases or ("*",)
            for part in (f"database/{name}", f"table/{name}/*", f"userDefinedFunction/{name}/*")
        )

    def _secret(self, name: str) -> str:
        """Return the ARN of a secret; AWS ends it with a hyphen and six letters of its own."""
        return name if name.startswith("arn:") else f"arn:{self.partition}:secretsmanager:*:*:secret:{name}-??????"

    def _named(self, part: str, name: str) -> Scope:
        return Scope((f"arn:{self.partition}:{part}{name}",))

    def _within(self, boundary: str, *, and_service_roles: bool) -> tuple[Scope, ...]:
        ours = self._named("iam::*:role/", f"{APPLICATION}-{self.environment}-*").resources
        bound = Scope(ours, (("StringEquals", "iam:PermissionsBoundary", (boundary,)),))
        return (bound, Scope((f"arn:{self.partition}:{SERVICE_ROLES}",))) if and_service_roles else (bound,)

    def _tagged(self) -> Scope:
        tags = {"application": APPLICATION, "environment": self.environment}
        conditions = tuple(("StringEquals", f"aws:ResourceTag/{tag}", (value,)) for tag, value in tags.items())
        return Scope(("*",), conditions)


def _through_services() -> Scope:
    services = tuple(f"{service}.*.amazonaws.com*" for service in SERVICES_WITH_KEYS)
    return Scope(("*",), (("StringLike", "kms:ViaService", services),))


def limits_of(settings: EnvironmentSettings) -> Limits:
    """Return the limits that the settings imply, without a request to AWS."""
    kafka, backend = settings.kafka, settings.backend
    return Limits(
        environment=settings.environment,
        partition=partition_of(settings.region),
        bucket=settings.lake.bucket,
        state_bucket=backend.bucket if isinstance(backend, S3State) else None,
        databases=_databases_of(settings),
        secrets=_secrets_of(kafka) if isinstance(kafka, ExternalKafka) else (),
        boundary=settings.permissions_boundary,
        in_glue=isinstance(kafka, ExternalKafka) and isinstance(kafka.registry, GlueSource),
    )


def _secrets_of(kafka: ExternalKafka) -> tuple[str, ...]:
    of_registry = kafka.registry.credentials if isinstance(kafka.registry, ExternalRegistry) else None
    return tuple(sorted({name for name in (kafka.credentials, of_registry) if name is not None}))


def _databases_of(settings: EnvironmentSettings) -> tuple[str, ...]:
    """Return name patterns: a database named after a cluster of Confluent Cloud begins with `lkc`."""
    named = settings.lake.database
    if isinstance(settings.kafka, ExternalKafka):
        return (named or database_name(settings.kafka.name),)
    return tuple(filter(None, (named, "lkc-*", "" if named else "lkc_*")))
