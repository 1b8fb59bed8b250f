from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from infra.generate import SOURCES
from infra.terraform.environment import address
from infra.terraform.provider_locks import FILE, LOCKS, write_lock

WORKFLOW = Path(__file__).parents[3] / ".github" / "workflows" / "provider-locks.yml"
COMMITTED = sorted(LOCKS.glob("*.hcl"))


def test_versions_are_exact() -> None:
    assert {
        name: source.version for name, source in SOURCES.items() if not re.fullmatch(r"[\d.]+", source.version)
    } == {}


def test_what_the_workflow_locks_is_what_the_stacks_ask_for() -> None:
    wanted = {name: {"source": source.address, "version": source.version} for name, source in SOURCES.items()}

    assert json.loads((LOCKS / "versions.tf.json").read_text()) == {"terraform": {"required_providers": wanted}}


def test_the_workflow_locks_the_platforms_that_are_deployed_from() -> None:
    job = yaml.safe_load(WORKFLOW.read_text())["jobs"]["lock"]

    platforms = job["strategy"]["matrix"]["platform"]

    assert {path.stem for path in COMMITTED} <= set(platforms)
    assert {"linux_amd64", "linux_arm64", "darwin_arm64"} <= set(platforms)
    assert any("terraform providers lock -platform=" in step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize("lock", COMMITTED, ids=lambda path: path.stem)
def test_a_lock_names_our_versions_hashes_and_no_host_but_the_registry(lock: Path) -> None:
    text = lock.read_text()

    locked = dict(re.findall(r'provider "([^"]+)" \{\n  version     = "([^"]+)"', text))

    assert locked.items() <= {address(name): source.version for name, source in SOURCES.items()}.items()
    assert address("aws") in locked
    assert len(re.findall(r'"h1:[\w+/=]{44}"', text)) >= len(locked)
    assert "://" not in text


def test_a_stack_gets_the_lock_but_for_stand_ins(tmp_path: Path) -> None:
    block = 'provider "{}" {{\n  version     = "1"\n  hashes = [\n    "h1:x",\n  ]\n}}\n'
    (tmp_path / "linux_amd64.hcl").write_text("# a comment\n" + "\n".join(map(block.format, ("r/aws", "r/confluent"))))

    write_lock(tmp_path, "linux_amd64", without={"r/confluent"}, locks=tmp_path)

    assert (tmp_path / FILE).read_text() == block.format("r/aws")


def test_a_platform_without_a_lock_gets_none(tmp_path: Path) -> None:
    write_lock(tmp_path, "plan9_mips", locks=tmp_path)

    assert not (tmp_path / FILE).exists()
