"""Every stack in every shape before the real provider of AWS, which knows what it takes; no cloud is asked anything.

Confluent's and Snowflake's providers are stand-ins with the real ones' schemas. The stacks are modules of one
configuration: a provider is started once for all of them, and its own block is looked at once.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_all_stacks import everything
from test_jobs import ARTEFACTS

from infra.app import build
from infra.deploy.deployment import STACKS
from infra.generate import SOURCES
from infra.settings.file import load_environment
from infra.settings.model import (
    EnvironmentSettings,
    ExistingVpc,
    ExternalKafka,
    ExternalRegistry,
    MadeVpc,
    Network,
    PrivateLink,
    Reader,
    Scheduled,
)
from infra.terraform.environment import STUBS, terraform_environment
from infra.terraform.runner import Terraform

ROOT = Path(__file__).parents[2]
LINK = PrivateLink("com.amazonaws.vpce.us-east-1.vpce-svc-01", "us-east-1.aws.private.confluent.cloud")
READER = Reader("arn:aws:iam::123456789012:role/analysts", "agreed", athena=True)
MSK = ExternalKafka(
    name="msk",
    bootstrap_servers="b-1.msk:9098",
    protocol="sasl_ssl",
    mechanism=None,
    msk_iam=True,
    credentials=None,
    registry=ExternalRegistry("https://registry.example.com", None),
)


def shapes() -> Mapping[str, EnvironmentSettings]:
    """Between them they have every setting that adds, leaves out or changes a resource; `local` is applied anyway."""
    dev = load_environment("dev", {})
    full = everything(dev)
    gateways = Network(MadeVpc("10.42.0.0/16", 3, "one_per_zone"), dev.network.egress, LINK)
    outside = Network(ExistingVpc("vpc-1", ("subnet-1", "subnet-2"), ("rtb-1",)), dev.network.egress, None)
    jobs = replace(dev.jobs, tables={"orders": Scheduled("cron(0 6 * * ? *)")}, alarm_email="someone@example.com")
    return {
        "dev": dev,
        "full": replace(full, network=gateways, lake=replace(dev.lake, readers={"analysts": READER}), jobs=jobs),
        "outside": replace(dev, network=outside, kafka=MSK, production=True),
    }


def write_as_modules(folder: Path) -> set[str]:
    """One configuration with all stacks of all shapes in it; the names of the stacks."""
    tables = folder / "tables"
    tables.mkdir()
    for topic in ("orders", "stock_trades"):
        (tables / f"{topic}.yaml").write_text(f"topic: {topic}\nreaders: [snowflake]\n")
    providers: dict[str, Any] = {}
    stacks = set()
    modules = {}
    for shape, settings in shapes().items():
        for stack in build(settings, folder / shape, ARTEFACTS, tables=tables):
            directory = folder / shape / "stacks" / stack
            providers = _without_surroundings(directory / "cdk.tf.json") | providers
            modules[f"{shape}-{stack}"] = {"source": f"./{shape}/stacks/{stack}"}
            stacks.add(stack)
    required = {name: {"source": source.address, "version": source.version} for name, source in SOURCES.items()}
    written = {"terraform": {"required_providers": required}, "provider": providers, "module": modules}
    (folder / "main.tf.json").write_text(json.dumps(written))
    return stacks


def _without_surroundings(file: Path) -> dict[str, Any]:
    """What a module cannot have: a backend, and providers of its own, which are given back."""
    stack = json.loads(file.read_text())
    providers: dict[str, Any] = stack.pop("provider")
    stack["terraform"].pop("backend")
    file.write_text(json.dumps(stack))
    return providers


@pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed")
def test_the_providers_take_every_stack_in_every_shape(tmp_path: Path) -> None:
    stacks = write_as_modules(tmp_path)
    env = {**os.environ, **terraform_environment(os.environ, ROOT / ".frazil" / "terraform", stubs=STUBS)}

    terraform = Terraform("all", tmp_path, env, tmp_path / "log", print)
    terraform.init()
    terraform.validate()

    assert stacks == set(STACKS)
    assert "Success! The configuration is valid." in (tmp_path / "log").read_text()
