"""Terraform's real AWS provider on the double, applied and destroyed; the stack's backend is one of a real cloud."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cloud import Cloud, zipped

from infra.deploy.terraform import Terraform
from infra.local.terraform_here import prepare

pytestmark = [
    pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed"),
    pytest.mark.timeout(600),
]

EVENT = {"wanted": 1}


def trust(service: str) -> str:
    allowed = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [allowed]})


TLS_ONLY = {
    "Effect": "Deny",
    "Principal": "*",
    "Action": "s3:*",
    "Resource": "${aws_s3_bucket.this.arn}/*",
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}
RESOURCES: Mapping[str, Mapping[str, Any]] = {
    "aws_s3_bucket": {"bucket": "terraform-on-the-double"},
    "aws_s3_bucket_policy": {
        "bucket": "${aws_s3_bucket.this.id}",
        "policy": json.dumps({"Version": "2012-10-17", "Statement": [TLS_ONLY]}),
    },
    "aws_s3_object": {
        "bucket": "${aws_s3_bucket.this.id}",
        "key": "a",
        "content": "b",
        "depends_on": ["aws_s3_bucket_policy.this"],
    },
    "aws_iam_role": {"name": "starts", "assume_role_policy": trust("lambda.amazonaws.com")},
    "aws_lambda_function": {
        "function_name": "starts",
        "role": "${aws_iam_role.this.arn}",
        "runtime": "python3.12",
        "handler": "handler.handler",
        "filename": "function.zip",
        "timeout": 30,
        "logging_config": {"log_format": "Text", "log_group": "${aws_cloudwatch_log_group.this.name}"},
        "environment": {"variables": {"A": "b"}},
    },
    "aws_lambda_invocation": {
        "function_name": "${aws_lambda_function.this.function_name}",
        "input": json.dumps(EVENT),
        "lifecycle_scope": "CRUD",
    },
    "aws_cloudwatch_log_group": {"name": "/frazil/starts", "retention_in_days": 14},
    "aws_cloudwatch_composite_alarm": {
        "alarm_name": "any",
        "alarm_rule": "ALARM(${aws_cloudwatch_metric_alarm.this.alarm_name})",
    },
    "aws_cloudwatch_metric_alarm": {
        "alarm_name": "one",
        "comparison_operator": "GreaterThanThreshold",
        "evaluation_periods": 1,
        "metric_name": "lag",
        "namespace": "frazil",
        "period": 60,
        "statistic": "Maximum",
        "threshold": 1,
    },
    "aws_emrserverless_application": {
        "name": "jobs",
        "release_label": "emr-spark-8.1.0",
        "type": "spark",
        "architecture": "X86_64",
        "maximum_capacity": {"cpu": "8 vCPU", "memory": "32 GB"},
    },
    "aws_athena_workgroup": {"name": "lake", "force_destroy": True, "tags": {"a": "b"}},
    "aws_athena_named_query": {
        "name": "count",
        "database": "lake",
        "query": "SELECT 1",
        "workgroup": "${aws_athena_workgroup.this.id}",
    },
    "aws_secretsmanager_secret": {"name": "terraform/on/the/double", "recovery_window_in_days": 0},
    "aws_secretsmanager_secret_version": {
        "secret_id": "${aws_secretsmanager_secret.this.id}",
        "secret_string": "not one",
    },
}
HANDLER = """
def handler(event, context):
    print(event)
    return {"did": event["tf"]["action"]}
"""


@dataclass(frozen=True)
class Local:
    """As much of a deployment as is asked for."""

    folder: Path
    checkout: Path
    is_local: bool = True


def small_stack(cloud: Cloud, folder: Path) -> Terraform:
    directory = folder / "cdktf.out" / "stacks" / "small"
    directory.mkdir(parents=True)
    (directory / "function.zip").write_bytes(zipped(handler=HANDLER))
    written = {
        "terraform": {
            "required_providers": {"aws": {"source": "hashicorp/aws", "version": ">= 5.100, < 7"}},
            "cloud": {"organization": "somebody", "workspaces": {"name": "small"}},
        },
        "provider": {"aws": [{"region": "us-east-1"}]},
        "resource": {kind: {"this": one} for kind, one in RESOURCES.items()},
        "output": {"did": {"value": "${aws_lambda_invocation.this.result}"}},
    }
    (directory / "cdk.tf.json").write_text(json.dumps(written), encoding="utf-8")
    nobody = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_ENDPOINT_URL": cloud.endpoint_url}
    env = {**os.environ, **nobody, **prepare(Local(folder, folder), directory)}
    return Terraform("small", directory, env, folder / "log", lambda _: None)


def test_a_stack_for_aws_is_applied_planned_empty_and_destroyed(cloud: Cloud, tmp_path: Path) -> None:
    terraform = small_stack(cloud, tmp_path)
    terraform.init()
    terraform.validate()

    terraform.apply()

    assert json.loads(terraform.outputs()["did"]) == {"did": "create"}
    assert (tmp_path / "state" / "small.tfstate").exists()
    assert terraform.plan() is False, (tmp_path / "log").read_text()
    assert cloud.client("s3").get_object(Bucket="terraform-on-the-double", Key="a")["Body"].read() == b"b"
    terraform.destroy()
    assert terraform.resources() == []
    told = cloud.client("logs").describe_log_groups(logGroupNamePrefix="/frazil/starts")
    assert told["logGroups"] == []
