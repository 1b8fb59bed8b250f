"""Where the real Terraform keeps a stack's state, and the commands that hints print to save one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from infra.deploy.cloud import Cloud
from infra.deploy.deployment import Deployment, open_deployment
from infra.deploy.stacks.deployed import Stacks
from infra.deploy.stacks.unsaved import refuse_unsaved_states
from infra.terraform.runner import Terraform, TerraformError

pytestmark = pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed")


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """An environment with local states, whose stacks need no provider, and Terraform warns in each command."""
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(tmp_path / "missing.tfrc"))
    monkeypatch.setattr(Cloud, "prepare", lambda *_: {})
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
