"""List the resources of an environment, looked up by name in AWS and Confluent Cloud.

The lookup does not depend on Terraform's state, except for Snowflake, which cannot be queried from here. `delete`
ends with three lists: deleted, scheduled for deletion (with the date), and left, which must be empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from infra.wanted.exports import WITHOUT_CLOUDFRONT
from shared.confluent_api import ConfluentCloud


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """A resource in the account. `leaves_on`: the date of its scheduled deletion by AWS."""

    kind: str
    name: str
    leaves_on: date | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """The result of a `delete`."""

    gone: tuple[Resource, ...]
    scheduled: tuple[Resource, ...]
    kept: tuple[Resource, ...]
    left: tuple[Resource, ...]


def compare(before: Sequence[Resource], after: Sequence[Resource], *, keep: Callable[[Resource], bool]) -> Inventory:
    """Sort the resources into deleted, scheduled, kept and left; `keep` says which ones `--keep-data` keeps."""
    here = {(resource.kind, resource.name): resource for resource in after}
    remaining = sorted(resource for resource in here.values() if resource.leaves_on is None)
    return Inventory(
        gone=tuple(sorted(resource for resource in before if (resource.kind, resource.name) not in here)),
        scheduled=tuple(sorted(resource for resource in here.values() if resource.leaves_on is not None)),
        kept=tuple(resource for resource in remaining if keep(resource)),
        left=tuple(resource for resource in remaining if not keep(resource)),
    )


@dataclass(frozen=True, slots=True)
class Names:
    """The names and prefixes that identify the resources of an environment; nameless resources have a `Name` tag."""

    prefix: str
    bucket: str
    database: str
    secret_prefix: str
    log_groups: tuple[str, ...]
    cluster: str = ""
    """The id of the Confluent Cloud cluster, which is also the name of Tableflow's Glue database."""


Lookup = Callable[[Any, Names], Iterator[Resource]]
"""Yields the resources of one type, found with a boto3 session."""


def look(session: Any, names: Names) -> list[Resource]:
    """Return the AWS resources of the environment that exist now. `session` is a boto3 session."""
    return sorted(resource for find in OF_TYPES.values() for resource in find(session, names))


def in_snowflake(named: Iterable[tuple[str, str]]) -> Iterator[Resource]:
    """Yield the Snowflake resources among the (type, name) pairs of Terraform's state."""
    for kind, name in named:
        if kind.startswith("snowflake_"):
            words = SHORTER.get(kind) or kind.removeprefix("snowflake_").replace("_", " ")
            yield Resource(f"Snowflake {words}", name)


def in_confluent(cloud: ConfluentCloud, prefix: str) -> Iterator[Resource]:
    """Yield the Confluent Cloud resources whose names start with the prefix."""
    for each in cloud.things_named(f"{prefix}-"):
        yield Resource(f"Confluent {each.kind}", f"{each.name} ({each.id})")


SHORTER = {
    "snowflake_account_role": "role",
    "snowflake_catalog_integration_aws_glue": "catalog integration",
    "snowflake_catalog_integration_iceberg_rest": "catalog integration",
    "snowflake_iceberg_table_from_aws_glue": "Iceberg table",
    "snowflake_iceberg_table_from_rest": "Iceberg table",
    "snowflake_service_user": "user",
    "snowflake_stage_external_s3": "stage",
    "snowflake_storage_integration_aws": "storage integration",
}


def _buckets(session: Any, names: Names) -> Iterator[Resource]:
    for bucket in session.client("s3").list_buckets()["Buckets"]:
        if bucket["Name"] == names.bucket:
            yield Resource("S3 bucket", bucket["Name"])


def _databases(session: Any, names: Names) -> Iterator[Resource]:
    glue = session.client("glue")
    for database in _pages(glue, "get_databases", "DatabaseList"):
        is_in_bucket = names.bucket and database.get("LocationUri", "").startswith(f"s3://{names.bucket}/")
        if is_in_bucket or database["Name"] in {names.database, names.cluster} - {""}:
            yield Resource("Glue database", database["Name"])
            tables = _pages(glue, "get_tables", "TableList", DatabaseName=database["Name"])
            yield from (Resource("Glue table", f"{database['Name']}.{table['Name']}") for table in tables)


