"""Whatever backend an environment has, Terraform keeps the state of a local cloud on this machine."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.terraform.prepare import prepare
from infra.terraform.runner import Terraform

pytestmark = pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed")

BACKENDS = {
    "cloud": {"cloud": {"organization": "somebody", "workspaces": {"name": "small"}}},
    "s3": {"backend": {"s3": {"bucket": "somebodys", "key": "small.tfstate", "region": "us-east-1"}}},
}


@dataclass(frozen=True)
class Local:
    """As much of a deployment as is asked for."""

    folder: Path
    checkout: Path
    is_local: bool = True


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_stack_with_the_backend_of_a_real_cloud_is_applied_and_destroyed_here(tmp_path: Path, backend: str) -> None:
    directory = tmp_path / "cdktf.out" / "stacks" / "small"
    directory.mkdir(parents=True)
    of_terraform_itself = {"terraform_data": {"this": {"input": "kept"}}}
    written = {
        "terraform": BACKENDS[backend],
        "resource": of_terraform_itself,
        "output": {"did": {"value": "${terraform_data.this.output}"}},
    }
    (directory / "cdk.tf.json").write_text(json.dumps(written), encoding="utf-8")
    env = {**os.environ, **prepare(Local(tmp_path, tmp_path), directory)}
    terraform = Terraform("small", directory, env, tmp_path / "log", lambda _: None)

    terraform.init()
    terraform.apply()

    assert terraform.outputs() == {"did": "kept"}
    assert (tmp_path / "state" / "small.tfstate").exists()
    assert terraform.plan() is False, (tmp_path / "log").read_text()
    terraform.destroy()
    assert terraform.resources() == []
