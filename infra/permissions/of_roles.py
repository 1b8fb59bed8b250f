"""Which calls each role makes, and what IAM asks for each call: the policies of our roles are made from these tables.

`RULES` is the reviewed one: a call of an API, the actions that IAM checks for it, on what, and why. What a call
implies is listed with it: KMS under S3, ListBucket behind a 404, Glue's catalog and database above a table. A role is a
set of calls, each with what it is about (`JOB`, `KEEPER`); its policy is the image of that set under the table. So the
calls that a role was recorded to make can be held against its policy, which shall allow no more and no less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from infra.permissions.iam import Conditions, Statement


class PolicyTarget(Enum):
    """The kind of resource that a call acts on, as far as policies distinguish. The value names the statement."""

    TABLE_FILES = "TableFiles"
    OLD_METADATA = "OldMetadata"
    ARTEFACTS = "Artefacts"
    BUCKET = "Bucket"
    KEY_UNDER_S3 = "KeyUnderS3"
    CATALOG = "Catalog"
    DATABASE = "Database"
    TABLES = "Tables"
    REGISTRY = "SchemaRegistry"
    ALL_SCHEMA_VERSIONS = "AllSchemaVersions"
    SECRETS = "Secrets"
    ROTATED = "RotatedSecrets"
    KEY_UNDER_SECRETS = "KeyUnderSecrets"
    MSK_CLUSTER = "MskCluster"
    MSK_TOPICS = "MskTopics"
    MSK_GROUP = "MskGroup"
    MSK_OUTPUT_TOPICS = "MskOutputTopics"
    MSK_OUTPUT_GROUPS = "MskOutputGroups"
    MSK_TRANSACTIONS = "MskTransactions"
    LOGS = "Logs"
    ALL_LOG_GROUPS = "AllLogGroups"
    APPLICATION = "Application"
    JOB_RUNS = "JobRuns"
    JOB_ROLE = "JobRole"
    FUNCTION = "Function"
    EXPORT_FILES = "ExportFiles"
    EXPORT_SETTINGS = "ExportSettings"
    EXPORT_TOPICS = "ExportTopics"
    KEY_UNDER_SNS = "KeyUnderSns"
    DEAD_LETTERS = "DeadLetters"
    ALARMS_TOPIC = "AlarmsTopic"
    LINK_KEY = "LinkKey"


class Known(Enum):
    """How we know that a call is made. Only AWS's documentation says which calls AWS makes in a role's name."""

    RECORDED = "the local double of AWS records it"
    DOCUMENTED = "the documentation of AWS says so"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an API (`service:Operation`, the service as it signs requests), and what it is about."""

    api: str
    about: PolicyTarget
    known: Known = Known.RECORDED


