"""The stack of connectors as it is written for Terraform."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from frazil.specs.load import load_tables
from infra.cdk import App
from infra.guards.aspect import synthesize
from infra.guards.rules import statements
from infra.settings.file import load_environment
from infra.settings.model import ConfluentKafka, EnvironmentSettings, Flink
from infra.stacks.confluent import ConfluentStack
from infra.stacks.connectors import ConnectorsStack
from infra.stacks.lake import LakeStack
from infra.stacks.secrets import SecretsStack

ROOT = Path(__file__).parents[2]
REMOTE = "${data.terraform_remote_state.cross-stack-reference-input-confluent.outputs.cross-stack-output-confluent_"
ENVIRONMENT = {"id": f"{REMOTE}environmentenvironmentid}}"}
CLUSTER = {"id": f"{REMOTE}kafka_clustercluster" + "id}"}
ACCOUNT = "${data.aws_caller_identity.caller.account_id}"


def settings_with(**kafka: Any) -> EnvironmentSettings:
    settings = load_environment("dev", {})
    assert isinstance(settings.kafka, ConfluentKafka)
    return replace(settings, kafka=replace(settings.kafka, **kafka))


def written(folder: Path, settings: EnvironmentSettings) -> dict[str, Any]:
    kafka = settings.kafka
    assert isinstance(kafka, ConfluentKafka)
    app = App(outdir=str(folder))
    tables = load_tables(ROOT / "tables", {}, database="lake", catalog_type="glue")
    confluent = ConfluentStack(app, settings, kafka=kafka, tables=tables)
    lake = LakeStack(app, settings, kafka=confluent.kafka)
    secrets = SecretsStack(app, settings, lake=lake, kafka=confluent.kafka)
    ConnectorsStack(app, settings, kafka=kafka, confluent=confluent, lake=lake, secrets=secrets)
    synthesize(app, production=settings.production)
    document: dict[str, Any] = json.loads((folder / "stacks" / "connectors" / "cdk.tf.json").read_text())
    return document


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return written(tmp_path_factory.mktemp("usual"), settings_with())


@pytest.fixture(scope="module")
def with_tableflow(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return written(tmp_path_factory.mktemp("tableflow"), settings_with(tableflow=("stock_trades",)))


def the(stack: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = stack["resource"][kind].values()
    return {name: value for name, value in found.items() if name != "//"}


def test_stock_trades_are_made_by_a_connector_that_acts_as_its_account_and_has_no_key(usual: dict[str, Any]) -> None:
    assert the(usual, "confluent_connector") == {
        "environment": ENVIRONMENT,
        "kafka_cluster": CLUSTER,
        "config_sensitive": {},
        "config_nonsensitive": {
            "connector.class": "DatagenSource",
            "name": "frazil-dev-stock-trades",
            "kafka.auth.mode": "SERVICE_ACCOUNT",
            "kafka.service.account.id": REMOTE + "service_accountconnector_account_B068699Did}",
            "kafka.topic": "stock_trades",
            "output.data.format": "AVRO",
            "quickstart": "STOCK_TRADES",
            "tasks.max": "1",
        },
    }


ROTATION = "aws_secretsmanager_secret_rotation"


def test_without_tableflow_there_is_no_role(usual: dict[str, Any]) -> None:
    assert usual["resource"].keys() == {"confluent_connector", ROTATION}


def test_without_the_connector_keys_rotate_all_the_same(tmp_path: Path) -> None:
    assert written(tmp_path, settings_with(datagen=False))["resource"].keys() == {ROTATION}


def test_tableflow_keeps_the_trades_in_the_lakes_bucket_after_they_have_a_schema_and_it_may(
    with_tableflow: dict[str, Any],
) -> None:
    integration = "${confluent_provider_integration.integration.id}"
    table, catalog = (
        the(with_tableflow, "confluent_tableflow_topic"),
        the(with_tableflow, "confluent_catalog_integration"),
    )

    assert table["display_name"] == "stock_trades"
    assert table["table_formats"] == ["ICEBERG"]
    assert table["byob_aws"]["provider_integration_id"] == integration
    assert "lake" in table["byob_aws"]["bucket_name"]
    assert catalog["aws_glue"] == {"provider_integration_id": integration}
    for each in (table, catalog):
        assert {name.rpartition(".")[0] for name in each["depends_on"]} == {
            *("confluent_connector", "aws_iam_role", "aws_iam_role_policy", "confluent_role_binding")
        }


def test_no_key_of_tableflow_is_written(with_tableflow: dict[str, Any]) -> None:
    assert "credentials" not in the(with_tableflow, "confluent_tableflow_topic")
    assert "credentials" not in the(with_tableflow, "confluent_catalog_integration")
    assert with_tableflow["provider"]["confluent"] == [{}]


def test_the_role_is_named_before_it_is_made_and_trusts_whom_confluent_names(with_tableflow: dict[str, Any]) -> None:
    integration = the(with_tableflow, "confluent_provider_integration")
    role = the(with_tableflow, "aws_iam_role")
    trusted = {"AWS": "${confluent_provider_integration.integration.aws[0].iam_role_arn}"}
    external_id = "${confluent_provider_integration.integration.aws[0].external_id}"

    assert integration["aws"] == {"customer_role_arn": f"arn:aws:iam::{ACCOUNT}:role/{role['name']}"}
    assert statements(role["assume_role_policy"]) == [
        {
            "Effect": "Allow",
            "Principal": trusted,
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Condition": {"StringEquals": {"sts:ExternalId": external_id}},
        },
    ]


def test_tableflows_account_may_use_this_integration_and_no_other(with_tableflow: dict[str, Any]) -> None:
    binding = the(with_tableflow, "confluent_role_binding")

    assert binding["role_name"] == "Assigner"
    assert binding["principal"].startswith("User:" + REMOTE + "service_accounttableflow")
    assert binding["crn_pattern"] == (
        REMOTE + "environmentenvironmentresource_name}"
        "/provider-integration=${confluent_provider_integration.integration.id}"
    )
    assert "disable_wait_for_ready" not in binding


def test_tableflow_may_not_touch_what_is_ours_in_the_bucket_and_has_its_own_database(
    with_tableflow: dict[str, Any],
) -> None:
    found = {each["Sid"]: each for each in statements(the(with_tableflow, "aws_iam_role_policy")["policy"]) or ()}

    bucket = found["FindBucket"]["Resource"]
    assert found["NotOurs"]["Effect"] == "Deny"
    assert found["NotOurs"]["Resource"] == [
        f"{bucket}/{CLUSTER['id']}/*",
        *(f"{bucket}/{folder}/*" for folder in ("artefacts", "athena-results", "exports")),
    ]
    assert found["KeepTables"]["Resource"] == f"{bucket}/*"
    assert found["KeepTables"]["Action"] == [
        *("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject"),
        *("s3:ListMultipartUploadParts", "s3:PutObject", "s3:PutObjectTagging"),
    ]
    glue = f"arn:aws:glue:us-east-1:{ACCOUNT}:"
    assert found["ListTables"]["Resource"] == [
        f"{glue}catalog",
        *(f"{glue}{kind}/{CLUSTER['id']}{rest}" for kind, rest in _IN_DATABASE),
    ]
    assert found["ListTables"]["Action"] == [
        *("glue:CreateDatabase", "glue:CreateTable", "glue:DeleteDatabase", "glue:DeleteTable"),
        *("glue:GetDatabase", "glue:GetTable", "glue:UpdateDatabase", "glue:UpdateTable"),
    ]


_IN_DATABASE = (("database", ""), ("table", "/*"), ("userDefinedFunction", "/*"))


def test_keys_of_accounts_rotate_once_the_step_before_has_made_them(usual: dict[str, Any]) -> None:
    rotations = usual["resource"]["aws_secretsmanager_secret_rotation"]

    assert set(rotations) == {
        f"rotation-{account}" for account in ("manager", "producer", "consumer", "registry", "materializer")
    }
    for each in rotations.values():
        assert "cross-stack-reference-input-secrets" in each["secret_id"] + each["rotation_lambda_arn"]
        assert (each["rotate_immediately"], each["rotation_rules"]) == (False, {"automatically_after_days": 30})


def test_tableflow_keeps_each_topic_that_the_setting_names(tmp_path: Path) -> None:
    stack = written(tmp_path, settings_with(tableflow=("stock_trades", "orders"), datagen=True))

    tables = stack["resource"]["confluent_tableflow_topic"].values()
    assert sorted(each["display_name"] for each in tables) == ["orders", "stock_trades"]
    assert stack["output"]["tableflow_table_paths"]["value"].keys() == {"orders", "stock_trades"}


def test_the_statements_run_after_the_trades_and_write_no_key(tmp_path: Path) -> None:
    stack = written(tmp_path, settings_with(flink=Flink(5, statements=True)))

    statements = stack["resource"]["confluent_flink_statement"]
    created, filling = (next(each for name, each in statements.items() if word in name) for word in ("create", "fill"))
    assert created["statement_name"] == "frazil-dev-create-stock-total-trades"
    assert {name.partition(".")[0] for name in filling["depends_on"]} == {
        *("confluent_flink_statement", "confluent_connector")
    }
    for each in (created, filling):
        assert each["properties"] == {
            "sql.current-catalog": "frazil-dev-kafka",
            "sql.current-database": "frazil-dev-kafka",
        }
        assert not each.keys() & {"credentials", "properties_sensitive", "principal", "compute_pool"}
    assert stack["provider"]["confluent"] == [{}]
    assert "rotation-flink" in stack["resource"]["aws_secretsmanager_secret_rotation"]


def test_a_pool_alone_runs_no_statement(tmp_path: Path) -> None:
    stack = written(tmp_path, settings_with(flink=Flink(5, statements=False)))

    assert "confluent_flink_statement" not in stack["resource"]
