"""What is written for Terraform so that tables have a place, and readers a way to it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from every_feature import BACKENDS
from written import KAFKA, Written, dev, write

from infra.cdk import App, Output, Stack
from infra.components.backends import keep_state
from infra.components.kafka import Kafka
from infra.resources import confluent
from infra.settings.model import EnvironmentSettings, Lake, Reader
from infra.stacks.lake import LakeStack

ACCOUNT = "{caller.account_id}"
BUCKET = "{bucket/bucket.arn}"
SNOWFLAKE = Reader("arn:aws:iam::111122223333:user/snowflake", "frazil-1", athena=False)
ANALYSTS = Reader("arn:aws:iam::111122223333:root", "frazil-2", athena=True)


def lake(folder: Path, settings: EnvironmentSettings | None = None, kafka: Kafka = KAFKA) -> Written:
    settings = settings or dev()
    return write(folder, settings, lambda app: LakeStack(app, settings, kafka=kafka))["lake"]


def dev_lake(**changes: Any) -> EnvironmentSettings:
    """The example of an environment, with something different about its lake."""
    usual = Lake(bucket=None, database=None, version_retention_days=7, catalog={}, readers={})
    return dev(lake=replace(usual, **changes))


def protected(stack: Written) -> dict[str, bool]:
    """By type, whether Terraform refuses to destroy it."""
    return {
        kind: stack.one(kind)["lifecycle"]["prevent_destroy"]
        for kind in ("aws_glue_catalog_database", "aws_kms_key", "aws_s3_bucket")
    }


def test_the_stack_is_a_bucket_a_database_a_key_and_a_workgroup(tmp_path: Path) -> None:
    assert lake(tmp_path).types() == {
        "aws_athena_workgroup": 1,
        "aws_glue_catalog_database": 1,
        "aws_kms_alias": 1,
        "aws_kms_key": 1,
        "aws_s3_bucket": 1,
        "aws_s3_bucket_lifecycle_configuration": 1,
        "aws_s3_bucket_ownership_controls": 1,
        "aws_s3_bucket_policy": 1,
        "aws_s3_bucket_public_access_block": 1,
        "aws_s3_bucket_server_side_encryption_configuration": 1,
        "aws_s3_bucket_versioning": 1,
    }


def test_the_bucket_is_private_versioned_and_encrypted_with_the_key(tmp_path: Path) -> None:
    stack = lake(tmp_path)

    bucket = {"bucket": "{bucket/bucket.id}"}
    assert stack.one("aws_s3_bucket")["bucket"] == f"frazil-dev-{ACCOUNT}-us-east-1"
    assert stack.one("aws_s3_bucket_versioning") == {**bucket, "versioning_configuration": {"status": "Enabled"}}
    assert stack.one("aws_s3_bucket_ownership_controls") == {
        **bucket,
        "rule": {"object_ownership": "BucketOwnerEnforced"},
    }
    assert stack.one("aws_s3_bucket_public_access_block") == {
        **bucket,
        "block_public_acls": True,
        "block_public_policy": True,
        "ignore_public_acls": True,
        "restrict_public_buckets": True,
    }
    assert stack.one("aws_s3_bucket_server_side_encryption_configuration") == {
        **bucket,
        "rule": {
            "bucket_key_enabled": True,
            "apply_server_side_encryption_by_default": {"sse_algorithm": "aws:kms", "kms_master_key_id": "{key.arn}"},
        },
    }


def test_the_bucket_refuses_plain_http_old_tls_and_other_keys(tmp_path: Path) -> None:
    denied = lake(tmp_path).policy("aws_s3_bucket_policy", "bucket/policy")

    everybody = {"Effect": "Deny", "Principal": "*"}
    anything = {"Action": "s3:*", "Resource": [BUCKET, f"{BUCKET}/*"]}
    writing = {"Action": "s3:PutObject", "Resource": f"{BUCKET}/*"}
    header = "s3:x-amz-server-side-encryption"
    key = f"{header}-aws-kms-key-id"
    assert denied == [
        {"Sid": "TlsOnly", **everybody, **anything, "Condition": {"Bool": {"aws:SecureTransport": "false"}}},
        {"Sid": "RecentTlsOnly", **everybody, **anything, "Condition": {"NumericLessThan": {"s3:TlsVersion": "1.2"}}},
        {
            "Sid": "ThisEncryptionOnly",
            **everybody,
            **writing,
            "Condition": {"Null": {header: "false"}, "StringNotEquals": {header: "aws:kms"}},
        },
        {
            "Sid": "ThisKeyOnly",
            **everybody,
            **writing,
            "Condition": {"Null": {key: "false"}, "StringNotEquals": {key: "{key.arn}"}},
        },
        {
            "Sid": "NamedKeyOnly",
            **everybody,
            **writing,
            "Condition": {"Null": {key: "true"}, "StringEquals": {header: "aws:kms"}},
        },
    ]


def test_only_what_nobody_sees_and_results_of_queries_leave_by_themselves(tmp_path: Path) -> None:
    stack = lake(tmp_path, dev_lake(version_retention_days=30))

    assert stack.one("aws_s3_bucket_lifecycle_configuration")["rule"] == [
        {
            "id": "unused-versions",
            "status": "Enabled",
            "filter": {"prefix": ""},
            "noncurrent_version_expiration": {"noncurrent_days": 30},
            "expiration": {"expired_object_delete_marker": True},
            "abort_incomplete_multipart_upload": {"days_after_initiation": 3},
        },
        {
            "id": "query-results",
            "status": "Enabled",
            "filter": {"prefix": "athena-results/"},
            "noncurrent_version_expiration": {"noncurrent_days": 1},
            "expiration": {"days": 7},
        },
    ]


def test_the_folder_and_the_database_are_called_after_the_cluster(tmp_path: Path) -> None:
    stack = lake(tmp_path)

    database = stack.one("aws_glue_catalog_database")
    assert database["name"] == "lkc_1y3y5"
    assert database["location_uri"] == "s3://{bucket/bucket.id}/lkc-1y3y5"


def test_names_that_a_setting_gives_are_taken(tmp_path: Path) -> None:
    stack = lake(tmp_path, dev_lake(bucket="acme-lake", database="trades"))

    assert stack.one("aws_s3_bucket")["bucket"] == "acme-lake"
    assert stack.one("aws_glue_catalog_database")["name"] == "trades"


def test_of_a_cluster_that_is_not_made_yet_terraform_forms_the_name(tmp_path: Path) -> None:
    settings = dev()

    def build(app: App) -> None:
        cluster = Stack(app, "cluster")
        keep_state(cluster, settings)
        confluent.Provider(cluster, "confluent")
        made = confluent.Environment(cluster, "made", display_name="dev", prevent_destroy=True)
        LakeStack(app, settings, kafka=replace(KAFKA, name=made.id))

    stack = write(tmp_path, settings, build)["lake"]

    name = "cross-stack-reference-input-cluster.outputs.cross-stack-output-confluent_environmentmadeid"
    database = stack.one("aws_glue_catalog_database")
    assert database["name"] == f'${{lower(replace(data.terraform_remote_state.{name}, "-", "_"))}}'
    assert database["location_uri"] == f"s3://{{bucket/bucket.id}}/${{data.terraform_remote_state.{name}}}"


def test_a_table_lies_in_the_folder_of_its_name(tmp_path: Path) -> None:
    settings = dev()

    def build(app: App) -> None:
        stack = LakeStack(app, settings, kafka=KAFKA)
        Output(stack, "table", value=stack.table_location("stock_trades"))
        Output(stack, "files", value=stack.data_arn)
        Output(stack, "catalog", value=list(stack.catalog_arns))

    outputs = write(tmp_path, settings, build)["lake"].outputs

    assert outputs == {
        "bucket_name": "{bucket/bucket.id}",
        "key_arn": "{key.arn}",
        "warehouse": "s3://{bucket/bucket.id}/lkc-1y3y5",
        "database_name": "{database.name}",
        "workgroup_name": "{workgroup.name}",
        "table": "s3://{bucket/bucket.id}/lkc-1y3y5/stock_trades",
        "files": f"{BUCKET}/lkc-1y3y5/*",
        "catalog": [
            f"arn:aws:glue:us-east-1:{ACCOUNT}:{part}"
            for part in ("catalog", "database/{database.name}", "table/{database.name}/*")
        ],
    }


def test_the_key_is_for_roles_with_policies_and_for_the_logs_and_alarms_of_this_environment(tmp_path: Path) -> None:
    stack = lake(tmp_path)

    key = stack.one("aws_kms_key")
    assert key["enable_key_rotation"] is True
    assert stack.one("aws_kms_alias") == {"name": "alias/frazil-dev-lake", "target_key_id": "{key.id}"}
    account, logs, alarms = stack.policy("aws_kms_key", "key")
    assert account == {
        "Sid": "AccountByIam",
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
        "Action": "kms:*",
        "Resource": "*",
    }
    assert logs["Principal"] == {"Service": "logs.us-east-1.amazonaws.com"}
    groups = (":log-group:/aws/lambda/frazil-dev-*", ":log-group:/frazil/dev/*")
    assert logs["Condition"] == {
        "ArnLike": {
            "kms:EncryptionContext:aws:logs:arn": [f"arn:aws:logs:us-east-1:{ACCOUNT}{group}" for group in groups]
        }
    }
    assert alarms["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert alarms["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}


def test_results_of_queries_are_encrypted_whatever_a_client_asks_for(tmp_path: Path) -> None:
    assert lake(tmp_path).one("aws_athena_workgroup")["configuration"] == {
        "enforce_workgroup_configuration": True,
        "publish_cloudwatch_metrics_enabled": True,
        "result_configuration": {
            "output_location": "s3://{bucket/bucket.id}/athena-results/",
            "encryption_configuration": {"encryption_option": "SSE_KMS", "kms_key_arn": "{key.arn}"},
        },
    }


def test_a_reader_shows_its_external_id_and_reads_the_tables_only(tmp_path: Path) -> None:
    stack = lake(tmp_path, dev_lake(readers={"snowflake": SNOWFLAKE}))

    principal = {"AWS": SNOWFLAKE.principal}
    assert stack.one("aws_iam_role")["name"] == "frazil-dev-reader-snowflake"
    assert stack.policy("aws_iam_role", "reader-snowflake/role", "assume_role_policy") == [
        {
            "Effect": "Allow",
            "Principal": principal,
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Condition": {"StringEquals": {"sts:ExternalId": "frazil-1"}},
        },
    ]
    assert stack.policy("aws_iam_role_policy", "reader-snowflake/policy") == [
        {
            "Sid": "ReadObjects",
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:GetObjectVersion"],
            "Resource": f"{BUCKET}/lkc-1y3y5/*",
        },
        {
            "Sid": "ListObjects",
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": BUCKET,
            "Condition": {"StringLike": {"s3:prefix": "lkc-1y3y5/*"}},
        },
        {"Sid": "FindBucket", "Effect": "Allow", "Action": "s3:GetBucketLocation", "Resource": BUCKET},
        {
            "Sid": "ReadKey",
            "Effect": "Allow",
            "Action": "kms:Decrypt",
            "Resource": "{key.arn}",
            "Condition": {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}},
        },
        {
            "Sid": "ReadCatalog",
            "Effect": "Allow",
            "Action": ["glue:GetDatabase", "glue:GetTable", "glue:GetTables"],
            "Resource": [
                f"arn:aws:glue:us-east-1:{ACCOUNT}:catalog",
                f"arn:aws:glue:us-east-1:{ACCOUNT}:database/{{database.name}}",
                f"arn:aws:glue:us-east-1:{ACCOUNT}:table/{{database.name}}/*",
            ],
        },
    ]
    assert stack.outputs["reader_snowflake_role"] == "{reader-snowflake/role.arn}"


def test_a_reader_that_asks_athena_also_leaves_results(tmp_path: Path) -> None:
    stack = lake(tmp_path, dev_lake(readers={"analysts": ANALYSTS}))

    statements = {each["Sid"]: each for each in stack.policy("aws_iam_role_policy", "reader-analysts/policy")[5:]}
    assert {sid: each["Resource"] for sid, each in statements.items()} == {
        "Query": f"arn:aws:athena:us-east-1:{ACCOUNT}:workgroup/{{workgroup.name}}",
        "DefaultDatabase": f"arn:aws:glue:us-east-1:{ACCOUNT}:database/default",
        "KeepResults": f"{BUCKET}/athena-results/*",
        "ListResults": BUCKET,
        "ListUploads": BUCKET,
        "ResultsKey": "{key.arn}",
    }
    writes = [action for each in statements.values() for action in _many(each["Action"]) if "Put" in action]
    assert writes == ["s3:PutObject"]


def test_no_reader_can_change_a_table(tmp_path: Path) -> None:
    stack = lake(tmp_path, dev_lake(readers={"snowflake": SNOWFLAKE, "analysts": ANALYSTS}))

    for policy in stack.of("aws_iam_role_policy").values():
        for statement in json.loads(policy["policy"])["Statement"]:
            changing = [action for action in _many(statement["Action"]) if action.split(":")[1][:3] in ("Put", "Del")]
            assert not changing or statement["Resource"] == f"{BUCKET}/athena-results/*"


def test_in_production_nothing_that_holds_data_can_be_destroyed(tmp_path: Path) -> None:
    stack = lake(tmp_path, dev(production=True))

    assert set(protected(stack).values()) == {True}
    assert stack.one("aws_s3_bucket")["force_destroy"] is False
    assert stack.one("aws_kms_key")["deletion_window_in_days"] == 30


def test_elsewhere_a_delete_takes_it_all(tmp_path: Path) -> None:
    stack = lake(tmp_path)

    assert set(protected(stack).values()) == {False}
    assert stack.one("aws_s3_bucket")["force_destroy"] is True
    assert stack.one("aws_kms_key")["deletion_window_in_days"] == 7


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_stack_is_applied_by_itself_wherever_its_state_lies(tmp_path: Path, backend: str) -> None:
    stack = lake(tmp_path, dev(backend=BACKENDS[backend]))

    kept = {name: each for name, each in stack.document["terraform"].items() if name != "required_providers"}
    where = kept.get("backend", kept)
    assert list(where) == [backend]
    assert set(stack.document["data"]) == {"aws_caller_identity"}, "nothing of another stack"


def test_the_arns_of_china_and_of_the_government_are_theirs(tmp_path: Path) -> None:
    stack = lake(tmp_path, dev(region="us-gov-west-1"))

    account = stack.policy("aws_kms_key", "key")[0]
    assert account["Principal"] == {"AWS": f"arn:aws-us-gov:iam::{ACCOUNT}:root"}


def test_in_china_services_have_the_names_of_that_partition(tmp_path: Path) -> None:
    reader = Reader("arn:aws-cn:iam::111122223333:root", "example", athena=False)
    settings = dev(region="cn-north-1")
    stack = lake(tmp_path, replace(settings, lake=replace(settings.lake, readers={"bi": reader})))

    logs = {each["Sid"]: each for each in stack.policy("aws_kms_key", "key")}["LogsOfOurs"]
    assert logs["Principal"] == {"Service": "logs.cn-north-1.amazonaws.com.cn"}
    reading = {each["Sid"]: each for each in stack.policy("aws_iam_role_policy", "reader-bi/policy")}["ReadKey"]
    through = ["s3.cn-north-1.amazonaws.com", "s3.cn-north-1.amazonaws.com.cn"]
    assert reading["Condition"] == {"StringEquals": {"kms:ViaService": through}}


def _many(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
