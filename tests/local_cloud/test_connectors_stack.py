"""The stack of connectors, applied by Terraform to the double of AWS and to the stand-in of Confluent's provider."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cloud import Cloud

from frazil.specs.load import load_tables
from infra.cdk import App
from infra.deploy.deployment import Deployment
from infra.deploy.stacks.deployed import Stacks
from infra.guards.aspect import synthesize
from infra.settings.file import load_environment
from infra.settings.model import ConfluentKafka, Flink
from infra.stacks.confluent import ConfluentStack
from infra.stacks.connectors import ConnectorsStack
from infra.stacks.lake import LakeStack
from infra.stacks.secrets import SecretsStack
from infra.terraform.prepare import prepare_for_doubles
from infra.terraform.runner import Terraform, TerraformError

pytestmark = [
    pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed"),
    pytest.mark.timeout(600),
]

ROOT = Path(__file__).parents[2]
KEY = {"TABLEFLOW_API_KEY": "K", "TABLEFLOW_API_SECRET": "S"}
FLINK = {
    **{"FLINK_API_KEY": "K", "FLINK_API_SECRET": "never-written-down", "FLINK_PRINCIPAL_ID": "sa-1"},
    **{"FLINK_REST_ENDPOINT": "https://flink.us-east-1.aws.confluent.cloud", "FLINK_COMPUTE_POOL_ID": "lfcp-1"},
    **{"CONFLUENT_ORGANIZATION_ID": "org", "CONFLUENT_ENVIRONMENT_ID": "env-1"},
}
DESTROYED = re.compile(r"^(\w+\.\S+): Destroying\.\.\.", re.MULTILINE)


class NothingRotates:
    """The secrets of an environment, without the rotation of any."""

    def keep_accounts_rotating(self, scope: object) -> None:
        del scope


def synthesized(folder: Path, *tableflow: str, flink: Flink | None = None) -> None:
    settings = load_environment("dev", {})
    assert isinstance(settings.kafka, ConfluentKafka)
    kafka = replace(settings.kafka, tableflow=tableflow, flink=flink)
    app = App(outdir=str(folder / "cdktf.out"))
    tables = load_tables(ROOT / "tables", {}, database="lake", catalog_type="glue")
    confluent = ConfluentStack(app, settings, kafka=kafka, tables=tables)
    lake = LakeStack(app, settings, kafka=confluent.kafka)
    secrets = cast(SecretsStack, NothingRotates())
    ConnectorsStack(app, settings, kafka=kafka, confluent=confluent, lake=lake, secrets=secrets)
    synthesize(app, production=False)


def others_are_applied(folder: Path) -> None:
    """Return the outputs that other stacks read."""
    asked = (folder / "cdktf.out" / "stacks" / "connectors" / "cdk.tf.json").read_text()
    (folder / "state").mkdir()
    for stack in ("confluent", "lake"):
        names = re.findall(rf"cross-stack-reference-input-{stack}\.outputs\.([\w-]+)", asked)
        outputs = {name: {"type": "string", "value": told(name)} for name in names}
        state = {"version": 4, "serial": 1, "lineage": stack, "outputs": outputs, "resources": []}
        (folder / "state" / f"{stack}.tfstate").write_text(json.dumps(state))


def told(output: str) -> str:
    if output.endswith("arn"):
        return "arn:aws:s3:::lake"
    return f"crn://confluent.cloud/{output}" if output.endswith("resource_name") else "lake"


def terraform(cloud: Cloud, folder: Path, said: list[str], variables: Mapping[str, str]) -> Terraform:
    directory = folder / "cdktf.out" / "stacks" / "connectors"
    nobody = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_ENDPOINT_URL": cloud.endpoint_url}
    env = {**os.environ, **nobody, **prepare_for_doubles(directory, folder), **variables}
    ready = Terraform("connectors", directory, env, folder / "log", said.append)
    ready.init()
    return ready


def roles(cloud: Cloud) -> list[str]:
    return [role["RoleName"] for role in cloud.client("iam").list_roles()["Roles"] if "tableflow" in role["RoleName"]]


def test_tableflow_is_switched_off_topic_by_topic_in_order_and_with_its_key(
    cloud: Cloud, tmp_path: Path, aws_provider: Mapping[str, str]
) -> None:
    with_key = {**aws_provider, **KEY}
    said: list[str] = []
    synthesized(tmp_path, "stock_trades", "orders")
    others_are_applied(tmp_path)
    terraform(cloud, tmp_path, said, with_key).apply()
    assert roles(cloud) == ["frazil-dev-tableflow"]

    assert switched_off(cloud, tmp_path, said, with_key, "stock_trades") == ["confluent_tableflow_topic.table-orders"]
    assert roles(cloud) == ["frazil-dev-tableflow"]

    synthesized(tmp_path)
    with pytest.raises(TerraformError, match="TABLEFLOW_API_KEY and TABLEFLOW_API_SECRET must be set"):
        terraform(cloud, tmp_path, said, aws_provider).apply()
    gone = switched_off(cloud, tmp_path, said, with_key)

    assert roles(cloud) == []
    kinds = [address.partition(".")[0] for address in gone]
    assert set(kinds[:2]) == {"confluent_tableflow_topic", "confluent_catalog_integration"}
    assert set(kinds[2:4]) == {"aws_iam_role_policy", "confluent_role_binding"}
    assert kinds[4:] == ["aws_iam_role", "confluent_provider_integration"]
    left = terraform(cloud, tmp_path, said, aws_provider)
    assert [each for each in left.resources() if not each.startswith("data.")] == ["confluent_connector.trades"]
    left.apply()
    assert left.outputs().keys() == {"connector_id"}
    assert left.plan() is False


def test_statements_of_flink_run_and_are_deleted_with_their_key_which_is_written_nowhere(
    cloud: Cloud, tmp_path: Path, aws_provider: Mapping[str, str]
) -> None:
    with_key = {**aws_provider, **FLINK}
    said: list[str] = []
    synthesized(tmp_path, flink=Flink(5, statements=True))
    others_are_applied(tmp_path)
    with pytest.raises(TerraformError, match="FLINK_API_KEY and FLINK_API_SECRET must be set"):
        terraform(cloud, tmp_path, said, aws_provider).apply()
    with pytest.raises(TerraformError, match=r"All 7 .* must be set or not set"):
        terraform(cloud, tmp_path, said, {**aws_provider, "FLINK_API_KEY": "K", "FLINK_API_SECRET": "S"}).apply()

    running = terraform(cloud, tmp_path, said, with_key)
    running.apply()

    assert running.plan() is False
    assert running.outputs()["flink_statement"] == "frazil-dev-fill-stock-total-trades"
    for file in filter(Path.is_file, (*(tmp_path / "state").iterdir(), *(tmp_path / "cdktf.out").rglob("*"))):
        assert FLINK["FLINK_API_SECRET"].encode() not in file.read_bytes(), file
    gone = switched_off(cloud, tmp_path, said, with_key)
    assert [address.rpartition("_")[0] for address in gone] == [
        *("confluent_flink_statement.flink_fill", "confluent_flink_statement.flink_create")
    ]
    left = terraform(cloud, tmp_path, said, aws_provider)
    left.apply()
    assert left.outputs().keys() == {"connector_id"}
    assert left.plan() is False


def switched_off(cloud: Cloud, folder: Path, said: list[str], variables: Mapping[str, str], *stays: str) -> list[str]:
    """Remove the other topics, and return the destroyed resources in order."""
    log = folder / "log"
    before = len(log.read_text())
    synthesized(folder, *stays)
    ready = terraform(cloud, folder, said, variables)
    deployment = cast(Deployment, SimpleNamespace())
    stacks = WithKey(deployment, ("connectors",), said.append, {"connectors": ready})
    removed = stacks.destroy_removed(["connectors"])
    destroyed = DESTROYED.findall(log.read_text()[before:])
    assert sorted(destroyed) == sorted(removed)
    return destroyed


class WithKey(Stacks):
    """The key is in the environment of Terraform already."""

    def _keys_of_connectors(self) -> dict[str, Any]:
        return {}
