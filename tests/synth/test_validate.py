"""The stack with the jobs before the real provider of AWS, which knows what it takes; nothing is asked of any cloud."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from test_jobs import ARTEFACTS

from infra.app import build
from infra.deploy.terraform import Terraform
from infra.local.terraform_cli import STUBS, terraform_environment
from infra.settings import Scheduled
from infra.settings_file import load_environment

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed")
def test_the_provider_takes_the_stack(tmp_path: Path) -> None:
    for topic in ("orders", "stock_trades"):
        (tmp_path / f"{topic}.yaml").write_text(f"topic: {topic}\n")
    dev = load_environment("dev", {})
    scheduled = {"orders": Scheduled("cron(0 6 * * ? *)")}
    settings = replace(dev, jobs=replace(dev.jobs, tables=scheduled, alarm_email="someone@example.com"))
    build(settings, tmp_path / "out", ARTEFACTS, tables=tmp_path)
    shared = ROOT / ".frazil" / "terraform"
    env = {**os.environ, **terraform_environment(os.environ, shared, stubs=STUBS)}
    lines: list[str] = []

    terraform = Terraform("jobs", tmp_path / "out" / "stacks" / "jobs", env, tmp_path / "log", lines.append)
    terraform.init()
    terraform.validate()

    assert "Success! The configuration is valid." in (tmp_path / "log").read_text()
