"""A stack that HCP Terraform keeps: what goes to the service, by the real Terraform against a double of its API."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from devcloud.hcp_double import HcpDouble, host_block, serving
from infra.app import build
from infra.artefacts.artefact import Artefact, Artefacts
from infra.settings.file import load_environment
from infra.settings.model import HcpState
from infra.terraform.environment import STUBS, terraform_environment
from infra.terraform.override import ready_to_travel
from infra.terraform.runner import Terraform, TerraformError

pytestmark = pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed")

TOKEN = "the-token-of-the-user"
SECRETS = {"CONFLUENT_CLOUD_API_SECRET": "secret-of-confluent", "AWS_SECRET_ACCESS_KEY": "secret-of-aws"}
FILES = ("environment.tar.gz", "frazil.zip", "start.py", "tables.zip")
PACKED = Artefacts(*(Artefact(file, f"{number:064x}", 1) for number, file in enumerate(FILES)))


@dataclass(frozen=True)
class Seen:
    """What the service saw of one `init` and one `plan` of the stack `jobs`."""

    hcp: HcpDouble
    folder: Path
    log: str

    @property
    def uploaded(self) -> dict[str, bytes]:
        (files,) = self.hcp.uploads
        return files


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("hcp")
    settings = replace(load_environment("dev", {}), backend=HcpState("acme", "lake", "app.terraform.io"))
    build(settings, folder / "out", PACKED)
    directory = folder / "out" / "stacks" / "jobs"
    ready_to_travel(directory)
    hcp = HcpDouble("acme", projects=("lake",))
    with serving(hcp) as address:
        own = terraform_environment(os.environ, folder / "terraform", stubs=STUBS)
        configuration = Path(own["TF_CLI_CONFIG_FILE"])
        configuration.write_text(configuration.read_text() + host_block(address))
        env = {**os.environ, **own, **SECRETS, "TF_TOKEN_app_terraform_io": TOKEN}
        terraform = Terraform("jobs", directory, env, folder / "log", lambda _: None)
        terraform.init()
        with pytest.raises(TerraformError, match="Failed to create run"):
            terraform.plan()
        yield Seen(hcp, folder, (folder / "log").read_text())


def test_organization_project_and_workspace_are_those_of_the_environment(seen: Seen) -> None:
    assert seen.hcp.workspaces == {"frazil-dev-jobs": "lake"}
    assert seen.hcp.tokens == {TOKEN}


def test_the_stack_travels_with_its_assets(seen: Seen) -> None:
    names = set(seen.uploaded)

    assert "cdk.tf.json" in names
    assert any(re.fullmatch(r"assets/.*\.zip", name) for name in names), names
    assert not any(name.endswith("override.tf.json") or name.startswith(".terraform/") for name in names)
    assert ".terraform.lock.hcl" not in names


def test_no_path_of_this_machine_and_no_secret_travels(seen: Seen) -> None:
    here = [str(seen.folder), str(Path.home()), str(Path(__file__).parents[2])]
    forbidden = [text.encode() for text in (*here, *SECRETS.values(), TOKEN)]

    found = [(name, text) for name, content in seen.uploaded.items() for text in forbidden if text in content]

    assert found == []
    (run,) = seen.hcp.runs
    assert not run["attributes"].get("variables")
    assert not any(secret in seen.log for secret in (*SECRETS.values(), TOKEN))
