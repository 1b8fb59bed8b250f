"""Where the real Terraform keeps a stack's state, and the commands that hints print to save one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import boto3  # type: ignore[import-untyped]
import pytest
from moto.server import ThreadedMotoServer

from infra.deploy.aws_cloud import AwsCloud
from infra.deploy.deployment import Deployment, open_deployment
from infra.deploy.stacks.deployed import Stacks
from infra.deploy.stacks.unsaved import refuse_unsaved_states
from infra.settings.model import LocalState, S3State
from infra.terraform.runner import Terraform, TerraformError

pytestmark = pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed")


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """An environment with local states, whose stacks need no provider, and Terraform warns in each command."""
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(tmp_path / "missing.tfrc"))
    monkeypatch.setattr(AwsCloud, "prepare", lambda *_: {})
    return replace(open_deployment("dev", "me", asks=False), checkout=tmp_path / "a checkout")


def synthesized(deployment: Deployment, **resources: str) -> Terraform:
    """The stack lake, written again as by each command."""
    terraform = Stacks(deployment, ("lake",), print)._terraform("lake")
    shutil.rmtree(deployment.synthesized, ignore_errors=True)
    terraform.directory.mkdir(parents=True)
    stack = {
        "terraform": {"backend": {"local": {"path": "../../../state/lake.tfstate"}}},
        "resource": {"terraform_data": {name: {"input": value} for name, value in resources.items()}},
    }
    (terraform.directory / "cdk.tf.json").write_text(json.dumps(stack), encoding="utf-8")
    terraform.init()
    return terraform


def test_a_workspace_of_the_shell_or_of_an_earlier_command_moves_no_state(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_WORKSPACE", "mine")
    selected = deployment.terraform_data("lake") / "environment"
    selected.parent.mkdir(parents=True)
    selected.write_text("mine")

    synthesized(deployment, vpc="x").apply()

    assert synthesized(deployment, vpc="x").resources() == ["terraform_data.vpc"]
    assert (deployment.folder / "state" / "lake.tfstate").exists()


def test_the_command_of_the_hint_saves_a_state_that_terraform_could_not_save(
    deployment: Deployment, tmp_path: Path
) -> None:
    terraform = synthesized(deployment, vpc="x", bucket="y")
    terraform.apply()
    saved = deployment.folder / "state" / "lake.tfstate"
    unsaved = terraform.directory / "errored.tfstate"
    unsaved.write_bytes(saved.read_bytes())
    terraform.forget(["terraform_data.bucket"])
    newer = json.loads(unsaved.read_text()) | {"serial": json.loads(saved.read_text())["serial"] + 1}
    unsaved.write_text(json.dumps(newer))

    with pytest.raises(TerraformError) as refused:
        refuse_unsaved_states(deployment)
    push, force_unlock = re.findall(r"`(.+?)`", refused.value.hint)
    shell = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | {"TF_WORKSPACE": "mine"}
    done = subprocess.run(push, shell=True, env=shell, cwd=tmp_path, capture_output=True, text=True, check=False)
    unlock = subprocess.run(
        force_unlock, shell=True, env=shell, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (done.returncode, unsaved.exists()) == (0, False), done.stderr
    assert "Local state cannot be unlocked by another process" in unlock.stderr
    assert terraform.resources() == ["terraform_data.bucket", "terraform_data.vpc"]
    refuse_unsaved_states(deployment)


@pytest.fixture
def team(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], S3State]]:
    """Create a bucket in an S3 on loopback and return the backend in it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    urlopen(f"{address}/moto-api/reset", data=b"").close()  # other tests of this process may have left states
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL_IAM"):
        monkeypatch.setenv(name, address)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "somebody")
    monkeypatch.delenv("AWS_PROFILE", raising=False)

    def backend(bucket: str) -> S3State:
        boto3.client("s3", region_name="us-east-1", endpoint_url=address).create_bucket(Bucket=bucket)
        return S3State(bucket, "us-east-1")

    yield backend
    server.stop()


