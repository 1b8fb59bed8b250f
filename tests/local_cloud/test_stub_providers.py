"""The stand-ins of Confluent's and Snowflake's providers, by the real Terraform: applied, planned empty, destroyed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.terraform.environment import STUBS, address, stub_values, terraform_environment
from infra.terraform.runner import Terraform, TerraformError

pytestmark = pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed")

BROKER = "SASL_SSL://127.0.0.1:9092"
ENVIRONMENT = {"id": "${confluent_environment.this.id}"}
RESOURCES: Mapping[str, Mapping[str, Any]] = {
    "confluent_environment": {"display_name": "lake", "stream_governance": {"package": "ESSENTIALS"}},
    "confluent_kafka_cluster": {
        "display_name": "lake",
        "availability": "SINGLE_ZONE",
        "cloud": "AWS",
        "region": "us-east-1",
        "standard": {},
        "environment": ENVIRONMENT,
    },
    "confluent_service_account": {"display_name": "materializer"},
    "confluent_role_binding": {
        "principal": "User:${confluent_service_account.this.id}",
        "role_name": "DeveloperRead",
        "crn_pattern": "${confluent_kafka_cluster.this.rbac_crn}/kafka=*/topic=stock_trades",
    },
    "confluent_provider_integration": {
        "display_name": "lake",
        "environment": ENVIRONMENT,
        "aws": {"customer_role_arn": "arn:aws:iam::123456789012:role/tableflow"},
    },
    "snowflake_database": {"name": "LAKE"},
}
REGISTRY = {"environment": ENVIRONMENT, "depends_on": ["confluent_kafka_cluster.this"]}
OUTPUTS = {
    "cluster": "${confluent_kafka_cluster.this.id}",
    "bootstrap": "${confluent_kafka_cluster.this.bootstrap_endpoint}",
    "registry": "${data.confluent_schema_registry_cluster.this.rest_endpoint}",
    "trusted": "${confluent_provider_integration.this.aws[0].iam_role_arn}",
}


def stack(folder: Path, changes: Mapping[str, Mapping[str, Any]] | None = None) -> Terraform:
    """A folder with the resources, some of them with other arguments; and Terraform for it."""
    resources = {kind: {"this": {**one, **(changes or {}).get(kind, {})}} for kind, one in RESOURCES.items()}
    versions = {"confluent": "2.83.0", "snowflake": "2.20.0"}
    required = {name: {"source": address(name), "version": version} for name, version in versions.items()}
    written = {
        "terraform": {"required_providers": required},
        "resource": resources,
        "data": {"confluent_schema_registry_cluster": {"this": REGISTRY}},
        "output": {name: {"value": value} for name, value in OUTPUTS.items()},
    }
    (folder / "cdk.tf.json").write_text(json.dumps(written), encoding="utf-8")
    decided = stub_values("confluent_kafka_cluster", bootstrap_endpoint=BROKER)
    own = terraform_environment(os.environ, folder / "terraform", stubs=STUBS)
    return Terraform("small", folder, {**os.environ, **own, **decided}, folder / "log", lambda _: None)


def test_a_stack_is_applied_planned_empty_changed_in_place_and_destroyed(tmp_path: Path) -> None:
    terraform = stack(tmp_path)
    terraform.init()

    terraform.apply()

    told = terraform.outputs()
    assert (told["cluster"][:4], told["bootstrap"]) == ("lkc-", BROKER)
    assert told["registry"].startswith("https://psrc-")
    assert told["trusted"].startswith("arn:aws:iam::")
    assert terraform.plan() is False
    changed = stack(tmp_path, {"confluent_service_account": {"display_name": "other"}})
    assert changed.plan() is True
    changed.apply()
    assert changed.outputs() == told, "what was decided is kept"
    changed.destroy()
    assert changed.resources() == []


REFUSED = [
    ({"confluent_kafka_cluster": {"availability": "TWO_ZONES"}}, "availability: expected one of"),
    ({"confluent_kafka_cluster": {"basic": {}}}, "exactly one of"),
    ({"confluent_kafka_cluster": {"rest_endpoint": "https://mine"}}, "rest_endpoint is decided by the provider"),
    ({"confluent_role_binding": {"principal": "sa-1"}}, "principal: expected it to match"),
    ({"confluent_role_binding": {"role_name": "DeveloperReed"}}, "role_name: expected one of"),
    ({"confluent_environment": {"stream_governance": {"package": "SOME"}}}, "stream_governance.package"),
    ({"confluent_service_account": {"dispaly_name": "typo"}}, "Extraneous"),
    ({"confluent_provider_integration": {"aws": {}}}, "Missing required argument"),
]


def test_what_the_real_providers_refuse_is_refused(tmp_path: Path) -> None:
    """As resources of one stack: `validate` starts the providers once and reports every error."""
    terraform = stack(tmp_path)
    written = json.loads((tmp_path / "cdk.tf.json").read_text(encoding="utf-8"))
    for number, (changes, _) in enumerate(REFUSED):
        for kind, change in changes.items():
            written["resource"][kind][f"refused-{number}"] = {**RESOURCES[kind], **change}
    (tmp_path / "cdk.tf.json").write_text(json.dumps(written), encoding="utf-8")
    terraform.init()

    with pytest.raises(TerraformError):
        terraform.validate()

    errors = [" ".join(error.split()) for error in terraform.log.read_text().split("Error: ")[1:]]
    assert [reason for _, reason in REFUSED if not any(reason in error for error in errors)] == [], errors
    assert len(errors) == len(REFUSED), errors


def test_a_missing_configuration_file_of_the_users_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(tmp_path / "is-not-here"))

    terraform = stack(tmp_path)
    terraform.init()

    command = ("terraform", "version")
    said = subprocess.run(command, env=dict(terraform.env), cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "does not exist" not in said.stdout + said.stderr