def _keys(session: Any, names: Names) -> Iterator[Resource]:
    """Yield KMS keys found by alias or tag: the alias is deleted at once, the key only after a waiting period."""
    kms, name = session.client("kms"), f"{names.prefix}-lake"
    aliases = _pages(kms, "list_aliases", "Aliases")
    aliased = {each.get("TargetKeyId") for each in aliases if each["AliasName"] == f"alias/{name}"}
    for key in _pages(kms, "list_keys", "Keys"):
        if key["KeyId"] in aliased or _is_tagged(kms, key["KeyId"], name):
            deletion = kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"].get("DeletionDate")
            yield Resource("KMS key", key["KeyId"], deletion.date() if deletion else None)


def _served(kind: str, operation: str, *, listed: str, name: Callable[[Any], str]) -> Lookup:
    """Return a lookup for what CloudFront has, which is named by ids of AWS: its name or comment is ours.

    Most environments use no CloudFront, and an organization may deny it. Then nothing of ours could be made there.
    """

    def served(session: Any, names: Names) -> Iterator[Resource]:
        from botocore.exceptions import ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

        if str(session.region_name).startswith(WITHOUT_CLOUDFRONT):
            return
        try:
            for page in _all_of(getattr(session.client("cloudfront"), operation), listed):
                yield from (Resource(kind, name(each)) for each in page if _is_ours(name(each), names))
        except ClientError as refused:
            if refused.response["Error"]["Code"] not in NOT_OURS:
                raise

    return served


def _all_of(call: Callable[..., Any], listed: str) -> Iterator[Sequence[Any]]:
    """Yield the pages of a list of CloudFront, some of which boto3 has no paginator for."""
    after = dict[str, str]()
    while True:
        page = call(**after)[listed]
        yield page.get("Items") or ()
        if not page.get("NextMarker"):
            return
        after = {"Marker": page["NextMarker"]}


def _is_tagged(kms: Any, key: str, name: str) -> bool:
    """Return whether the key has this `Name` tag; False if its key policy denies access, which Frazil's never does."""
    from botocore.exceptions import ClientError  # noqa: PLC0415

    try:
        tags = kms.list_resource_tags(KeyId=key)["Tags"]
    except ClientError as refused:
        if refused.response["Error"]["Code"] in NOT_OURS:
            return False
        raise
    return {"TagKey": "Name", "TagValue": name} in tags


NOT_OURS = frozenset({"AccessDenied", "AccessDeniedException", "NotFoundException", "UnsupportedOperationException"})


def _secrets(session: Any, names: Names) -> Iterator[Resource]:
    secrets = _pages(session.client("secretsmanager"), "list_secrets", "SecretList", IncludePlannedDeletion=True)
    for secret in secrets:
        if secret["Name"].startswith(names.secret_prefix):
            deletion = secret.get("DeletedDate")
            yield Resource("secret", secret["Name"], deletion.date() if deletion else None)


def _log_groups(session: Any, names: Names) -> Iterator[Resource]:
    logs = session.client("logs")
    for prefix in names.log_groups:
        for group in _pages(logs, "describe_log_groups", "logGroups", logGroupNamePrefix=prefix):
            yield Resource("log group", group["logGroupName"])


def _applications(session: Any, names: Names) -> Iterator[Resource]:
    for application in _pages(session.client("emr-serverless"), "list_applications", "applications"):
        if _is_ours(application["name"], names) and application["state"] != "TERMINATED":
            yield Resource("EMR Serverless application", f"{application['name']} ({application['id']})")


def _is_ours(name: str, names: Names) -> bool:
    """Return whether a name belongs to the environment; `frazil-dev2-lake` does not belong to `dev`."""
    return name == names.prefix or name.startswith(f"{names.prefix}-")