def in_backend(deployment: Deployment, backend: LocalState | S3State) -> tuple[Deployment, Stacks]:
    """Synthesize the stack lake with another backend, as the next command does."""
    there = replace(deployment, settings=replace(deployment.settings, backend=backend))
    block: dict[str, Any] = {"local": {"path": "../../../state/lake.tfstate"}}
    if isinstance(backend, S3State):
        place = {"bucket": backend.bucket, "key": "frazil/dev/lake.tfstate", "region": backend.region}
        block = {"s3": {**place, "use_path_style": True}}
    folder = there.synthesized / "stacks" / "lake"
    shutil.rmtree(there.synthesized, ignore_errors=True)
    folder.mkdir(parents=True)
    stack = {"terraform": {"backend": block}, "resource": {"terraform_data": {"vpc": {"input": "x"}}}}
    (folder / "cdk.tf.json").write_text(json.dumps(stack), encoding="utf-8")
    return there, Stacks(there, ("lake",), print)


def made(stacks: Stacks) -> str:
    """Apply the stack, and return the id of its only resource."""
    stacks.apply(["lake"])
    (resource,) = stacks._ready("lake").pull()["resources"]
    return str(resource["instances"][0]["attributes"]["id"])


def test_a_changed_backend_gets_the_state_and_makes_nothing_a_second_time(
    deployment: Deployment, team: Callable[[str], S3State]
) -> None:
    """A local state goes into a team's bucket, then into another bucket, and back."""
    _, stacks = in_backend(deployment, LocalState())
    before, found = made(stacks), deployment.folder / "state" / "lake.tfstate"
    for backend in (team("states"), team("others"), LocalState()):
        there, stacks = in_backend(deployment, backend)
        with pytest.raises(TerraformError, match="created a second time: lake: expected") as refused:
            stacks.refuse_former_states()
        assert f"found {found}" in refused.value.what
        assert f"`{there.step('move-states')}`" in refused.value.hint

        (moved,) = stacks.move_states()

        assert moved.found == str(found)
        found = moved.expected
        stacks.refuse_former_states()
        assert made(stacks) == before
        assert '"lineage"' not in (deployment.folder / "terraform.log").read_text(), "a state is in the log"
    assert (deployment.folder / "state" / "lake.tfstate.moved").exists()


def test_another_machine_of_the_team_goes_on_in_the_moved_state(
    deployment: Deployment, team: Callable[[str], S3State], tmp_path: Path
) -> None:
    former, later = team("states"), team("others")
    before = made(in_backend(deployment, former)[1])
    other = replace(deployment, checkout=tmp_path / "other")
    made(in_backend(other, former)[1])
    _, stacks = in_backend(deployment, later)
    list(stacks.move_states())
    stacks.apply(["lake"])

    _, stacks = in_backend(other, later)
    stacks.refuse_former_states()

    assert made(stacks) == before


def test_a_former_backend_without_resources_and_another_region_are_no_obstacle(
    deployment: Deployment, team: Callable[[str], S3State]
) -> None:
    former, later = team("states"), team("others")
    made(in_backend(deployment, former)[1])
    in_backend(deployment, replace(former, region="eu-west-1"))[1].refuse_former_states()
    with pytest.raises(TerraformError):
        in_backend(deployment, later)[1].refuse_former_states()
    in_backend(deployment, former)[1].destroy(["lake"])

    _, stacks = in_backend(deployment, later)
    stacks.refuse_former_states()

    assert made(stacks)


def test_a_different_state_in_the_new_backend_is_not_overwritten(
    deployment: Deployment, team: Callable[[str], S3State], tmp_path: Path
) -> None:
    backend = team("states")
    made(in_backend(replace(deployment, checkout=tmp_path / "other"), backend)[1])
    made(in_backend(deployment, LocalState())[1])
    _, stacks = in_backend(deployment, backend)

    with pytest.raises(TerraformError, match="cannot import state with lineage"):
        list(stacks.move_states())

    assert (deployment.folder / "state" / "lake.tfstate").exists()
