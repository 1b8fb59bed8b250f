"""What the deployer may do in AWS, against the types of the stacks and the calls in the code of the steps."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest
from botocore import xform_name
from botocore.loaders import Loader

from infra.deployer_policy import MOST_CHARACTERS, OF_TYPES, READS, actions, policy_documents
from infra.generate import FOLDER

ROOT = Path(__file__).parents[3]
SERVICES = ("athena", "cloudwatch", "ec2", "emr-serverless", "glue", "iam", "kms", "lambda", "logs", "route53", "s3")
SERVICES_OF_STEPS = (*SERVICES, "scheduler", "secretsmanager", "sns", "sqs", "sts")
OTHER_NAMES = {
    "s3:HeadBucket": "s3:ListBucket",
    "s3:ListBuckets": "s3:ListAllMyBuckets",
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:ListObjectVersions": "s3:ListBucketVersions",
    "s3:ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "s3:DeleteObjects": "s3:DeleteObject",
    "lambda:Invoke": "lambda:InvokeFunction",
}
"""Calls whose action has another name."""
NOT_OF_AWS = {"create_connection"}
"""Names that a client of AWS has too: of `socket`."""


@pytest.fixture(scope="module")
def every_type() -> set[str]:
    schema = json.loads((FOLDER / "schemas" / "aws.json").read_text())["provider_schemas"]
    return set(schema["registry.terraform.io/hashicorp/aws"]["resource_schemas"])


def statements(documents: list[str]) -> list[dict[str, list[str]]]:
    return [each for document in documents for each in json.loads(document)["Statement"]]


def test_every_type_that_a_stack_can_have_has_its_actions(every_type: set[str]) -> None:
    assert every_type == OF_TYPES.keys()


def test_the_documents_fit_into_managed_policies_and_are_limited_to_our_names(every_type: set[str]) -> None:
    documents = policy_documents(every_type, environment="dev", bucket=None, state_bucket="states")

    assert all(len("".join(document.split())) <= MOST_CHARACTERS for document in documents)
    allowed = {
        (action, where) for each in statements(documents) for action in each["Action"] for where in each["Resource"]
    }
    assert ("iam:PassRole", "arn:aws:iam::*:role/frazil-dev-*") in allowed
    assert ("iam:PassRole", "*") not in allowed
    assert ("lambda:InvokeFunction", "arn:aws:lambda:*:*:function:frazil-dev-*") in allowed
    assert ("secretsmanager:UpdateSecretVersionStage", "arn:aws:secretsmanager:*:*:secret:frazil/dev/*") in allowed
    assert ("s3:PutObject", "arn:aws:s3:::states/frazil/dev/*") in allowed


def test_types_that_the_environment_lacks_are_only_looked_for() -> None:
    few = actions({"aws_s3_bucket", "snowflake_database"})

    assert "s3:CreateBucket" in few
    assert {action for action in few if action.startswith(("ec2:", "sqs:", "route53:"))} == {
        "ec2:Describe*",
        *READS["route53"],
        *READS["sqs"],
    }, "what the inventory of `delete` asks"


def test_every_call_of_a_step_is_allowed(every_type: set[str]) -> None:
    allowed = actions(every_type)
    calls = {api for file in sources() for api in calls_in(file)}

    assert {"s3:ListBuckets", "secretsmanager:UpdateSecretVersionStage", "lambda:Invoke"} <= calls
    assert {api for api in calls if not any(fnmatchcase(OTHER_NAMES.get(api, api), each) for each in allowed)} == set()


def sources() -> Iterator[Path]:
    yield from (ROOT / "infra" / "deploy").glob("*.py")
    yield ROOT / "infra" / "artefacts" / "upload.py"


def calls_in(file: Path) -> Iterator[str]:
    """Every method of a client of AWS that a file calls, or names for a paginator, by one service that has it."""
    methods = methods_of_clients()
    for node in ast.walk(ast.parse(file.read_text())):
        called = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        named = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
        for word in ({called, named} & methods.keys()) - NOT_OF_AWS:
            services = methods[str(word)]
            source = file.read_text()
            yield next((api for api in services if f'"{api.partition(":")[0]}"' in source), services[0])


@cache
def methods_of_clients() -> dict[str, list[str]]:
    loader, found = Loader(), dict[str, list[str]]()
    for service in SERVICES_OF_STEPS:
        for operation in loader.load_service_model(service, "service-2")["operations"]:
            found.setdefault(xform_name(operation), []).append(f"{service}:{operation}")
    return found
