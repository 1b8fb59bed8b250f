"""What is written for Terraform so that API keys have a place, and nothing of them is in Terraform."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from every_feature import BACKENDS
from written import KAFKA, Written, dev, write

from infra.cdk import App, Token
from infra.settings import EnvironmentSettings
from infra.stacks.kafka import Kafka
from infra.stacks.lake import LakeStack
from infra.stacks.secrets import Secret, SecretsStack

KEY = "outputs.cross-stack-output-aws_kms_keykeyarn}"
LAKE = "${data.terraform_remote_state.cross-stack-reference-input-lake."
NO_ACCOUNTS = replace(KAFKA, accounts=(), credentials="msk/frazil")


def secrets(folder: Path, settings: EnvironmentSettings, kafka: Kafka = KAFKA) -> Written:
    return write(folder, settings, lambda app: build(app, settings, kafka))["secrets"]


def build(app: App, settings: EnvironmentSettings, kafka: Kafka) -> SecretsStack:
    return SecretsStack(app, settings, lake=LakeStack(app, settings, kafka=kafka), kafka=kafka)


def test_each_account_has_an_empty_secret_under_the_key_of_the_lake(tmp_path: Path) -> None:
    stack = secrets(tmp_path, dev())

    assert stack.types() == {"aws_secretsmanager_secret": 2, "aws_secretsmanager_secret_policy": 2}
    assert stack.of("aws_secretsmanager_secret") == {
        account: {
            "name": f"frazil/dev/{account}",
            "description": f"API keys of the service account {account}",
            "kms_key_id": f"{LAKE}{KEY}",
            "recovery_window_in_days": 0,
        }
        for account in ("manager", "materializer")
    }
    assert stack.outputs == {"secrets": {"manager": "frazil/dev/manager", "materializer": "frazil/dev/materializer"}}


def test_in_production_a_deleted_secret_can_be_restored_for_a_month(tmp_path: Path) -> None:
    stack = secrets(tmp_path, dev(production=True))

    assert {each["recovery_window_in_days"] for each in stack.of("aws_secretsmanager_secret").values()} == {30}


def test_nobody_of_another_account_and_nobody_without_tls_gets_a_secret(tmp_path: Path) -> None:
    stack = secrets(tmp_path, dev())

    policies = stack.of("aws_secretsmanager_secret_policy")
    assert {path: (each["secret_arn"], each["block_public_policy"]) for path, each in policies.items()} == {
        f"{account}-policy": (f"{{{account}.arn}}", True) for account in ("manager", "materializer")
    }
    denied: dict[str, Any] = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "secretsmanager:*",
        "Resource": "{manager.arn}",
    }
    assert stack.policy("aws_secretsmanager_secret_policy", "manager-policy") == [
        {"Sid": "TlsOnly", **denied, "Condition": {"Bool": {"aws:SecureTransport": "false"}}},
        {
            "Sid": "OwnAccountOnly",
            **denied,
            "Condition": {
                "BoolIfExists": {"aws:PrincipalIsAWSService": "false"},
                "StringNotEquals": {"aws:PrincipalAccount": "{caller.account_id}"},
            },
        },
    ]


def test_a_kafka_that_brings_its_secrets_gets_none(tmp_path: Path) -> None:
    stack = secrets(tmp_path, dev(), NO_ACCOUNTS)

    assert stack.types() == {}
    assert stack.outputs == {}


def test_policies_name_a_secret_of_others_by_all_but_the_letters_that_aws_appended(tmp_path: Path) -> None:
    stack = build(App(outdir=str(tmp_path)), dev(), NO_ACCOUNTS)

    found = stack.named("msk/frazil")

    assert found.name == "msk/frazil"
    assert found.arn.startswith("arn:aws:secretsmanager:us-east-1:${TfToken")
    assert found.arn.endswith(":secret:msk/frazil-??????")


def test_a_secret_of_ours_is_the_same_by_account_and_by_name(tmp_path: Path) -> None:
    stack = build(App(outdir=str(tmp_path)), dev(), KAFKA)

    found = stack.named("frazil/dev/materializer")

    assert found == stack.of_account("materializer") == Secret("frazil/dev/materializer", found.arn)
    assert Token.is_unresolved(found.arn)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_key_comes_from_where_the_state_of_the_lake_lies(tmp_path: Path, backend: str) -> None:
    stack = secrets(tmp_path, dev(backend=BACKENDS[backend]))

    (state,) = stack.document["data"]["terraform_remote_state"].values()
    assert {name: each for name, each in state.items() if name != "workspace"} == {
        "local": {"backend": "local", "config": {"path": "../../../state/lake.tfstate"}},
        "s3": {
            "backend": "s3",
            "config": {
                "bucket": "acme-states",
                "key": "frazil/dev/lake.tfstate",
                "region": "eu-west-1",
                "encrypt": True,
            },
        },
        "cloud": {
            "backend": "remote",
            "config": {
                "hostname": "app.terraform.io",
                "organization": "acme",
                "workspaces": {"name": "frazil-dev-lake"},
            },
        },
    }[backend]
