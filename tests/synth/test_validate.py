"""Every stack in every shape before the real provider of AWS, which knows what it takes; no cloud is asked anything.

The typed resources have the schema of that provider. Confluent's and Snowflake's providers are stand-ins with the real
ones' schemas. The stacks are modules of one configuration: a provider is started once for all of them, and its own
block is looked at once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from test_all_stacks import everything
from test_jobs import ARTEFACTS

from infra.app import build
from infra.deploy.deployment import STACKS
from infra.deploy.stacks.deployed import RARE_COLLECTION
from infra.generate import GROUPS, SOURCES, read_schema, stripped
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
from infra.terraform.environment import STUBS, address, terraform_environment
from infra.terraform.runner import Terraform

pytestmark = pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed")

ROOT = Path(__file__).parents[2]
SECONDS = 120
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


@dataclass(frozen=True)
class Initialised:
    """A configuration of all stacks, initialised once: each `init` reads 700 MB of providers to verify them."""

    terraform: Terraform
    stacks: set[str]


@pytest.fixture(scope="module")
def initialised(tmp_path_factory: pytest.TempPathFactory) -> Initialised:
    folder = tmp_path_factory.mktemp("all")
    stacks = write_as_modules(folder)
    found = terraform_environment(os.environ, ROOT / ".frazil" / "terraform", stubs=STUBS)
    terraform = Terraform("all", folder, {**os.environ, **RARE_COLLECTION, **found}, folder / "log", print)
    terraform.init()
    return Initialised(terraform, stacks)


def test_the_providers_take_every_stack_in_every_shape(initialised: Initialised) -> None:
    initialised.terraform.validate()

    assert initialised.stacks == set(STACKS)
    assert "Success! The configuration is valid." in initialised.terraform.log.read_text()


def test_the_provider_of_the_pinned_version_has_the_schema_that_is_kept_here(initialised: Initialised) -> None:
    """The typed resources are made from that schema."""
    terraform = initialised.terraform
    command = ("terraform", "providers", "schema", "-json")
    shown = subprocess.run(
        command, cwd=terraform.directory, env=dict(terraform.env), capture_output=True, timeout=SECONDS, check=True
    )

    theirs, ours = json.loads(shown.stdout)["provider_schemas"][address("aws")], read_schema("aws")
    assert stripped(theirs["provider"]) == ours["provider"]
    for group, _, _ in GROUPS:
        differing = [name for name, each in ours[group].items() if stripped(theirs[group].get(name, {})) != each]
        assert differing == [], f"renew them: python -m infra.generate take SCHEMA.json aws {' '.join(differing)}"
