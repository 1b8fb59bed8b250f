"""A correct stack follows each rule, and one change violates it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from infra.guards import rules
from infra.guards.rules import RULES, StackView, Violation
from infra.permissions.iam import EVERYBODY, Policy, Principal, Statement, tls_only, trust_service
from shared.naming import tags

Document = dict[str, Any]
BUCKET = "${aws_s3_bucket.lake.id}"
ACCOUNT = Principal(arns=("arn:aws:iam::${data.aws_caller_identity.caller.account_id}:root",))
READING = Statement(actions=("s3:GetObject",), resources=("${aws_s3_bucket.lake.arn}/TOKEN/*",))
READING_JSON = Policy((READING,)).json.replace("TOKEN", '${replace(a.id, "-", "_")}')  # as references are resolved
RANDOM = "kX9v+Qm2Lp7RzT4wYb8NcD1sFg6HjU3eAo5ViB0tMq/WnZxEyCrSaPdKfGhJlIuO"
NAMED = {
    "aws_s3_bucket": {"bucket": "lake", "force_destroy": False},
    "aws_s3_bucket_versioning": {"bucket": BUCKET, "versioning_configuration": {"status": "Enabled"}},
    "aws_s3_bucket_lifecycle_configuration": {
        "bucket": BUCKET,
        "rule": [{"noncurrent_version_expiration": {"noncurrent_days": 7}}],
    },
    "aws_s3_bucket_public_access_block": {"bucket": BUCKET, **dict.fromkeys(rules.BLOCKS, True)},
    "aws_s3_bucket_server_side_encryption_configuration": {
        "bucket": BUCKET,
        "rule": [{"apply_server_side_encryption_by_default": {"sse_algorithm": "aws:kms"}}],
    },
    "aws_s3_bucket_policy": {"bucket": BUCKET, "policy": Policy((tls_only("${aws_s3_bucket.lake.arn}"),)).json},
    "aws_vpc_security_group_ingress_rule": {"referenced_security_group_id": "${a.b.id}"},
    "aws_kms_key": {
        "enable_key_rotation": True,
        "policy": Policy((Statement(actions=("kms:*",), resources=("*",), principal=ACCOUNT),)).json,
    },
    "aws_cloudwatch_log_group": {"name": "/aws/lambda/start", "retention_in_days": 30, "kms_key_id": "${a.b.arn}"},
    "aws_lambda_function": {
        "function_name": "start",
        "source_code_hash": RANDOM,
        "environment": {"variables": {"A": "b"}},
    },
    "aws_secretsmanager_secret": {"name": "frazil/dev/manager", "kms_key_id": "${a.b.arn}"},
    "aws_sns_topic": {"name": "alarms", "kms_master_key_id": "${a.b.arn}"},
    "aws_sqs_queue": {"name": "dead", "sqs_managed_sse_enabled": True},
    "aws_athena_workgroup": {
        "configuration": {"result_configuration": {"encryption_configuration": {"encryption_option": "SSE_KMS"}}}
    },
    "aws_iam_role": {"assume_role_policy": trust_service("lambda.amazonaws.com").json},
    "aws_iam_role_policy": {"policy": READING_JSON},
    "aws_s3_object": {"content": "kafka:\n  sasl.password: $${secret:frazil/dev/materializer#api_secret}\n"},
    "aws_glue_catalog_database": {"name": "lkc_1"},
    "confluent_kafka_cluster": {"display_name": "frazil-dev"},
    "snowflake_external_volume": {"allow_writes": "false"},
    "snowflake_service_user": {"network_policy": "${snowflake_network_policy.lake.name}"},
}


def sound() -> Document:
    """A stack with one of everything, as it should be."""
    resources = {
        kind: {"lake": {**copy.deepcopy(body), "//": {"metadata": {"path": f"test/{kind}"}}}}
        for kind, body in NAMED.items()
    }
    return {"provider": {"aws": [{"default_tags": {"tags": tags("dev", "test", {})}}]}, "resource": resources}


def findings(document: Document, *, production: bool = False) -> list[tuple[str, Violation]]:
    view = StackView("test", production, document)
    return [(rule.__name__, finding) for rule in RULES for finding in rule(view)]


def set_to(kind: str, name: str, value: object) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        document["resource"][kind]["lake"][name] = value

    return change


def without(kind: str, name: str | None = None) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        if name is None:
            del document["resource"][kind]
        else:
            del document["resource"][kind]["lake"][name]

    return change


def allowing(**statement: Any) -> Callable[[Document], None]:
    return set_to("aws_iam_role_policy", "policy", Policy((Statement(**statement),)).json)


def provider_without_tags(document: Document) -> None:
    document["provider"]["aws"] = [{"region": "us-east-1"}]


def output_of_a_token(document: Document) -> None:
    document["output"] = {"api_token": {"value": "hunter2"}}


def secret_version(document: Document) -> None:
    body = {"secret_string": "${var.x}", "//": {"metadata": {"path": "test/aws_secretsmanager_secret_version"}}}
    document["resource"]["aws_secretsmanager_secret_version"] = {"lake": body}


def attachment(document: Document) -> None:
    body = {"policy_arn": "arn:aws:iam::aws:policy/AdministratorAccess"}
    metadata = {"metadata": {"path": "test/aws_iam_role_policy_attachment"}}
    document["resource"]["aws_iam_role_policy_attachment"] = {"lake": {**body, "//": metadata}}


def test_a_sound_stack_breaks_no_rule() -> None:
    assert findings(sound()) == []


BUCKET_POLICY_OF_READERS = Policy(
    (tls_only("${aws_s3_bucket.lake.arn}"), Statement(actions=("s3:GetObject",), resources=("x",), principal=EVERYBODY))
).json


@pytest.mark.parametrize(
    ("change", "rule", "where", "what"),
    [
        (
            without("aws_s3_bucket_server_side_encryption_configuration"),
            "encryption",
            "aws_s3_bucket",
            "its objects are not encrypted with a key of KMS",
        ),
        (
            without("aws_cloudwatch_log_group", "kms_key_id"),
            "encryption",
            "aws_cloudwatch_log_group",
            "it is not encrypted",
        ),
        (
            without("aws_secretsmanager_secret", "kms_key_id"),
            "encryption",
            "aws_secretsmanager_secret",
            "it is not encrypted",
        ),
        (without("aws_sns_topic", "kms_master_key_id"), "encryption", "aws_sns_topic", "it is not encrypted"),
        (without("aws_sqs_queue", "sqs_managed_sse_enabled"), "encryption", "aws_sqs_queue", "it is not encrypted"),
        (
            without("aws_athena_workgroup", "configuration"),
            "encryption",
            "aws_athena_workgroup",
            "results are not encrypted",
        ),
        (without("aws_kms_key", "enable_key_rotation"), "encryption", "aws_kms_key", "the key never changes"),
        (without("aws_s3_bucket_policy"), "tls_only", "aws_s3_bucket", "it can be talked to without TLS"),
        (
            set_to("aws_s3_bucket_policy", "policy", Policy((READING,)).json),
            "tls_only",
            "aws_s3_bucket",
            "it can be talked to without TLS",
        ),
        (
            without("aws_s3_bucket_public_access_block"),
            "no_public_access",
            "aws_s3_bucket",
            "public access is not blocked",
        ),
        (
            set_to("aws_s3_bucket_public_access_block", "block_public_acls", False),
            "no_public_access",
            "aws_s3_bucket",
            "public access is not blocked",
        ),
        (
            set_to("aws_s3_bucket_versioning", "versioning_configuration", {"status": "Suspended"}),
            "versioning",
            "aws_s3_bucket",
            "it keeps no versions",
        ),
        (
            without("aws_s3_bucket_lifecycle_configuration"),
            "versioning",
            "aws_s3_bucket",
            "it keeps old versions for ever",
        ),
        (
            set_to("aws_cloudwatch_log_group", "retention_in_days", 0),
            "log_retention",
            "aws_cloudwatch_log_group",
            "it keeps logs for ever",
        ),
        (
            set_to("aws_lambda_function", "function_name", "stop"),
            "log_retention",
            "aws_lambda_function",
            "Lambda makes its log group, which is kept for ever",
        ),
        (provider_without_tags, "tags", "aws", "resources lack the tags application, environment, stack"),
        (
            allowing(actions=("s3:Get*",), resources=("arn:aws:s3:::lake/*",)),
            "wildcards",
            "aws_iam_role_policy",
            "its policy allows s3:Get*",
        ),
        (
            allowing(actions=("glue:GetTable",), resources=("*",)),
            "wildcards",
            "aws_iam_role_policy",
            "its policy allows glue:GetTable on *",
        ),
        (
            allowing(actions=("glue:GetTable",), resources=("arn:aws:glue:us-east-1:${a.b.id}:*",)),
            "wildcards",
            "aws_iam_role_policy",
            "its policy allows glue:GetTable on arn:aws:glue:us-east-1:${a.b.id}:*",
        ),
        (
            allowing(actions=("glue:GetTable",), resources=("arn:aws:glue:*:1:table/a/b",)),
            "wildcards",
            "aws_iam_role_policy",
            "its policy allows glue:GetTable on arn:aws:glue:*:1:table/a/b",
        ),
        (
            set_to(
                "aws_iam_role_policy",
                "policy",
                json.dumps({"Statement": {"Effect": "Allow", "NotAction": "iam:*", "Resource": "x"}}),
            ),
            "wildcards",
            "aws_iam_role_policy",
            "its policy allows everything but NotAction",
        ),
        (
            set_to("aws_iam_role_policy", "policy", "${data.aws_iam_policy_document.x.json}"),
            "wildcards",
            "aws_iam_role_policy",
            "its policy cannot be read here",
        ),
        (
            set_to("aws_s3_bucket_policy", "policy", BUCKET_POLICY_OF_READERS),
            "wildcards",
            "aws_s3_bucket_policy",
            "its policy allows principal *",
        ),
        (
            set_to(
                "aws_iam_role",
                "assume_role_policy",
                json.dumps({"Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}]}),
            ),
            "wildcards",
            "aws_iam_role",
            "its assume_role_policy allows principal *",
        ),
        (
            set_to("aws_vpc_security_group_ingress_rule", "cidr_ipv4", "0.0.0.0/0"),
            "ingress",
            "aws_vpc_security_group_ingress_rule",
            "it lets everybody in",
        ),
        (
            set_to("aws_vpc_security_group_ingress_rule", "cidr_ipv6", "::/0"),
            "ingress",
            "aws_vpc_security_group_ingress_rule",
            "it lets everybody in",
        ),
        (
            set_to("aws_iam_role", "managed_policy_arns", ["arn:aws:iam::aws:policy/AdministratorAccess"]),
            "own_policies",
            "aws_iam_role",
            "it has managed_policy_arns",
        ),
        (
            attachment,
            "own_policies",
            "aws_iam_role_policy_attachment",
            "it attaches arn:aws:iam::aws:policy/AdministratorAccess",
        ),
        (
            allowing(actions=("s3:GetObject",), resources=tuple(f"${{a.b.arn}}/{number}/*" for number in range(124))),
            "policy_sizes",
            "aws_iam_role_policy",
            "its policy has about 10,400 characters, more than the 10,240 that IAM takes",
        ),
        (
            without("snowflake_external_volume", "allow_writes"),
            "read_only",
            "snowflake_external_volume",
            "tables may be written through it",
        ),
        (
            set_to("aws_lambda_function", "environment", {"variables": {"DB_PASSWORD": "hunter2"}}),
            "no_secret",
            "aws_lambda_function",
            "DB_PASSWORD is written out",
        ),
        (
            set_to("aws_s3_object", "content", "sasl.password: hunter2"),
            "no_secret",
            "aws_s3_object",
            "content holds what looks like a key or a password",
        ),
        (
            set_to("aws_s3_object", "content", "-----BEGIN RSA PRIVATE KEY-----"),
            "no_secret",
            "aws_s3_object",
            "content holds what looks like a key or a password",
        ),
        (
            set_to("aws_s3_object", "content", "AKIAIOSFODNN7EXAMPLE"),
            "no_secret",
            "aws_s3_object",
            "content holds what looks like a key or a password",
        ),
        (
            set_to("aws_sns_topic", "display_name", RANDOM),
            "no_secret",
            "aws_sns_topic",
            "display_name holds random text, as keys do",
        ),
        (
            secret_version,
            "no_secret",
            "aws_secretsmanager_secret_version",
            "Terraform would keep the secret in its state",
        ),
        (output_of_a_token, "no_secret", "api_token", "api_token is written out"),
    ],
)
def test_one_change_breaks_one_rule(change: Callable[[Document], None], rule: str, where: str, what: str) -> None:
    document = sound()

    change(document)

    assert [(name, each.path, each.what) for name, each in findings(document)] == [(rule, f"test/{where}", what)]
    assert all(each.fix for _, each in findings(document))


def test_every_part_of_one_resource_is_not_everything() -> None:
    document = sound()

    allowing(actions=("logs:PutLogEvents",), resources=("${aws_cloudwatch_log_group.x.arn}:log-stream:*",))(document)

    assert findings(document) == []


def test_data_is_protected_in_production_and_nowhere_else() -> None:
    document = sound()
    document["resource"]["aws_s3_bucket"]["lake"]["force_destroy"] = True
    document["resource"]["aws_secretsmanager_secret"]["lake"]["recovery_window_in_days"] = 0

    assert findings(document) == []
    assert sorted((each.path, each.what) for _, each in findings(document, production=True)) == [
        ("test/aws_glue_catalog_database", "it holds data, and a plan may delete it"),
        ("test/aws_kms_key", "it holds data, and a plan may delete it"),
        ("test/aws_s3_bucket", "it holds data, and a plan may delete it"),
        ("test/aws_s3_bucket", "it may be deleted with all that is in it"),
        ("test/aws_secretsmanager_secret", "it is gone at once when deleted"),
        ("test/confluent_kafka_cluster", "it holds data, and a plan may delete it"),
    ]


def test_protected_data_keeps_the_rules_of_production() -> None:
    document = sound()
    for kind in rules.HOLDS_DATA:
        for body in document["resource"].get(kind, {}).values():
            body["lifecycle"] = {"prevent_destroy": True}

    assert findings(document, production=True) == []


@pytest.mark.parametrize(
    ("resource", "is_everything"),
    [
        ("*", True),
        ("arn:aws:s3:::*", True),
        ("arn:aws:s3:::lake", False),
        ("arn:aws:s3:::lake/*", False),
        ("arn:aws:s3:::${a.b.id}/*", False),
        ("arn:aws:glue:us-east-1:1:table/*", True),
        ("arn:aws:glue:us-east-1:1:table/lake/*", False),
        ("arn:aws:glue:us-east-1:${a.b.id}:*", True),
        ("arn:aws:glue:*:1:table/lake/*", True),
        ("arn:aws:secretsmanager:us-east-1:1:secret:*", True),
        ("arn:aws:secretsmanager:us-east-1:1:secret:frazil/dev/*", False),
        ("arn:aws:emr-serverless:us-east-1:1:/applications/*", True),
        ("${aws_emrserverless_application.a.arn}/jobruns/*", False),
        ("${aws_cloudwatch_log_group.a.arn}:log-stream:*", False),
    ],
)
def test_a_wildcard_may_stand_behind_something_that_has_a_name(resource: str, is_everything: bool) -> None:
    document = sound()
    allowing(actions=("x:Y",), resources=(resource,))(document)

    assert (findings(document) != []) == is_everything


def test_every_wildcard_that_is_allowed_has_a_reason() -> None:
    assert all(len(allowed.reason) > 30 for allowed in rules.ALLOWED_WILDCARDS)
