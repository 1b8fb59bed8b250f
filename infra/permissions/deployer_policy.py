"""The permissions that `scripts/deploy.sh` needs in AWS, generated from the resource types of the stacks.

`scripts/deploy.sh check --policy` prints them as an IAM policy document. `OF_TYPES` lists what Terraform's provider
calls for each type, from the service authorization reference of AWS and from recorded calls; `OF_STEPS` what the steps
of the deployment call by themselves. `deployer_limits.py` limits each action to the environment's resources, where its
service allows that.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from infra.permissions.deployer_limits import Limits, Scope

READS = {
    "athena": ("athena:GetWorkGroup", "athena:ListTagsForResource", "athena:ListWorkGroups"),
    "cloudfront": ("cloudfront:Get*", "cloudfront:List*"),
    "cloudwatch": ("cloudwatch:DescribeAlarms", "cloudwatch:GetDashboard", "cloudwatch:List*"),
    "ec2": ("ec2:Describe*",),
    "emr-serverless": ("emr-serverless:Get*", "emr-serverless:List*"),
    "glue": ("glue:GetDatabase", "glue:GetDatabases", "glue:GetTable", "glue:GetTables", "glue:GetTags"),
    "iam": ("iam:GetRole", "iam:GetRolePolicy", "iam:List*"),
    "kms": ("kms:Describe*", "kms:Get*", "kms:List*"),
    "lakeformation": ("lakeformation:Describe*", "lakeformation:Get*", "lakeformation:List*"),
    "lambda": ("lambda:Get*", "lambda:List*"),
    "logs": ("logs:Describe*", "logs:FilterLogEvents", "logs:List*"),
    "route53": ("route53:Get*", "route53:List*"),
    "s3": ("s3:Get*", "s3:List*"),
    "scheduler": ("scheduler:Get*", "scheduler:List*"),
    "secretsmanager": (
        "secretsmanager:DescribeSecret",
        "secretsmanager:GetResourcePolicy",
        "secretsmanager:GetSecretValue",
        "secretsmanager:ListSecrets",
        "secretsmanager:ListSecretVersionIds",
    ),
    "sns": ("sns:Get*", "sns:List*"),
    "sqs": ("sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:ListQueues", "sqs:ListQueueTags"),
}
"""What a plan and an inventory read; an inventory queries each service, even without resources in the stacks.