@dataclass(frozen=True, slots=True)
class Asked:
    """One action that IAM checks; `on` is None where that is what the call is about."""

    action: str
    on: PolicyTarget | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """What IAM asks for one call, and why."""

    asked: tuple[Asked, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """An action on a place, as a policy allows it."""

    action: str
    place: PolicyTarget


@dataclass(frozen=True, slots=True)
class Scope:
    """A place in one environment: its ARNs, and under which conditions it may be used."""

    arns: tuple[str, ...]
    conditions: Conditions = field(default_factory=dict, hash=False)


def _itself(action: str, *more: Asked, reason: str) -> Rule:
    return Rule((Asked(action), *more), reason)


def _in_glue(action: str, *above: PolicyTarget) -> Rule:
    return _itself(action, *(Asked(action, place) for place in above), reason=GLUE_REASON)


GLUE_REASON = "Glue checks the same action on what is meant and on everything above it"
OWN_ACTION = "the action has the name of the call"
MISSING = Asked("s3:ListBucket", PolicyTarget.BUCKET)
DECRYPT = Asked("kms:Decrypt", PolicyTarget.KEY_UNDER_S3)
NEW_DATA_KEY = Asked("kms:GenerateDataKey", PolicyTarget.KEY_UNDER_S3)
PASS_ROLE = Asked("iam:PassRole", PolicyTarget.JOB_ROLE)

RULES: Mapping[str, Rule] = {
    "s3:GetObject": _itself(
        "s3:GetObject",
        DECRYPT,
        MISSING,
        reason="objects are encrypted with a key; S3 answers 404 for a missing one only to principals that may list",
    ),
    "s3:HeadObject": Rule(
        (Asked("s3:GetObject"), DECRYPT, MISSING), "there is no action of its own: the rights of GetObject decide"
    ),
    "s3:PutObject": _itself("s3:PutObject", NEW_DATA_KEY, reason="S3 asks KMS for the object's key in our name"),
    "s3:CreateMultipartUpload": Rule(
        (Asked("s3:PutObject"), NEW_DATA_KEY), "an upload in parts is a PutObject, and gets its key at the start"
    ),
    "s3:UploadPart": Rule(
        (Asked("s3:PutObject"), DECRYPT), "each part is encrypted with the upload's key, which KMS has to open"
    ),
    "s3:CompleteMultipartUpload": Rule((Asked("s3:PutObject"), DECRYPT), "the parts are read to be put together"),
    "s3:CopyObject": Rule(
        (Asked("s3:PutObject"), NEW_DATA_KEY, Asked("s3:GetObject"), DECRYPT),
        "there is no action of its own: the source is read, and the copy written; a whole file gets its name so",
    ),
    "s3:DeleteObject": _itself("s3:DeleteObject", reason="with versions, it hides the object and destroys nothing"),
    "s3:DeleteObjects": Rule(
        (Asked("s3:DeleteObject"),),
        "each is asked for like one; old versions of a Delta log go so",
    ),
    "s3:ListObjectsV2": Rule((MISSING,), "listing is an action on the bucket, whatever the prefix"),
    "glue:GetDatabase": _in_glue("glue:GetDatabase", PolicyTarget.CATALOG),
    "glue:CreateDatabase": _in_glue("glue:CreateDatabase", PolicyTarget.CATALOG),
    "glue:GetTable": _in_glue("glue:GetTable", PolicyTarget.CATALOG, PolicyTarget.DATABASE),
    "glue:CreateTable": _in_glue("glue:CreateTable", PolicyTarget.CATALOG, PolicyTarget.DATABASE),
    "glue:UpdateTable": _in_glue("glue:UpdateTable", PolicyTarget.CATALOG, PolicyTarget.DATABASE),
    "glue:GetSchemaVersion": _itself(
        "glue:GetSchemaVersion",
        reason="records name a version by its id alone, and Glue then knows no registry to check; its documentation "
        "asks for * in the policy of a consumer",
    ),
    "glue:ListSchemaVersions": _itself("glue:ListSchemaVersions", reason="checked on the registry and the schema"),
    "glue:ListSchemas": _itself("glue:ListSchemas", reason="checked on the registry"),
    "secretsmanager:GetSecretValue": _itself(
        "secretsmanager:GetSecretValue",
        Asked("kms:Decrypt", PolicyTarget.KEY_UNDER_SECRETS),
        reason="Secrets Manager opens the secret with its key in our name",
    ),
    "secretsmanager:DescribeSecret": _itself("secretsmanager:DescribeSecret", reason=OWN_ACTION),
    "secretsmanager:ListSecretVersionIds": _itself("secretsmanager:ListSecretVersionIds", reason=OWN_ACTION),
    "secretsmanager:UpdateSecretVersionStage": _itself("secretsmanager:UpdateSecretVersionStage", reason=OWN_ACTION),
    "secretsmanager:PutSecretValue": _itself(
        "secretsmanager:PutSecretValue",
        Asked("kms:GenerateDataKey", PolicyTarget.KEY_UNDER_SECRETS),
        Asked("kms:Decrypt", PolicyTarget.KEY_UNDER_SECRETS),
        reason="Secrets Manager encrypts the value with its key in our name, and compares it with what is there",
    ),
    "kafka-cluster:Connect": _itself("kafka-cluster:Connect", reason="MSK asks IAM when a client logs in"),
    "kafka-cluster:DescribeTopic": _itself(
        "kafka-cluster:DescribeTopic", reason="MSK asks it for a topic's partitions and offsets"
    ),
    "kafka-cluster:ReadData": _itself(
        "kafka-cluster:ReadData",
        Asked("kafka-cluster:AlterGroup", PolicyTarget.MSK_GROUP),
        reason="MSK asks it for each fetch; its documentation requires AlterGroup with it, though no group is joined",
    ),
    "kafka-cluster:DescribeGroup": _itself(
        "kafka-cluster:DescribeGroup", reason="a reader names a group, and looks for the group's coordinator"
    ),
    "kafka-cluster:WriteData": _itself("kafka-cluster:WriteData", reason="MSK asks it for each record that is sent"),
    "kafka-cluster:AlterGroup": _itself(
        "kafka-cluster:AlterGroup", reason="MSK asks it for offsets that are committed, here in a transaction"
    ),
    "kafka-cluster:AlterTransactionalId": _itself(
        "kafka-cluster:AlterTransactionalId",
        Asked("kafka-cluster:DescribeTransactionalId"),
        reason="MSK asks it when a producer takes a transactional id over, and when a transaction ends",
    ),
    "logs:DescribeLogGroups": _itself("logs:DescribeLogGroups", reason="it looks for the group by listing"),
    "logs:DescribeLogStreams": _itself("logs:DescribeLogStreams", reason=OWN_ACTION),
    "logs:CreateLogGroup": _itself(
        "logs:CreateLogGroup", reason="EMR Serverless wants it even where the group is there, as here it always is"
    ),
    "logs:CreateLogStream": _itself("logs:CreateLogStream", reason=OWN_ACTION),
    "logs:PutLogEvents": _itself("logs:PutLogEvents", reason=OWN_ACTION),
    "emr-serverless:GetApplication": _itself("emr-serverless:GetApplication", reason=OWN_ACTION),
    "emr-serverless:StopApplication": _itself("emr-serverless:StopApplication", reason=OWN_ACTION),
    "emr-serverless:ListJobRuns": _itself("emr-serverless:ListJobRuns", reason="checked on the application"),
    "emr-serverless:GetJobRun": _itself("emr-serverless:GetJobRun", reason=OWN_ACTION),
    "emr-serverless:CancelJobRun": _itself("emr-serverless:CancelJobRun", reason=OWN_ACTION),
    "emr-serverless:StartJobRun": _itself(
        "emr-serverless:StartJobRun",
        Asked("emr-serverless:TagResource", PolicyTarget.JOB_RUNS),
        PASS_ROLE,
        reason="a run is tagged as it is made, and is handed the role of the job",
    ),
    "sns:Publish": _itself(
        "sns:Publish",
        Asked("kms:GenerateDataKey", PolicyTarget.KEY_UNDER_SNS),
        Asked("kms:Decrypt", PolicyTarget.KEY_UNDER_SNS),
        reason="SNS encrypts the message with the topic's key in our name; its documentation asks for both",
    ),
    "sns:ListSubscriptionsByTopic": _itself("sns:ListSubscriptionsByTopic", reason=OWN_ACTION),
    "sqs:SendMessage": _itself("sqs:SendMessage", reason="Lambda writes a failed event to the queue in our name"),
    "lambda:Invoke": Rule((Asked("lambda:InvokeFunction"),), "the action has another name than the call"),
}
"""Every call that our roles make. A call that is missing here was overlooked."""

NOT_OF_OUR_ROLES = {
    "ec2:CreateNetworkInterface": "EMR Serverless puts a job's network interfaces into its subnets with the account's "
    "service-linked role, AWSServiceRoleForAmazonEMRServerless",
    "iam:CreateServiceLinkedRole": "it is created with an account's first application, by Terraform's user",
    "kms:Encrypt": "CloudWatch Logs encrypts by the key's own policy, not by a role's",
}
"""What is needed too, and by whom instead."""

OF_WRITTEN_FILES = (
    "GetObject",
    "HeadObject",
    "PutObject",
    "CreateMultipartUpload",
    "UploadPart",
    "CompleteMultipartUpload",
    "DeleteObject",
)
"""The operations of S3 on files that are written, read again and removed."""

JOB = frozenset(
    {
        *(Call(f"s3:{operation}", PolicyTarget.TABLE_FILES) for operation in (*OF_WRITTEN_FILES, "DeleteObjects")),
        Call("s3:GetObject", PolicyTarget.ARTEFACTS),
        Call("s3:ListObjectsV2", PolicyTarget.TABLE_FILES),
        Call("glue:GetDatabase", PolicyTarget.DATABASE),
        Call("glue:CreateDatabase", PolicyTarget.DATABASE),
        *(Call(f"glue:{operation}Table", PolicyTarget.TABLES) for operation in ("Get", "Create", "Update")),
        Call("logs:DescribeLogGroups", PolicyTarget.ALL_LOG_GROUPS, Known.DOCUMENTED),
        *(
            Call(f"logs:{operation}", PolicyTarget.LOGS, Known.DOCUMENTED)
            for operation in ("DescribeLogStreams", "CreateLogGroup", "CreateLogStream", "PutLogEvents")
        ),
    }
)
"""A job run: its own calls, and those with which EMR Serverless fetches artefacts and writes logs."""

WITH_SECRETS = frozenset({Call("secretsmanager:GetSecretValue", PolicyTarget.SECRETS)})
"""The further calls of a job run that authenticates, or that masks columns."""

WITH_GLUE_REGISTRY = frozenset(
    {
        Call("glue:GetSchemaVersion", PolicyTarget.ALL_SCHEMA_VERSIONS),
        Call("glue:ListSchemaVersions", PolicyTarget.REGISTRY),
        Call("glue:ListSchemas", PolicyTarget.REGISTRY),
    }
)
"""The further calls of a job run whose schemas are in AWS Glue."""

WITH_MSK_IAM = frozenset(
    {
        Call("kafka-cluster:Connect", PolicyTarget.MSK_CLUSTER, Known.DOCUMENTED),
        Call("kafka-cluster:DescribeTopic", PolicyTarget.MSK_TOPICS, Known.DOCUMENTED),
        Call("kafka-cluster:ReadData", PolicyTarget.MSK_TOPICS, Known.DOCUMENTED),
        Call("kafka-cluster:DescribeGroup", PolicyTarget.MSK_GROUP, Known.DOCUMENTED),
    }
)
"""The further calls of a job run that reads from MSK as its role."""

WITH_MSK_OUTPUTS = frozenset(
    {
        *(
            Call(f"kafka-cluster:{operation}", PolicyTarget.MSK_OUTPUT_TOPICS, Known.DOCUMENTED)
            for operation in ("DescribeTopic", "ReadData", "WriteData")
        ),
        *(
            Call(f"kafka-cluster:{operation}Group", PolicyTarget.MSK_OUTPUT_GROUPS, Known.DOCUMENTED)
            for operation in ("Alter", "Describe")
        ),
        Call("kafka-cluster:AlterTransactionalId", PolicyTarget.MSK_TRANSACTIONS, Known.DOCUMENTED),
    }
)
"""The further calls of a job run whose tables have output topics in MSK."""

KEEPER = frozenset(
    {
        *(Call(f"emr-serverless:{operation}Application", PolicyTarget.APPLICATION) for operation in ("Get", "Stop")),
        *(
            Call(f"emr-serverless:{operation}", PolicyTarget.APPLICATION)
            for operation in ("ListJobRuns", "StartJobRun")
        ),
        *(Call(f"emr-serverless:{operation}JobRun", PolicyTarget.JOB_RUNS) for operation in ("Get", "Cancel")),
    }
)
"""The calls of lambdas/streaming_job, except for writing its log."""

ROTATION = frozenset(
    Call(f"secretsmanager:{operation}", PolicyTarget.ROTATED)
    for operation in (
        "DescribeSecret",
        "GetSecretValue",
        "ListSecretVersionIds",
        "PutSecretValue",
        "UpdateSecretVersionStage",
    )
)
"""The calls of lambdas/rotate_keys, except for writing its log."""

WITH_CLOUD_KEY = frozenset({Call("secretsmanager:GetSecretValue", PolicyTarget.SECRETS)})
"""The further calls of lambdas/rotate_keys if it creates keys in Confluent Cloud."""

KEEPS_STREAMING = frozenset({Call("lambda:Invoke", PolicyTarget.FUNCTION)})
"""The schedule that brings the streaming run back, and the one that asks for the ages of keys."""

STARTS_RUNS = frozenset({Call("emr-serverless:StartJobRun", PolicyTarget.APPLICATION)})
"""The schedules of tables with a run of their own."""


EXPORT = frozenset(
    {
        *(
            Call(f"s3:{operation}", PolicyTarget.EXPORT_FILES)
            for operation in (*OF_WRITTEN_FILES, "CopyObject", "ListObjectsV2")
        ),
        *(Call(f"s3:{operation}", PolicyTarget.TABLE_FILES) for operation in ("GetObject", "HeadObject", "PutObject")),
        Call("s3:DeleteObject", PolicyTarget.OLD_METADATA),
        Call("s3:GetObject", PolicyTarget.EXPORT_SETTINGS),
        Call("glue:GetDatabase", PolicyTarget.DATABASE),
        *(Call(f"glue:{operation}Table", PolicyTarget.TABLES) for operation in ("Get", "Update")),
        *(
            Call(f"sns:{operation}", PolicyTarget.EXPORT_TOPICS)
            for operation in ("Publish", "ListSubscriptionsByTopic")
        ),
        Call("sqs:SendMessage", PolicyTarget.DEAD_LETTERS, Known.DOCUMENTED),
        Call("sns:Publish", PolicyTarget.ALARMS_TOPIC, Known.DOCUMENTED),
    }
)
"""The calls of lambdas/export_csv, except for writing its log. It writes a table's metadata: a tag pins a snapshot.
Each commit deletes the oldest metadata file once the table has as many as it keeps.
"""

WITH_LINKS = frozenset(
    Call(f"secretsmanager:{operation}", PolicyTarget.LINK_KEY) for operation in ("GetSecretValue", "PutSecretValue")
)
"""The further calls of lambdas/export_csv if announcements have links: it makes the key, and signs with it."""

RUNS_EXPORTS = frozenset({Call("lambda:Invoke", PolicyTarget.FUNCTION)})
"""The schedules of exports."""


def image(calls: Iterable[Call]) -> frozenset[Allowed]:
    """Return all actions that IAM requires for these calls."""
    return frozenset(Allowed(asked.action, asked.on or call.about) for call in calls for asked in RULES[call.api].asked)


def statements(calls: Iterable[Call], scopes: Mapping[PolicyTarget, Scope]) -> tuple[Statement, ...]:
    """The same as a policy: one statement a place, in the order of the places."""
    allowed = image(calls)
    actions = {place: tuple(sorted(each.action for each in allowed if each.place is place)) for place in PolicyTarget}
    return tuple(
        Statement(sid=place.value, actions=named, resources=scopes[place].arns, conditions=scopes[place].conditions)
        for place, named in actions.items()
        if named
    )