def _named(kind: str, service: str, operation: str, *, listed: str, name: str) -> Lookup:
    """Return a lookup for resources whose name, or the last part of whose ARN or URL, has the prefix."""

    def named(session: Any, names: Names) -> Iterator[Resource]:
        for each in _pages(session.client(service), operation, listed):
            found = each if isinstance(each, str) else each[name]
            if _is_ours(re.split("[:/]", found)[-1], names):
                yield Resource(kind, found)

    return named


def _tagged(kind: str, operation: str, *, listed: str, identity: str) -> Lookup:
    """Return a lookup for network resources, which are named only by their `Name` tag."""

    def tagged(session: Any, names: Names) -> Iterator[Resource]:
        for each in getattr(session.client("ec2"), operation)(Filters=_by_name(names))[listed]:
            if each.get("State") != "deleted":
                yield Resource(kind, each[identity])

    return tagged


def _instances(session: Any, names: Names) -> Iterator[Resource]:
    """Yield NAT instances that are not terminated; EC2 lists a terminated one for another hour."""
    for reservation in session.client("ec2").describe_instances(Filters=_by_name(names))["Reservations"]:
        for instance in reservation["Instances"]:
            if instance["State"]["Name"] not in {"terminated", "shutting-down"}:
                yield Resource("NAT instance", instance["InstanceId"])


def _by_name(names: Names) -> list[dict[str, Any]]:
    return [{"Name": "tag:Name", "Values": [names.prefix, f"{names.prefix}-*"]}]


def _zones(session: Any, names: Names) -> Iterator[Resource]:
    """Yield Route 53 zones by `Name` tag; the zone name is the brokers' domain, which does not identify us."""
    route53 = session.client("route53")
    for zone in _pages(route53, "list_hosted_zones", "HostedZones"):
        number = zone["Id"].rsplit("/", 1)[-1]
        told = route53.list_tags_for_resource(ResourceType="hostedzone", ResourceId=number)["ResourceTagSet"]["Tags"]
        if any(tag["Key"] == "Name" and _is_ours(tag["Value"], names) for tag in told):
            yield Resource("Route 53 zone", f"{zone['Name']} ({number})")


def _pages(client: Any, operation: str, listed: str, **asked: object) -> Iterator[Any]:
    if client.can_paginate(operation):
        for page in client.get_paginator(operation).paginate(**asked):
            yield from page.get(listed, ())
    else:
        yield from getattr(client, operation)(**asked).get(listed, ())