Wildcards keep the document within the size that IAM allows.
"""


def _of(service: str, words: str) -> tuple[str, ...]:
    return tuple(f"{service}:{word}" for word in words.split())


OF_TYPES: Mapping[str, tuple[str, ...]] = {
    "aws_athena_workgroup": _of("athena", "CreateWorkGroup UpdateWorkGroup DeleteWorkGroup TagResource UntagResource"),
    "aws_cloudfront_distribution": _of(
        "cloudfront", "CreateDistribution UpdateDistribution DeleteDistribution TagResource UntagResource"
    ),
    "aws_cloudfront_key_group": _of("cloudfront", "CreateKeyGroup UpdateKeyGroup DeleteKeyGroup"),
    "aws_cloudfront_origin_access_control": _of(
        "cloudfront", "CreateOriginAccessControl UpdateOriginAccessControl DeleteOriginAccessControl"
    ),
    "aws_cloudfront_public_key": _of("cloudfront", "CreatePublicKey UpdatePublicKey DeletePublicKey"),
    "aws_cloudwatch_dashboard": _of("cloudwatch", "PutDashboard DeleteDashboards"),
    "aws_cloudwatch_log_group": _of(
        "logs",
        "CreateLogGroup DeleteLogGroup PutRetentionPolicy DeleteRetentionPolicy AssociateKmsKey DisassociateKmsKey "
        "TagResource UntagResource",
    ),
    "aws_cloudwatch_log_metric_filter": _of("logs", "PutMetricFilter DeleteMetricFilter"),
    "aws_cloudwatch_metric_alarm": _of("cloudwatch", "PutMetricAlarm DeleteAlarms TagResource UntagResource"),
    "aws_default_security_group": _of("ec2", "RevokeSecurityGroupIngress RevokeSecurityGroupEgress"),
    "aws_eip": _of("ec2", "AllocateAddress ReleaseAddress AssociateAddress DisassociateAddress"),
    "aws_emrserverless_application": (
        *_of("emr-serverless", "CreateApplication UpdateApplication DeleteApplication StartApplication"),
        *_of("emr-serverless", "StopApplication TagResource UntagResource"),
        "ec2:CreateNetworkInterface",
    ),
    "aws_glue_catalog_database": _of("glue", "CreateDatabase UpdateDatabase DeleteDatabase TagResource UntagResource"),
    "aws_iam_role": _of(
        "iam",
        "CreateRole UpdateRole UpdateRoleDescription UpdateAssumeRolePolicy DeleteRole TagRole UntagRole PassRole "
        "DetachRolePolicy",
    ),
    "aws_iam_role_policy": _of("iam", "PutRolePolicy DeleteRolePolicy"),
    "aws_instance": (
        *_of("ec2", "RunInstances TerminateInstances StartInstances StopInstances ModifyInstanceAttribute"),
        *_of("kms", "CreateGrant Decrypt GenerateDataKeyWithoutPlaintext ReEncryptFrom ReEncryptTo"),
    ),
    "aws_internet_gateway": _of(
        "ec2", "CreateInternetGateway DeleteInternetGateway AttachInternetGateway DetachInternetGateway"
    ),
    "aws_kms_alias": _of("kms", "CreateAlias UpdateAlias DeleteAlias"),
    "aws_kms_key": _of(
        "kms",
        "CreateKey ScheduleKeyDeletion EnableKey EnableKeyRotation DisableKeyRotation PutKeyPolicy "
        "UpdateKeyDescription TagResource UntagResource Encrypt Decrypt GenerateDataKey CreateGrant",
    ),
    "aws_lakeformation_permissions": _of("lakeformation", "GrantPermissions RevokePermissions"),
    "aws_lakeformation_resource": (
        *_of("lakeformation", "RegisterResource UpdateResource DeregisterResource"),
        *_of("iam", "CreateServiceLinkedRole PutRolePolicy PassRole"),
    ),
    "aws_lambda_function": _of(
        "lambda",
        "CreateFunction UpdateFunctionCode UpdateFunctionConfiguration DeleteFunction TagResource UntagResource",
    ),
    "aws_lambda_function_event_invoke_config": _of(
        "lambda", "PutFunctionEventInvokeConfig UpdateFunctionEventInvokeConfig DeleteFunctionEventInvokeConfig"
    ),
    "aws_lambda_invocation": _of("lambda", "InvokeFunction"),
    "aws_lambda_permission": _of("lambda", "AddPermission RemovePermission"),
    "aws_nat_gateway": _of("ec2", "CreateNatGateway DeleteNatGateway"),
    "aws_route": _of("ec2", "CreateRoute ReplaceRoute DeleteRoute"),
    "aws_route53_record": _of("route53", "ChangeResourceRecordSets"),
    "aws_route53_zone": (
        *_of("route53", "CreateHostedZone DeleteHostedZone UpdateHostedZoneComment ChangeTagsForResource"),
        *_of("route53", "AssociateVPCWithHostedZone DisassociateVPCFromHostedZone"),
    ),
    "aws_route_table": _of("ec2", "CreateRouteTable DeleteRouteTable"),
    "aws_route_table_association": _of(
        "ec2", "AssociateRouteTable ReplaceRouteTableAssociation DisassociateRouteTable"
    ),
    "aws_s3_bucket": _of("s3", "CreateBucket DeleteBucket PutBucketTagging"),
    "aws_s3_bucket_lifecycle_configuration": _of("s3", "PutLifecycleConfiguration"),
    "aws_s3_bucket_ownership_controls": _of("s3", "PutBucketOwnershipControls"),
    "aws_s3_bucket_policy": _of("s3", "PutBucketPolicy DeleteBucketPolicy"),
    "aws_s3_bucket_public_access_block": _of("s3", "PutBucketPublicAccessBlock"),
    "aws_s3_bucket_server_side_encryption_configuration": _of("s3", "PutEncryptionConfiguration"),
    "aws_s3_bucket_versioning": _of("s3", "PutBucketVersioning"),
    "aws_s3_object": _of("s3", "PutObject PutObjectTagging DeleteObject DeleteObjectVersion"),
    "aws_scheduler_schedule": (*_of("scheduler", "CreateSchedule UpdateSchedule DeleteSchedule"), "iam:PassRole"),
    "aws_scheduler_schedule_group": _of(
        "scheduler", "CreateScheduleGroup DeleteScheduleGroup TagResource UntagResource"
    ),
    "aws_secretsmanager_secret": _of(
        "secretsmanager", "CreateSecret UpdateSecret DeleteSecret RestoreSecret TagResource UntagResource"
    ),
    "aws_secretsmanager_secret_policy": _of(
        "secretsmanager", "PutResourcePolicy DeleteResourcePolicy ValidateResourcePolicy"
    ),
    "aws_secretsmanager_secret_rotation": _of("secretsmanager", "RotateSecret CancelRotateSecret"),
    "aws_security_group": _of(
        "ec2", "CreateSecurityGroup DeleteSecurityGroup RevokeSecurityGroupIngress RevokeSecurityGroupEgress"
    ),
    "aws_sns_topic": _of("sns", "CreateTopic DeleteTopic SetTopicAttributes TagResource UntagResource"),
    "aws_sns_topic_policy": _of("sns", "SetTopicAttributes"),
    "aws_sns_topic_subscription": _of(
        "sns", "Subscribe Unsubscribe GetSubscriptionAttributes SetSubscriptionAttributes"
    ),
    "aws_sqs_queue": _of("sqs", "CreateQueue DeleteQueue SetQueueAttributes TagQueue UntagQueue"),
    "aws_subnet": _of("ec2", "CreateSubnet DeleteSubnet ModifySubnetAttribute"),
    "aws_vpc": _of("ec2", "CreateVpc DeleteVpc ModifyVpcAttribute"),
    "aws_vpc_endpoint": _of("ec2", "CreateVpcEndpoint ModifyVpcEndpoint DeleteVpcEndpoints"),
    "aws_vpc_security_group_egress_rule": _of(
        "ec2", "AuthorizeSecurityGroupEgress ModifySecurityGroupRules RevokeSecurityGroupEgress"
    ),
    "aws_vpc_security_group_ingress_rule": _of(
        "ec2", "AuthorizeSecurityGroupIngress ModifySecurityGroupRules RevokeSecurityGroupIngress"
    ),
}
READ_IMAGE = ("ssm:GetParameter",)
BIND_ROLES = ("iam:PutRolePermissionsBoundary",)
"""Only where the settings name a boundary. A deployer that could delete it would not be limited by it."""
READ_SCHEMAS = _of("glue", "GetSchemaVersion ListSchemaVersions ListSchemas")
"""Of the step tables, if the schemas are in AWS Glue."""
TAGGED_IN_EC2 = ("ec2:CreateTags", "ec2:DeleteTags")

OF_STEPS: tuple[str, ...] = (
    *_of("s3", "PutObject DeleteObject DeleteObjectVersion AbortMultipartUpload"),
    *_of("glue", "CreateTable UpdateTable DeleteTable DeleteDatabase"),
    *_of("kms", "Decrypt GenerateDataKey"),
    *_of("logs", "DeleteLogGroup"),
    *_of("secretsmanager", "PutSecretValue RotateSecret UpdateSecretVersionStage DeleteSecret"),
    "lambda:InvokeFunction",
    "sts:GetCallerIdentity",
    "iam:CreateServiceLinkedRole",
)
"""Of the steps upload, tables, keys, rotate, empty and inventory; and the first application of an account."""

MOST_CHARACTERS = 6144
"""What IAM allows in one managed policy, spaces not counted."""


def actions(types: Collection[str]) -> frozenset[str]:
    """Return the actions of a deployment with these types. Raises KeyError for a type that is not in `OF_TYPES`."""
    of_aws = sorted(kind for kind in types if kind.startswith("aws_"))
    found = {action for kind in of_aws for action in OF_TYPES[kind]} | set(OF_STEPS)
    return frozenset(
        found
        | {action for reads in READS.values() for action in reads}
        | (set(READ_IMAGE) if "aws_instance" in types else set())
        | (set(TAGGED_IN_EC2) if any(action.startswith("ec2:Create") for action in found) else set())
    )


def policy_documents(types: Collection[str], limits: Limits) -> list[str]:
    """Return the policy as JSON documents, each within the size of a managed policy."""
    documents = [list[Mapping[str, object]]()]
    binds = set(BIND_ROLES) if limits.boundary is not None and "aws_iam_role" in types else set()
    reads = set(READ_SCHEMAS) if limits.in_glue else set()
    for statement in _statements(actions(types) | binds | reads, limits):
        if _size([*documents[-1], statement]) > MOST_CHARACTERS:
            documents.append([])
        documents[-1].append(statement)
    return [json.dumps(_document(each), indent=2) for each in documents]


def _statements(wanted: Iterable[str], limits: Limits) -> list[Mapping[str, object]]:
    by_scope: dict[Scope, list[str]] = {}
    for action in sorted(wanted):
        for scope in limits.scopes(action):
            by_scope.setdefault(scope, []).append(action)
    by_scope |= limits.named_objects()
    return [scope.statement(listed) for scope, listed in sorted(by_scope.items())]


def _document(statements: list[Mapping[str, object]]) -> Mapping[str, object]:
    return {"Version": "2012-10-17", "Statement": statements}


def _size(statements: list[Mapping[str, object]]) -> int:
    return len("".join(json.dumps(_document(statements)).split()))
