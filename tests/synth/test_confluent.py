"""The stack of Confluent Cloud as it is written for Terraform."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from frazil.specs.load import load_tables
from infra.cdk import App, LocalBackend, Output, Stack
from infra.guards.aspect import synthesize
from infra.settings.file import load_environment
from infra.settings.model import ConfluentKafka, EnvironmentSettings, Flink
from infra.stacks.confluent import ConfluentStack
from infra.wanted.topics import USUAL
from shared.naming import secret_name

ROOT = Path(__file__).parents[2]
TABLES = load_tables(ROOT / "tables", {}, database="lake", catalog_type="glue")

CLUSTER = "${confluent_kafka_cluster.cluster.rbac_crn}"
TOPIC = f"{CLUSTER}/kafka=${{confluent_kafka_cluster.cluster.id}}/topic=stock_trades"
GROUP = f"{CLUSTER}/kafka=${{confluent_kafka_cluster.cluster.id}}/group="
SUBJECT = "${data.confluent_schema_registry_cluster.schema_registry.resource_name}/subject=stock_trades-value"


def settings_with(**kafka: Any) -> EnvironmentSettings:
    settings = load_environment("dev", {})
    assert isinstance(settings.kafka, ConfluentKafka)
    return replace(settings, kafka=replace(settings.kafka, **kafka))


def stack_in(app: App, settings: EnvironmentSettings) -> ConfluentStack:
    assert isinstance(settings.kafka, ConfluentKafka)
    return ConfluentStack(app, settings, kafka=settings.kafka, tables=TABLES)


def written(folder: Path, settings: EnvironmentSettings) -> dict[str, Any]:
    app = App(outdir=str(folder))
    stack_in(app, settings)
    synthesize(app, production=settings.production)
    document: dict[str, Any] = json.loads((folder / "stacks" / "confluent" / "cdk.tf.json").read_text())
    return document


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return written(tmp_path_factory.mktemp("out"), settings_with())


def of(stack: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    found = stack["resource"].get(kind, {}).values()
    return [{name: value for name, value in each.items() if name != "//"} for each in found]


def test_a_standard_cluster_lies_in_an_environment_with_stream_governance(stack: dict[str, Any]) -> None:
    assert of(stack, "confluent_environment") == [
        {
            "display_name": "frazil-dev-kafka",
            "stream_governance": {"package": "ESSENTIALS"},
            "lifecycle": {"prevent_destroy": False},
        }
    ]
    assert of(stack, "confluent_kafka_cluster") == [
        {
            "display_name": "frazil-dev-kafka",
            "availability": "SINGLE_ZONE",
            "cloud": "AWS",
            "region": "us-east-1",
            "standard": {},
            "environment": {"id": "${confluent_environment.environment.id}"},
            "lifecycle": {"prevent_destroy": False},
        }
    ]


def test_the_registry_is_looked_up_after_the_environment_and_the_cluster_are_there(stack: dict[str, Any]) -> None:
    registry = stack["data"]["confluent_schema_registry_cluster"]["schema_registry"]

    assert registry["depends_on"] == ["confluent_environment.environment", "confluent_kafka_cluster.cluster"]
    assert registry["environment"] == {"id": "${confluent_environment.environment.id}"}


def test_terraform_makes_no_key_and_no_topic_and_knows_no_credential(stack: dict[str, Any]) -> None:
    assert stack["resource"].keys() == {
        *("confluent_environment", "confluent_kafka_cluster", "confluent_service_account", "confluent_role_binding")
    }
    assert stack["provider"] == {"confluent": [{}]}


def test_service_accounts_say_what_they_are_for(stack: dict[str, Any]) -> None:
    accounts = {each["display_name"]: each["description"] for each in of(stack, "confluent_service_account")}

    assert accounts == {
        "frazil-dev-manager": "makes topics",
        "frazil-dev-producer": "writes records and registers their schemas",
        "frazil-dev-consumer": "reads records",
        "frazil-dev-registry": "changes schemas and how they may change",
        "frazil-dev-connector": "makes stock trades, as the connector's own account",
        "frazil-dev-materializer": "reads records and schemas for the tables",
    }


def test_roles_are_on_exactly_these_resources(stack: dict[str, Any]) -> None:
    ids = {
        f"User:${{confluent_service_account.{name}.id}}": each["display_name"].removeprefix("frazil-dev-")
        for name, each in stack["resource"]["confluent_service_account"].items()
    }
    bindings = {
        (ids[each["principal"]], each["role_name"], each["crn_pattern"]) for each in of(stack, "confluent_role_binding")
    }

    previews = TOPIC.replace("stock_trades", "data-preview*")
    assert bindings == {
        ("manager", "DeveloperManage", TOPIC),
        ("producer", "DeveloperWrite", TOPIC),
        ("producer", "DeveloperWrite", SUBJECT),
        ("consumer", "DeveloperRead", TOPIC),
        ("consumer", "DeveloperRead", f"{GROUP}frazil-dev-*"),
        ("consumer", "DeveloperRead", SUBJECT),
        ("registry", "ResourceOwner", SUBJECT),
        ("connector", "DeveloperWrite", TOPIC),
        ("connector", "DeveloperWrite", SUBJECT),
        ("connector", "DeveloperManage", previews),
        ("connector", "DeveloperWrite", previews),
        ("materializer", "DeveloperRead", TOPIC),
        ("materializer", "DeveloperRead", f"{GROUP}frazil-reads-explicit-offsets"),
        ("materializer", "DeveloperRead", SUBJECT),
    }


def test_topics_whose_names_differ_in_a_dot_only_have_roles_of_their_own(tmp_path: Path) -> None:
    stack = written(tmp_path, settings_with(topics={"a.b": USUAL, "ab": USUAL}))

    patterns = {each["crn_pattern"].rpartition("/")[2] for each in of(stack, "confluent_role_binding")}
    assert {"topic=a.b", "topic=ab"} <= patterns


def test_in_production_neither_the_environment_nor_the_cluster_can_be_destroyed(tmp_path: Path) -> None:
    stack = written(tmp_path, replace(settings_with(), production=True))

    for kind in ("confluent_environment", "confluent_kafka_cluster"):
        assert of(stack, kind)[0]["lifecycle"] == {"prevent_destroy": True}


def test_outputs_are_what_the_steps_after_it_read(stack: dict[str, Any]) -> None:
    outputs = {name: each["value"] for name, each in stack["output"].items() if not name.startswith("cross-stack")}

    assert outputs.keys() == {
        *("environment_id", "cluster_id", "bootstrap_servers", "kafka_rest_endpoint"),
        *("registry_id", "registry_url", "service_accounts"),
    }
    assert outputs["service_accounts"].keys() == {
        *("manager", "producer", "consumer", "registry", "connector", "materializer")
    }


def test_other_stacks_get_the_cluster_and_the_jobs_secret_by_name(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    kafka = stack_in(app, settings_with()).kafka
    reader = Stack(app, "reader")
    LocalBackend(reader, path="../../../state/reader.tfstate")
    Output(reader, "name", value=kafka.name)
    Output(reader, "servers", value=kafka.bootstrap_servers)
    synthesize(app, production=False)

    document = json.loads((tmp_path / "stacks" / "reader" / "cdk.tf.json").read_text())
    remote = "data.terraform_remote_state.cross-stack-reference-input-confluent.outputs.cross-stack-output-"
    cluster = f"{remote}confluent_kafka_clustercluster"
    assert document["output"]["name"]["value"] == f"${{{cluster}id}}"
    trimmed = f'${{trimprefix({cluster}bootstrap_endpoint, "SASL_SSL://")}}'
    assert document["output"]["servers"]["value"] == trimmed
    assert kafka.credentials == kafka.registry_credentials == secret_name("dev", "materializer")
    assert kafka.key_holders is not None
    assert tuple(kafka.key_holders.owners) == ("manager", "producer", "consumer", "registry", "materializer")


@pytest.fixture(scope="module")
def with_flink(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return written(tmp_path_factory.mktemp("flink"), settings_with(flink=Flink(20, statements=True)))


def test_a_pool_of_flink_is_in_the_region_of_the_cluster(with_flink: dict[str, Any]) -> None:
    assert of(with_flink, "confluent_flink_compute_pool") == [
        {
            "display_name": "frazil-dev-flink",
            "cloud": "AWS",
            "region": "us-east-1",
            "max_cfu": 20,
            "environment": {"id": "${confluent_environment.environment.id}"},
        }
    ]


def test_the_account_of_statements_may_use_flink_in_this_environment_alone(with_flink: dict[str, Any]) -> None:
    flink = [each for each in of(with_flink, "confluent_role_binding") if "flink_account" in each["principal"]]

    roles = {(each["role_name"], each["crn_pattern"]) for each in flink}

    assert len(roles) == len(flink) == 11
    assert ("FlinkDeveloper", "${confluent_environment.environment.resource_name}") in roles
    totals = TOPIC.replace("stock_trades", "stock_total_trades")
    assert {role for role, on in roles if on == totals} == {"DeveloperManage", "DeveloperWrite"}
    assert {role for role, on in roles if on == TOPIC} == {"DeveloperRead"}


def test_the_step_that_runs_statements_learns_where_but_no_key(with_flink: dict[str, Any]) -> None:
    variables = with_flink["output"]["flink_variables"]["value"]

    assert variables == {
        "CONFLUENT_ORGANIZATION_ID": "${data.confluent_organization.flink-pool_organization_71F7B021.id}",
        "CONFLUENT_ENVIRONMENT_ID": "${confluent_environment.environment.id}",
        "FLINK_COMPUTE_POOL_ID": "${confluent_flink_compute_pool.flink-pool_4156F42D.id}",
        "FLINK_REST_ENDPOINT": "${data.confluent_flink_region.flink-pool_region_B827EBED.rest_endpoint}",
        "FLINK_PRINCIPAL_ID": "${confluent_service_account.flink_account_F42634EC.id}",
    }
    assert with_flink["provider"] == {"confluent": [{}]}


def test_a_pool_without_statements_has_no_account_and_no_key(tmp_path: Path) -> None:
    stack = written(tmp_path, settings_with(flink=Flink(5, statements=False)))

    assert len(of(stack, "confluent_flink_compute_pool")) == 1
    assert "flink" not in stack["output"]["service_accounts"]["value"]
    assert "flink_variables" not in stack["output"]