OF_TYPES: Mapping[str, Lookup] = {
    "aws_athena_workgroup": _named("Athena workgroup", "athena", "list_work_groups", listed="WorkGroups", name="Name"),
    "aws_cloudfront_distribution": _served(
        "CloudFront distribution", "list_distributions", listed="DistributionList", name=lambda each: each["Comment"]
    ),
    "aws_cloudfront_key_group": _served(
        "CloudFront key group",
        "list_key_groups",
        listed="KeyGroupList",
        name=lambda each: each["KeyGroup"]["KeyGroupConfig"]["Name"],
    ),
    "aws_cloudfront_origin_access_control": _served(
        "CloudFront access control",
        "list_origin_access_controls",
        listed="OriginAccessControlList",
        name=lambda each: each["Name"],
    ),
    "aws_cloudfront_public_key": _served(
        "CloudFront public key", "list_public_keys", listed="PublicKeyList", name=lambda each: each["Name"]
    ),
    "aws_cloudwatch_dashboard": _named(
        "dashboard", "cloudwatch", "list_dashboards", listed="DashboardEntries", name="DashboardName"
    ),
    "aws_cloudwatch_log_group": _log_groups,
    "aws_cloudwatch_metric_alarm": _named(
        "alarm", "cloudwatch", "describe_alarms", listed="MetricAlarms", name="AlarmName"
    ),
    "aws_eip": _tagged("elastic IP", "describe_addresses", listed="Addresses", identity="AllocationId"),
    "aws_emrserverless_application": _applications,
    "aws_glue_catalog_database": _databases,
    "aws_iam_role": _named("IAM role", "iam", "list_roles", listed="Roles", name="RoleName"),
    "aws_instance": _instances,
    "aws_internet_gateway": _tagged(
        "internet gateway", "describe_internet_gateways", listed="InternetGateways", identity="InternetGatewayId"
    ),
    "aws_kms_key": _keys,
    "aws_lambda_function": _named(
        "Lambda function", "lambda", "list_functions", listed="Functions", name="FunctionName"
    ),
    "aws_nat_gateway": _tagged("NAT gateway", "describe_nat_gateways", listed="NatGateways", identity="NatGatewayId"),
    "aws_route53_zone": _zones,
    "aws_route_table": _tagged("route table", "describe_route_tables", listed="RouteTables", identity="RouteTableId"),
    "aws_s3_bucket": _buckets,
    "aws_scheduler_schedule": _named("schedule", "scheduler", "list_schedules", listed="Schedules", name="Name"),
    "aws_scheduler_schedule_group": _named(
        "schedule group", "scheduler", "list_schedule_groups", listed="ScheduleGroups", name="Name"
    ),
    "aws_secretsmanager_secret": _secrets,
    "aws_security_group": _tagged(
        "security group", "describe_security_groups", listed="SecurityGroups", identity="GroupId"
    ),
    "aws_sns_topic": _named("SNS topic", "sns", "list_topics", listed="Topics", name="TopicArn"),
    "aws_sqs_queue": _named("SQS queue", "sqs", "list_queues", listed="QueueUrls", name=""),
    "aws_subnet": _tagged("subnet", "describe_subnets", listed="Subnets", identity="SubnetId"),
    "aws_vpc": _tagged("VPC", "describe_vpcs", listed="Vpcs", identity="VpcId"),
    "aws_vpc_endpoint": _tagged(
        "VPC endpoint", "describe_vpc_endpoints", listed="VpcEndpoints", identity="VpcEndpointId"
    ),
}
"""The lookup for each resource type of Terraform that can be left behind alone."""

DELETED_WITH: Mapping[str, str] = {
    "aws_cloudwatch_log_metric_filter": "aws_cloudwatch_log_group",
    "aws_default_security_group": "aws_vpc",
    "aws_iam_role_policy": "aws_iam_role",
    "aws_kms_alias": "aws_kms_key",
    "aws_lakeformation_permissions": "aws_glue_catalog_database",
    "aws_lambda_function_event_invoke_config": "aws_lambda_function",
    "aws_lambda_invocation": "aws_lambda_function",
    "aws_lambda_permission": "aws_lambda_function",
    "aws_route": "aws_route_table",
    "aws_route53_record": "aws_route53_zone",
    "aws_route_table_association": "aws_route_table",
    "aws_s3_bucket_lifecycle_configuration": "aws_s3_bucket",
    "aws_s3_bucket_ownership_controls": "aws_s3_bucket",
    "aws_s3_bucket_policy": "aws_s3_bucket",
    "aws_s3_bucket_public_access_block": "aws_s3_bucket",
    "aws_s3_bucket_server_side_encryption_configuration": "aws_s3_bucket",
    "aws_s3_bucket_versioning": "aws_s3_bucket",
    "aws_s3_object": "aws_s3_bucket",
    "aws_secretsmanager_secret_policy": "aws_secretsmanager_secret",
    "aws_secretsmanager_secret_rotation": "aws_secretsmanager_secret",
    "aws_sns_topic_policy": "aws_sns_topic",
    "aws_sns_topic_subscription": "aws_sns_topic",
    "aws_vpc_security_group_egress_rule": "aws_security_group",
    "aws_vpc_security_group_ingress_rule": "aws_security_group",
}
"""Types without a lookup of their own: they belong to a resource of the other type and are deleted with it."""

UNUSED = frozenset({"aws_lakeformation_resource"})
"""Types that no stack has: the bucket is not registered with Lake Formation."""
