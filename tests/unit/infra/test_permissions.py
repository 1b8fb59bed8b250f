from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest

from infra.permissions.iam import Statement
from infra.permissions.of_roles import (
    EXPORT,
    JOB,
    KEEPER,
    KEEPS_STREAMING,
    NOT_OF_OUR_ROLES,
    ROTATION,
    RULES,
    RUNS_EXPORTS,
    STARTS_RUNS,
    WITH_CLOUD_KEY,
    WITH_GLUE_REGISTRY,
    WITH_LINKS,
    WITH_MSK_IAM,
    WITH_MSK_OUTPUTS,
    WITH_SECRETS,
    Call,
    Known,
    PolicyTarget,
    Scope,
    image,
    statements,
)

OF_JOBS = JOB | WITH_SECRETS | WITH_GLUE_REGISTRY | WITH_MSK_IAM | WITH_MSK_OUTPUTS
OF_EXPORTS = EXPORT | WITH_LINKS | RUNS_EXPORTS
EVERY_CALL = OF_JOBS | KEEPER | KEEPS_STREAMING | STARTS_RUNS | ROTATION | WITH_CLOUD_KEY | OF_EXPORTS


def by_place(calls: Iterable[Call]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for allowed in image(calls):
        found[allowed.place.value].append(allowed.action)
    return {place: sorted(actions) for place, actions in sorted(found.items())}


def test_a_job_run_may_do_this_and_no_more() -> None:
    in_glue = ["glue:CreateTable", "glue:GetTable", "glue:UpdateTable"]

    assert by_place(JOB) == {
        "AllLogGroups": ["logs:DescribeLogGroups"],
        "Artefacts": ["s3:GetObject"],
        "Bucket": ["s3:ListBucket"],
        "Catalog": sorted(["glue:CreateDatabase", "glue:GetDatabase", *in_glue]),
        "Database": sorted(["glue:CreateDatabase", "glue:GetDatabase", *in_glue]),
        "KeyUnderS3": ["kms:Decrypt", "kms:GenerateDataKey"],
        "Logs": ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
        "TableFiles": ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
        "Tables": in_glue,
    }


def test_an_export_reads_tables_tags_them_and_writes_only_exports() -> None:
    in_glue = ["glue:GetTable", "glue:UpdateTable"]

    assert by_place(EXPORT) == {
        "Bucket": ["s3:ListBucket"],
        "Catalog": ["glue:GetDatabase", *in_glue],
        "Database": ["glue:GetDatabase", *in_glue],
        "AlarmsTopic": ["sns:Publish"],
        "DeadLetters": ["sqs:SendMessage"],
        "ExportFiles": ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
        "ExportSettings": ["s3:GetObject"],
        "ExportTopics": ["sns:ListSubscriptionsByTopic", "sns:Publish"],
        "KeyUnderS3": ["kms:Decrypt", "kms:GenerateDataKey"],
        "KeyUnderSns": ["kms:Decrypt", "kms:GenerateDataKey"],
        "TableFiles": ["s3:GetObject", "s3:PutObject"],
        "OldMetadata": ["s3:DeleteObject"],
        "Tables": in_glue,
    }


def test_a_secret_is_read_with_the_key_that_it_lies_under() -> None:
    assert by_place(WITH_SECRETS) == {
        "KeyUnderSecrets": ["kms:Decrypt"],
        "Secrets": ["secretsmanager:GetSecretValue"],
    }


def test_a_registry_in_glue_is_only_read() -> None:
    assert by_place(WITH_GLUE_REGISTRY) == {
        "AllSchemaVersions": ["glue:GetSchemaVersion"],
        "SchemaRegistry": ["glue:ListSchemaVersions", "glue:ListSchemas"],
    }


def test_reading_from_msk_takes_no_right_to_write() -> None:
    assert by_place(WITH_MSK_IAM) == {
        "MskCluster": ["kafka-cluster:Connect"],
        "MskGroup": ["kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup"],
        "MskTopics": ["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"],
    }


def test_sending_to_msk_is_allowed_on_output_topics_and_on_our_own_groups_and_transactions() -> None:
    assert by_place(WITH_MSK_OUTPUTS) == {
        "MskGroup": ["kafka-cluster:AlterGroup"],
        "MskOutputGroups": ["kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup"],
        "MskOutputTopics": ["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData", "kafka-cluster:WriteData"],
        "MskTransactions": ["kafka-cluster:AlterTransactionalId", "kafka-cluster:DescribeTransactionalId"],
    }


def test_who_keeps_the_streaming_run_hands_over_one_role_and_touches_one_application() -> None:
    assert by_place(KEEPER) == {
        "Application": [
            "emr-serverless:GetApplication",
            "emr-serverless:ListJobRuns",
            "emr-serverless:StartJobRun",
            "emr-serverless:StopApplication",
        ],
        "JobRole": ["iam:PassRole"],
        "JobRuns": ["emr-serverless:CancelJobRun", "emr-serverless:GetJobRun", "emr-serverless:TagResource"],
    }


def test_a_schedule_does_one_thing() -> None:
    assert by_place(KEEPS_STREAMING) == {"Function": ["lambda:InvokeFunction"]}
    assert by_place(STARTS_RUNS) == {
        "Application": ["emr-serverless:StartJobRun"],
        "JobRole": ["iam:PassRole"],
        "JobRuns": ["emr-serverless:TagResource"],
    }


def test_who_rotates_keys_writes_only_what_it_rotates() -> None:
    assert by_place(ROTATION) == {
        "KeyUnderSecrets": ["kms:Decrypt", "kms:GenerateDataKey"],
        "RotatedSecrets": [
            "secretsmanager:DescribeSecret",
            "secretsmanager:GetSecretValue",
            "secretsmanager:ListSecretVersionIds",
            "secretsmanager:PutSecretValue",
            "secretsmanager:UpdateSecretVersionStage",
        ],
    }
    assert by_place(WITH_CLOUD_KEY)["Secrets"] == ["secretsmanager:GetSecretValue"]


def test_every_rule_is_needed_and_says_why() -> None:
    assert set(RULES) == {call.api for call in EVERY_CALL}
    assert [api for api, rule in RULES.items() if not rule.reason] == []


def test_no_action_is_a_wildcard_and_none_is_somebody_elses() -> None:
    actions = {allowed.action for allowed in image(EVERY_CALL)}

    assert [action for action in actions if "*" in action] == []
    assert actions & set(NOT_OF_OUR_ROLES) == set()


def test_what_aws_does_by_itself_in_a_roles_name_is_known_from_its_documentation_alone() -> None:
    services = {call.api.partition(":")[0] for call in EVERY_CALL if call.known is Known.DOCUMENTED}

    assert services == {"logs", "kafka-cluster", "sqs", "sns"}


def test_a_call_that_nobody_reviewed_has_no_image() -> None:
    with pytest.raises(KeyError, match="s3:PutBucketPolicy"):
        image([Call("s3:PutBucketPolicy", PolicyTarget.BUCKET)])


def test_a_policy_has_one_statement_a_place_with_the_conditions_of_the_place() -> None:
    through = {"StringEquals": {"kms:ViaService": "secretsmanager.us-east-1.amazonaws.com"}}
    scopes = {
        PolicyTarget.SECRETS: Scope(("arn:secret",)),
        PolicyTarget.KEY_UNDER_SECRETS: Scope(("arn:key",), through),
    }

    assert statements(WITH_SECRETS, scopes) == (
        Statement(sid="Secrets", actions=("secretsmanager:GetSecretValue",), resources=("arn:secret",)),
        Statement(sid="KeyUnderSecrets", actions=("kms:Decrypt",), resources=("arn:key",), conditions=through),
    )


def test_a_policy_cannot_leave_a_place_out() -> None:
    with pytest.raises(KeyError):
        statements(KEEPER, {PolicyTarget.APPLICATION: Scope(("arn:application",))})
