"""What the deployer may do in AWS, against the types of the stacks and the calls in the code of the steps."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from botocore import xform_name
from botocore.loaders import Loader

from frazil.model.settings import GlueSource
from infra.deploy.deleting import inventory
from infra.generate import FOLDER
from infra.permissions.deployer_limits import ANYWHERE, Limits, Scope, limits_of
from infra.permissions.deployer_policy import MOST_CHARACTERS, OF_TYPES, READS, actions, policy_documents
from infra.resources import aws
from infra.settings.file import load_environment
from infra.settings.model import ExternalKafka, ExternalRegistry
from tests.fakes.aws_actions import OTHER_NAMES

ROOT = Path(__file__).parents[3]
SERVICES = ("athena", "cloudwatch", "ec2", "emr-serverless", "glue", "iam", "kms", "lambda", "logs", "route53", "s3")
SERVICES_OF_STEPS = (*SERVICES, "scheduler", "secretsmanager", "sns", "sqs", "sts")
NOT_OF_AWS = {"create_connection"}
"""Names that a client of AWS has too: of `socket`."""


@pytest.fixture(scope="module")
def every_type() -> set[str]:
    schema = json.loads((FOLDER / "schemas" / "aws.json").read_text())["provider_schemas"]
    return set(schema["registry.terraform.io/hashicorp/aws"]["resource_schemas"])


def statements(documents: list[str]) -> list[dict[str, Any]]:
    return [each for document in documents for each in json.loads(document)["Statement"]]


def allowed_in(documents: list[str]) -> set[tuple[str, str]]:
    """Pairs of action and resource, without those that a condition limits."""
    found = [each for each in statements(documents) if "Condition" not in each]
    return {(action, where) for each in found for action in each["Action"] for where in each["Resource"]}


def conditions_of(documents: list[str], action: str) -> list[dict[str, Any] | None]:
    """The conditions of every statement that has the action; None for a statement without any."""
    return [each.get("Condition") for each in statements(documents) if action in each["Action"]]


def test_every_type_that_a_stack_can_have_has_its_actions(every_type: set[str]) -> None:
    assert every_type == OF_TYPES.keys()


def test_every_type_that_a_stack_can_have_is_known_to_the_inventory(every_type: set[str]) -> None:
    """So a `delete` reports what it leaves behind: a new type needs a lookup, or the type that it is deleted with."""
    known = [*inventory.OF_TYPES, *inventory.DELETED_WITH, *inventory.UNUSED]

    assert sorted(known) == sorted(every_type)
    assert {*inventory.DELETED_WITH.values()} <= inventory.OF_TYPES.keys()


def test_no_stack_has_a_type_that_the_inventory_takes_for_unused() -> None:
    classes = [name for name, each in vars(aws).items() if getattr(each, "TYPE", "") in inventory.UNUSED]
    stacks = "".join(path.read_text() for folder in ("stacks", "components") for path in (FOLDER / folder).glob("*.py"))

    assert len(classes) == len(inventory.UNUSED)
    assert not [name for name in classes if f"aws.{name}(" in stacks]


def test_the_documents_fit_into_managed_policies_and_are_limited_to_our_names(every_type: set[str]) -> None:
    documents = policy_documents(every_type, Limits("dev", state_bucket="states", databases=("lkc_*",)))

    assert all(len("".join(document.split())) <= MOST_CHARACTERS for document in documents)
    allowed = allowed_in(documents)
    assert ("iam:PassRole", "arn:aws:iam::*:role/frazil-dev-*") in allowed
    assert ("iam:PassRole", "*") not in allowed
    assert ("lambda:InvokeFunction", "arn:aws:lambda:*:*:function:frazil-dev-*") in allowed
    assert ("secretsmanager:UpdateSecretVersionStage", "arn:aws:secretsmanager:*:*:secret:frazil/dev/*") in allowed
    assert ("s3:PutObject", "arn:aws:s3:::states/frazil/dev/*") in allowed


@pytest.mark.parametrize(
    ("action", "where"),
    [
        ("athena:DeleteWorkGroup", {"arn:aws:athena:*:*:workgroup/frazil-dev-*"}),
        ("logs:DeleteLogGroup", {"arn:aws:logs:*:*:log-group:/frazil/dev/*"}),
        ("logs:DeleteLogGroup", {"arn:aws:logs:*:*:log-group:/aws/lambda/frazil-dev-*"}),
        ("cloudwatch:DeleteAlarms", {"arn:aws:cloudwatch:*:*:alarm:frazil-dev-*"}),
        ("cloudwatch:DeleteDashboards", {"arn:aws:cloudwatch::*:dashboard/frazil-dev-*"}),
        ("glue:DeleteDatabase", {"arn:aws:glue:*:*:catalog", "arn:aws:glue:*:*:database/orders"}),
        ("ssm:GetParameter", {"arn:aws:ssm:*::parameter/aws/service/*"}),
    ],
)
def test_what_has_a_name_is_limited_to_it(every_type: set[str], action: str, where: set[str]) -> None:
    allowed = allowed_in(policy_documents(every_type, Limits("dev", databases=("orders",))))

    assert {(action, each) for each in where} <= allowed
    assert (action, "*") not in allowed


@pytest.mark.parametrize(
    "action",
    [
        "ec2:TerminateInstances",
        "ec2:DeleteVpc",
        "ec2:ReleaseAddress",
        "emr-serverless:DeleteApplication",
        "kms:PutKeyPolicy",
        "kms:ScheduleKeyDeletion",
    ],
)
def test_what_has_only_an_id_is_limited_by_its_tags(every_type: set[str], action: str) -> None:
    documents = policy_documents(every_type, Limits("dev"))

    tags = {"aws:ResourceTag/application": ["frazil"], "aws:ResourceTag/environment": ["dev"]}
    assert conditions_of(documents, action) == [{"StringEquals": tags}]


@pytest.mark.parametrize(
    "action",
    [
        *("kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey", "kms:CreateGrant"),
        *("kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo"),
    ],
)
def test_keys_are_used_through_services_only(every_type: set[str], action: str) -> None:
    """A tag would not do: KMS sees the tags of a new key after minutes, and `create` uses the key at once."""
    (condition,) = conditions_of(policy_documents(every_type, Limits("dev")), action)

    assert condition is not None
    services = {f"{service}.*.amazonaws.com*" for service in ("ec2", "glue", "s3")}
    assert services <= set(condition["StringLike"]["kms:ViaService"]), "accounts may have keys for disks and catalogs"


BOUNDARY = "arn:aws:iam::1:policy/team"
OUR_ROLES, SERVICE_ROLES = "arn:aws:iam::*:role/frazil-dev-*", "arn:aws:iam::*:role/aws-service-role/*"


def test_a_deployer_cannot_lift_the_boundary_of_a_role(every_type: set[str]) -> None:
    limits = limits_of(replace(load_environment("dev", {}), permissions_boundary=BOUNDARY))
    documents = policy_documents(every_type, limits)

    within = [{"StringEquals": {"iam:PermissionsBoundary": [BOUNDARY]}}]
    for verb in ("CreateRole", "PutRolePermissionsBoundary", "PutRolePolicy"):
        allowed = [each for each in statements(documents) if f"iam:{verb}" in each["Action"]]
        bound = [each for each in allowed if OUR_ROLES in each["Resource"]]
        assert [each.get("Condition") for each in bound] == within, verb
    assert ("iam:PutRolePolicy", SERVICE_ROLES) in allowed_in(documents), "AWS gives these roles no boundary"
    assert conditions_of(documents, "iam:DeleteRolePermissionsBoundary") == []
    assert conditions_of(documents, "iam:AttachRolePolicy") in ([], within)


def test_without_a_boundary_a_deployer_may_not_change_one(every_type: set[str]) -> None:
    documents = policy_documents(every_type, Limits("dev"))

    for verb in ("DeleteRolePermissionsBoundary", "PutRolePermissionsBoundary"):
        assert conditions_of(documents, f"iam:{verb}") == []
    assert ("iam:CreateRole", OUR_ROLES) in allowed_in(documents)


def test_subscriptions_are_allowed_on_everything_because_sns_checks_them_on_nothing_else(every_type: set[str]) -> None:
    allowed = allowed_in(policy_documents(every_type, Limits("dev")))

    for verb in ("GetSubscriptionAttributes", "SetSubscriptionAttributes", "Unsubscribe"):
        assert (f"sns:{verb}", "*") in allowed
    assert ("sns:Subscribe", "*") not in allowed


def test_only_known_services_are_allowed_to_destroy_without_limits(every_type: set[str]) -> None:
    """Neither names nor tags of these are known to IAM; associations end with what they connect."""
    limits = Limits("dev", databases=("orders",))
    destroys = {each for each in actions(every_type) if any(verb in each for verb in (":Delete", ":Terminate"))}

    assert {each for each in destroys if ANYWHERE in limits.scopes(each)} == {
        "cloudfront:DeleteKeyGroup",
        "cloudfront:DeleteOriginAccessControl",
        "cloudfront:DeletePublicKey",
        "route53:DeleteHostedZone",
    }


def test_the_secrets_of_an_external_kafka_can_be_read_by_the_step_that_makes_tables() -> None:
    dev = load_environment("dev", {})
    kafka = ExternalKafka(
        name="Orders-1",
        bootstrap_servers="broker:9092",
        protocol="sasl_ssl",
        mechanism="PLAIN",
        msk_iam=False,
        credentials="acme/kafka",
        registry=ExternalRegistry("https://registry", "arn:aws-cn:secretsmanager:cn-north-1:1:secret:registry-AbCdEf"),
    )

    limits = limits_of(replace(dev, region="cn-north-1", kafka=kafka))

    assert (limits.partition, limits.databases) == ("aws-cn", ("orders_1",))
    assert allowed_in(policy_documents({"aws_s3_bucket"}, limits)) >= {
        ("secretsmanager:GetSecretValue", "arn:aws-cn:secretsmanager:*:*:secret:acme/kafka-??????"),
        ("secretsmanager:GetSecretValue", "arn:aws-cn:secretsmanager:cn-north-1:1:secret:registry-AbCdEf"),
    }


def test_a_registry_in_glue_can_be_read_by_the_step_that_makes_tables() -> None:
    kafka = ExternalKafka("orders", "b:9098", "sasl_ssl", None, True, None, GlueSource("payments", "eu-west-1"))

    limits = limits_of(replace(load_environment("dev", {}), kafka=kafka))

    expected = {(f"glue:{verb}", "*") for verb in ("GetSchemaVersion", "ListSchemaVersions", "ListSchemas")}
    assert allowed_in(policy_documents({"aws_s3_bucket"}, limits)) >= expected
    assert not expected & allowed_in(policy_documents({"aws_s3_bucket"}, replace(limits, in_glue=False)))


def test_the_policy_of_the_example_environment_is_limited_to_databases_of_clusters() -> None:
    limits = limits_of(load_environment("dev", {}))

    assert limits.databases == ("lkc-*", "lkc_*")
    assert limits.scopes("iam:UpdateRoleDescription") == (
        Scope(("arn:aws:iam::*:role/frazil-dev-*", "arn:aws:iam::*:role/aws-service-role/*")),
    )


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
    yield from (ROOT / "infra" / "deploy").rglob("*.py")
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
