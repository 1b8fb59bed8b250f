"""The outcome for a stack, with a stand-in for Terraform that records what it was asked to forget."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from infra.deploy.aws_cloud import AwsCloud
from infra.deploy.clouds import REAL
from infra.deploy.deployment import Deployment
from infra.deploy.stacks.deployed import Stacks, synthesize
from infra.settings.model import HcpState, LocalState, S3State
from infra.terraform.runner import Terraform, TerraformError
from infra.terraform.states import write_reader

TERRAFORM = """#!/bin/sh
echo "$*" >> calls
case "$1 $2" in
  "output "*) echo '{"application_id": {"value": "'"$(grep -c . calls)"'"}}' ;;
  "state list") printf 'aws_iam_role.job\\naws_lambda_invocation.kept\\n' ;;
  "state rm") touch forgotten ;;
  "destroy "*) [ -e forgotten ] || { echo "Error: invoking Lambda Function: $WHY"; exit 1; } ;;
esac
"""


def stacks(folder: Path, told: list[str], why: str) -> Stacks:
    script = folder / "bin" / "terraform"
    script.parent.mkdir()
    script.write_text(TERRAFORM)
    script.chmod(0o755)
    env = {"PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}", "WHY": why}
    known = {"jobs": Terraform("jobs", folder, env, folder / "log", told.append)}
    return Stacks(cast(Deployment, None), ("jobs",), told.append, known, known)


def test_a_function_that_is_gone_does_not_keep_a_stack_from_going(tmp_path: Path) -> None:
    told: list[str] = []

    stacks(tmp_path, told, "ResourceNotFoundException: Function not found: arn").destroy(["jobs"])

    calls = [line.split(" -")[0] for line in (tmp_path / "calls").read_text().splitlines()]
    assert calls == ["state list", "destroy", "state list", "state rm aws_lambda_invocation.kept", "destroy"]
    assert told[-1] == "jobs: gone"


def test_a_function_that_refuses_is_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(TerraformError, match="still ending"):
        stacks(tmp_path, [], "StillEndingError: job runs are still ending").destroy(["jobs"])

    assert not (tmp_path / "forgotten").exists()


def test_a_state_is_read_once_until_the_stack_changes(tmp_path: Path) -> None:
    ours = stacks(tmp_path, [], "")
    first = (ours.outputs("jobs"), ours.resources())
    assert (ours.outputs("jobs"), ours.resources()) == first

    ours.apply(["jobs"])

    assert ours.outputs("jobs") == {"application_id": "4"}
    calls = [line.split(" -")[0] for line in (tmp_path / "calls").read_text().splitlines()]
    assert calls == ["output", "state list", "apply", "output"]


def test_a_state_is_read_again_after_a_change_that_failed(tmp_path: Path) -> None:
    ours = stacks(tmp_path, [], "still ending")
    before = ours.outputs("jobs")

    with pytest.raises(TerraformError):
        ours.destroy(["jobs"])

    assert ours.outputs("jobs") != before


def test_a_reader_has_the_backend_and_nothing_else(tmp_path: Path) -> None:
    stack = tmp_path / "cdktf.out" / "stacks" / "lake"
    stack.mkdir(parents=True)
    s3 = {"backend": {"s3": {"bucket": "states"}}}
    synthesized = {"terraform": {**s3, "required_providers": {"aws": {}}}, "resource": {"aws_s3_bucket": {}}}
    (stack / "cdk.tf.json").write_text(json.dumps(synthesized))

    assert json.loads((write_reader(stack) / "cdk.tf.json").read_text()) == {"terraform": s3}


def environment(folder: Path, backend: object = None) -> SimpleNamespace:
    """Return what the stacks ask of a deployment whose files are in `folder`."""
    return SimpleNamespace(
        synthesized=folder,
        folder=folder,
        profile="me",
        options="--profile=me --environment=dev",
        cloud=REAL,
        checkout=folder,
        settings=SimpleNamespace(backend=backend or LocalState()),
        terraform_data=lambda stack: folder / "terraform" / stack,
    )


@pytest.mark.parametrize(
    ("backend", "workspace"),
    [
        (LocalState(), "default"),
        (S3State("states", "us-east-1"), "default"),
        (HcpState("acme", None, "app.terraform.io"), None),
    ],
)
def test_variables_of_the_shell_lead_terraform_to_no_other_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: object, workspace: str | None
) -> None:
    monkeypatch.setattr(AwsCloud, "prepare", lambda *_: {})
    for name in ("TF_WORKSPACE", "TF_CLI_ARGS", "TF_CLI_ARGS_apply", "TF_PLUGIN_CACHE_DIR"):
        monkeypatch.setenv(name, "mine")

    env = Stacks(cast(Deployment, environment(tmp_path, backend)), ("lake",), print)._terraform("lake").env

    assert (env.get("TF_WORKSPACE"), env["TF_PLUGIN_CACHE_DIR"]) == (workspace, "mine")
    assert not [name for name in env if name.startswith("TF_CLI_ARGS")]


@pytest.mark.parametrize("variable", ["TF_LOG", "TF_LOG_CORE", "TF_LOG_PROVIDER_AWS"])
def test_a_debug_log_is_a_file_of_its_own_that_others_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    deployment = cast(Deployment, SimpleNamespace(folder=tmp_path))
    ours = Stacks(deployment, ("jobs",), print)
    monkeypatch.delenv("TF_LOG", raising=False)
    assert ours._debug_log() == {}

    monkeypatch.setenv(variable, "DEBUG")

    assert ours._debug_log() == {"TF_LOG_PATH": str(tmp_path / "terraform-debug.log")}
    assert (tmp_path / "terraform-debug.log").stat().st_mode & 0o077 == 0


EIPS = [f"nat-{letter}-address" for letter in "abc"]


@pytest.mark.parametrize(
    ("configured", "used", "warns"),
    [
        ([f"nat-{letter}-instance-address" for letter in "abc"], 3, True),
        (EIPS, 3, False),
        ([*EIPS[:2], "nat-d-address"], 4, False),
    ],
)
def test_a_switch_of_nat_that_needs_more_addresses_than_the_quota_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: list[str], used: int, warns: bool
) -> None:
    """The state has three addresses of NAT gateways."""
    listed = "".join(f"aws_eip.{name}\\n" for name in EIPS)
    script = tmp_path / "bin" / "terraform"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\n[ \"$1 $2\" = 'state list' ] && printf '{listed}' || true\n")
    script.chmod(0o755)
    (tmp_path / "cdk.tf.json").write_text(json.dumps({"resource": {"aws_eip": {name: {} for name in configured}}}))
    client = SimpleNamespace(describe_addresses=lambda: {"Addresses": [{}] * used})
    monkeypatch.setattr("boto3.client", lambda _: client)
    env = {"PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}"}
    told: list[str] = []
    known = {"network": Terraform("network", tmp_path, env, tmp_path / "log", told.append)}
    deployment = cast(Deployment, SimpleNamespace(cloud=REAL))

    Stacks(deployment, ("network",), told.append, known, known).apply(["network"])

    assert [line.partition(" Ask")[0] for line in told if "warning" in line] == (
        ["warning: network: needs 3 more Elastic IPs beside the 3 that the region has now, and the default quota is 5."]
        if warns
        else []
    )


def test_a_state_that_terraform_could_not_save_is_not_deleted(tmp_path: Path) -> None:
    unsaved = tmp_path / "stacks" / "lake" / "errored.tfstate"
    unsaved.parent.mkdir(parents=True)
    unsaved.write_text("{}")

    with pytest.raises(TerraformError, match="state of the stack lake was not saved") as refused:
        synthesize(cast(Deployment, environment(tmp_path)), print)

    reach = (
        f"AWS_PROFILE=me TF_DATA_DIR={tmp_path}/terraform/lake TF_WORKSPACE=default terraform -chdir={unsaved.parent}"
    )
    assert f"run `{reach} state push errored.tfstate && rm {unsaved}`" in refused.value.hint
    assert f"first run `{reach} force-unlock LOCK_ID`" in refused.value.hint
    assert unsaved.exists()


@pytest.mark.parametrize("has_its_own", [False, True])
def test_a_state_that_a_workspace_has_among_the_stacks_is_not_deleted(tmp_path: Path, has_its_own: bool) -> None:
    other = tmp_path / "stacks" / "lake" / "terraform.tfstate.d" / "mine" / "terraform.tfstate"
    other.parent.mkdir(parents=True)
    other.write_text("{}")
    state = tmp_path / "state" / "lake.tfstate"
    if has_its_own:
        state.parent.mkdir()
        state.touch()

    with pytest.raises(TerraformError, match="stack lake is in the Terraform workspace mine") as refused:
        synthesize(cast(Deployment, environment(tmp_path)), print)

    assert other.exists()
    assert (f"mv {other} {state}" in refused.value.hint) is not has_its_own
    assert (f"`terraform state list -state={other}`" in refused.value.hint) is has_its_own
