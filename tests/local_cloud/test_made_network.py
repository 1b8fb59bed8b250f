"""The stack `network` with all that it can make, by Terraform's real AWS provider on the double."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from cloud import Cloud

from infra.app import build
from infra.settings.file import load_environment
from infra.settings.model import MadeVpc, Network, PrivateLink
from infra.terraform.prepare import prepare_for_doubles
from infra.terraform.runner import Terraform
from tests.sampling import sampled

pytestmark = [
    pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed"),
    pytest.mark.timeout(300),
]

ROOT = Path(__file__).parents[2]
LINK = PrivateLink("com.amazonaws.vpce.us-east-1.vpce-svc-01", domain=None)
"""Without a domain: the double forgets that a zone made in a VPC is private, and to wait for zones takes a minute."""


@pytest.fixture(params=sampled(["gateway", "instance"], keep="instance".__eq__))
def terraform(
    cloud: Cloud, aws_provider: Mapping[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> Terraform:
    dev = load_environment("dev", {})
    network = Network(MadeVpc("10.42.0.0/16", 2, "one", request.param), dev.network.egress, LINK)
    build(replace(dev, network=network), tmp_path / "cdktf.out", None)
    directory = tmp_path / "cdktf.out" / "stacks" / "network"
    nobody = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_ENDPOINT_URL": cloud.endpoint_url}
    env = {**os.environ, **nobody, **aws_provider, **prepare_for_doubles(directory, ROOT)}
    return Terraform("network", directory, env, tmp_path / "log", print)


def test_a_made_network_is_applied_planned_empty_and_destroyed(terraform: Terraform) -> None:
    terraform.init()
    terraform.apply()

    made = terraform.outputs()

    assert (len(made["subnet_ids"]), len(made["nat_addresses"])) == (2, 1)
    assert terraform.plan() is False, terraform.log.read_text()
    terraform.destroy()
    assert terraform.resources() == []
