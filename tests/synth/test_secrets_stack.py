"""What is written for Terraform so that keys have a place and are rotated, and nothing of them is in Terraform."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from every_feature import BACKENDS
from written import KAFKA, Written, dev, write

from infra.cdk import App, Token
from infra.components.kafka import Kafka
from infra.components.key_rotation import NOT_PACKED, Code
from infra.settings.model import EnvironmentSettings, ExistingWarehouse, Rotation, Snowflake
from infra.stacks.lake import LakeStack
from infra.stacks.secrets import KeySecret, SecretsStack

KEY = "outputs.cross-stack-output-aws_kms_keykeyarn}"
LAKE = "${data.terraform_remote_state.cross-stack-reference-input-lake."
NO_ACCOUNTS = replace(KAFKA, key_holders=None, credentials="msk/frazil")
SECRETS = ("cloud", "manager", "materializer")
SNOWFLAKE = Snowflake(
    organization="ACME",
    account="LAKE",
    user="DEPLOYER",
    role="DEPLOYER",
    warehouse=ExistingWarehouse("WH"),
    database=None,
    schema="TABLES",
    refresh_seconds=60,
    reader_roles=(),
    allowed_cidrs=(),
)


def secrets(folder: Path, settings: EnvironmentSettings, kafka: Kafka = KAFKA) -> Written:
    return write(folder, settings, lambda app: build(app, settings, kafka))["secrets"]


def build(app: App, settings: EnvironmentSettings, kafka: Kafka, code: Code = NOT_PACKED) -> SecretsStack:
    return SecretsStack(app, settings, lake=LakeStack(app, settings, kafka=kafka), kafka=kafka, code=code)


def packed(folder: Path) -> Path:
    """Made before the stack is."""
    zipped = folder / "some.zip"
    zipped.write_bytes(b"a zip")
    return zipped


def test_each_account_has_an_empty_secret_under_the_key_of_the_lake(tmp_path: Path) -> None:
    stack = secrets(tmp_path, dev())

    assert stack.of("aws_secretsmanager_secret") == {
        "cloud": {
            "name": "frazil/dev/cloud",
            "description": "The Cloud API key that makes the others",
            "kms_key_id": f"{LAKE}{KEY}",
            "recovery_window_in_days": 0,
        },
        **{
            account: {
                "name": f"frazil/dev/{account}",
                "description": f"API keys of the service account {account}",
                "kms_key_id": f"{LAKE}{KEY}",
                "recovery_window_in_days": 0,
                "tags": {
                    "frazil-rotates": "confluent_api_key",
                    "frazil-account": account,
                    "frazil-owner": owner,
                },
            }
            for account, owner in (("manager", "sa-1"), ("materializer", "sa-2"))
        },
    }
    names = {"manager": "frazil/dev/manager", "materializer": "frazil/dev/materializer"}
    assert stack.outputs == {
        "secrets": names,
        "rotated": names,
        "rotation_function": "{rotation/function/function.function_name}",
    }


def test_secrets_manager_calls_the_function_for_each_secret_but_the_cloud_key(tmp_path: Path) -> None:
    stack = secrets(tmp_path, dev(rotation=Rotation(days=45, keys_to_retain=3)))

    assert stack.of("aws_secretsmanager_secret_rotation") == {}, "the secrets have no value before the step keys"
    assert stack.one("aws_lambda_permission") == {
        "statement_id": "SecretsManager",
        "action": "lambda:InvokeFunction",
        "function_name": "{rotation/function/function.function_name}",
        "principal": "secretsmanager.amazonaws.com",
        "source_account": "{caller.account_id}",
    }
    assert stack.one("aws_lambda_function")["environment"]["variables"] == {
        "FRAZIL_ENVIRONMENT": "dev",
        "CONFLUENT_CLUSTER_ID": "lkc-1y3y5",
        "CONFLUENT_KAFKA_REST_ENDPOINT": "https://rest",
        "CONFLUENT_REGISTRY_ID": "lsrc-1",
        "CONFLUENT_REGISTRY_URL": "https://registry",
        "CONFLUENT_CLOUD_SECRET": "{cloud.name}",
        "KEYS_TO_RETAIN": "3",
    }


def test_the_function_may_touch_these_secrets_and_only_read_the_cloud_key(tmp_path: Path) -> None:
    statements = secrets(tmp_path, dev()).policy("aws_iam_role_policy", "rotation/function/acts-as/policy")

    assert [(each["Sid"], each["Resource"]) for each in statements] == [
        ("Secrets", "{cloud.arn}"),
        ("RotatedSecrets", ["{manager.arn}", "{materializer.arn}"]),
        ("KeyUnderSecrets", f"{LAKE}{KEY}"),
        ("WriteLogs", "{rotation/function/logs/group.arn}:log-stream:*"),
    ]
    assert statements[0]["Action"] == "secretsmanager:GetSecretValue"
    assert statements[2]["Condition"] == {"StringEquals": {"kms:ViaService": "secretsmanager.us-east-1.amazonaws.com"}}


def test_the_packed_function_travels_with_the_stack(tmp_path: Path) -> None:
    code = Code(packed(tmp_path), {"FRAZIL_CONFLUENT_URL": "http://127.0.0.1:4571"})
    stack = write(tmp_path, dev(), lambda app: build(app, dev(), KAFKA, code))["secrets"]

    function = stack.one("aws_lambda_function")
    assert (stack.folder / function["filename"]).read_bytes() == b"a zip"
    assert function["source_code_hash"] == "mkRVdGXvxkS3EX6T6vE8M82Vb19PEsohvVGulOqXFpo="
    assert function["environment"]["variables"]["FRAZIL_CONFLUENT_URL"] == "http://127.0.0.1:4571"


def test_first_keys_of_snowflakes_users_are_made_by_the_function_and_only_public_halves_come_out(
    tmp_path: Path,
) -> None:
    made: list[SecretsStack] = []
    settings = dev(snowflake=SNOWFLAKE)
    stack = write(tmp_path, settings, lambda app: made.append(build(app, settings, NO_ACCOUNTS)))["secrets"]

    tags = {path: each["tags"] for path, each in stack.of("aws_secretsmanager_secret").items()}
    by_the_rotator = {"frazil-rotator-secret": "{snowflake-rotator.name}"}
    assert tags == {
        "snowflake-loader": {"frazil-rotates": "snowflake_rsa", "frazil-user": "FRAZIL_DEV_LOADER", **by_the_rotator},
        "snowflake-reader": {"frazil-rotates": "snowflake_rsa", "frazil-user": "FRAZIL_DEV_READER", **by_the_rotator},
        "snowflake-rotator": {"frazil-rotates": "snowflake_rsa", "frazil-user": "FRAZIL_DEV_ROTATOR"},
    }
    asked = {path: each["input"] for path, each in stack.of("aws_lambda_invocation").items()}
    assert asked == {
        f"rotation/first-key-of-{word}": f'{{"SecretId": "{{snowflake-{word}.arn}}", "Step": "firstKey"}}'
        for word in ("loader", "reader", "rotator")
    }
    assert made[0].user_keys.keys() == {"loader", "reader", "rotator"}
    assert all(Token.is_unresolved(each.secret_arn) for each in made[0].user_keys.values())
    for path, each in stack.of("aws_secretsmanager_secret_rotation").items():
        word = path.removeprefix("rotation/snowflake-")
        assert set(stack.addresses(f"rotation/first-key-of-{word}")) <= set(each["depends_on"])
    assert stack.one("aws_lambda_function")["environment"]["variables"] == {
        "FRAZIL_ENVIRONMENT": "dev",
        "SNOWFLAKE_ACCOUNT": "ACME-LAKE",
    }


def test_in_production_a_deleted_secret_can_be_restored_for_a_month(tmp_path: Path) -> None:
    stack = secrets(tmp_path, dev(production=True))

    assert {each["recovery_window_in_days"] for each in stack.of("aws_secretsmanager_secret").values()} == {30}


def test_nobody_of_another_account_and_nobody_without_tls_gets_a_secret(tmp_path: Path) -> None:
    stack = secrets(tmp_path, dev())

    policies = stack.of("aws_secretsmanager_secret_policy")
    assert {path: (each["secret_arn"], each["block_public_policy"]) for path, each in policies.items()} == {
        f"{word}-policy": (f"{{{word}.arn}}", True) for word in SECRETS
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

    assert found == stack.of_account("materializer") == KeySecret("frazil/dev/materializer", found.arn)
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


def test_a_remote_run_uploads_the_function_once_and_little_beside_it(tmp_path: Path) -> None:
    zipped = tmp_path / "rotate_keys.zip"
    zipped.write_bytes(bytes(3_000_000))

    stacks = write(tmp_path / "out", dev(), lambda app: build(app, dev(), KAFKA, Code(zipped)))

    sizes = {file.name: file.stat().st_size for file in stacks["secrets"].folder.rglob("*") if file.is_file()}
    assert sizes.pop("frazil-dev-rotate-keys.zip") == 3_000_000
    assert sum(sizes.values()) < 200_000, sizes
