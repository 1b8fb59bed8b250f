"""The schema that the typed resources are made from is the one of the provider that Terraform installs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from infra.generate import GROUPS, SOURCES, read_schema, stripped
from infra.terraform.environment import STUBS, address, terraform_environment

ROOT = Path(__file__).parents[2]
SECONDS = 120


@pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed")
def test_the_provider_of_the_pinned_version_has_the_schema_that_is_kept_here(tmp_path: Path) -> None:
    pinned = SOURCES["aws"].version
    required = {"aws": {"source": SOURCES["aws"].address, "version": pinned}}
    (tmp_path / "main.tf.json").write_text(json.dumps({"terraform": {"required_providers": required}}))
    env = {**os.environ, **terraform_environment(os.environ, ROOT / ".frazil" / "terraform", stubs=STUBS)}
    there = {"cwd": tmp_path, "env": env, "capture_output": True, "text": True, "timeout": SECONDS}
    begun = subprocess.run(["terraform", "init", "-input=false", "-no-color"], check=False, **there)  # type: ignore[call-overload]
    if begun.returncode:
        pytest.skip(f"there is no provider of AWS {pinned} here: {begun.stderr.strip().splitlines()[:1]}")

    shown = subprocess.run(["terraform", "providers", "schema", "-json"], check=True, **there)  # type: ignore[call-overload]

    theirs, ours = json.loads(shown.stdout)["provider_schemas"][address("aws")], read_schema("aws")
    assert stripped(theirs["provider"]) == ours["provider"]
    for group, _, _ in GROUPS:
        differing = [name for name, each in ours[group].items() if stripped(theirs[group].get(name, {})) != each]
        assert differing == [], f"renew them: python -m infra.generate take SCHEMA.json aws {' '.join(differing)}"
