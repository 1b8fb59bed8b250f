"""All stacks of the environments that are here, on both cores and with every backend."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from every_feature import BACKENDS
from kept import build
from test_snowflake import SNOWFLAKE

from frazil.model.errors import SettingError
from frazil.model.settings import GlueSource
from infra import app
from infra.artefacts.artefact import Artefact, Artefacts, write_manifest
from infra.guards import rules
from infra.settings.file import environments, load_environment
from infra.settings.model import CloudExport, ConfluentKafka, EnvironmentSettings, ExternalKafka, Flink, Reader
from tests.sampling import in_long_runs, sampled

ROOT = Path(__file__).parents[2]
Json = dict[str, Any]
HERE = {"FRAZIL_LOCAL_AWS": "http://127.0.0.1:5000", "FRAZIL_LOCAL_SNOWFLAKE": "http://127.0.0.1:5001"}
"""What the files of environments take from the process's."""
LISTED = rules.ALLOWED_WILDCARDS
FILES = ("environment.tar.gz", "frazil.zip", "start.py", "tables.zip")
KEPT = sampled(product(environments(), sorted(BACKENDS)), keep=lambda case: case[0] == "dev" or case[1] == "local")
PACKED = Artefacts(*(Artefact(file, f"{number:064x}", 1) for number, file in enumerate(FILES)))


def everything(settings: EnvironmentSettings) -> EnvironmentSettings:
    """With what a setting may leave out."""
    kafka = settings.kafka
    if isinstance(kafka, ConfluentKafka):
        kafka = replace(kafka, tableflow=("stock_trades",), flink=Flink(5, statements=True))
    weekly = CloudExport("cron(0 7 ? * MON *)", "Europe/Berlin", ("finance@example.com",))
    return replace(settings, kafka=kafka, snowflake=SNOWFLAKE, exports={"stock_trades_weekly": weekly})


def with_schemas_in_glue(settings: EnvironmentSettings) -> EnvironmentSettings:
    glue = GlueSource("payments", "eu-west-1")
    kafka = ExternalKafka("events", "b:9098", "sasl_ssl", None, msk_iam=True, credentials=None, registry=glue)
    return replace(settings, region="eu-west-1", kafka=kafka, snowflake=None)


def read(out: Path) -> dict[str, Json]:
    return {file.parent.name: json.loads(file.read_text()) for file in sorted(out.glob("stacks/*/cdk.tf.json"))}


def without_notes(value: Any) -> Any:
    """JSON without `//`, where a core writes what it likes."""
    if isinstance(value, dict):
        return {key: without_notes(each) for key, each in value.items() if key != "//"}
    return [without_notes(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", sampled(environments(), keep="dev".__eq__))
def test_the_fork_of_the_core_writes_the_same_stacks(
    name: str, tmp_path: Path, python_with_cdktn: Path, environment_without_credentials: dict[str, str]
) -> None:
    manifest = tmp_path / "artefacts.json"
    write_manifest(PACKED, manifest)
    arguments = ["--environment", name, "--out", str(tmp_path / "fork"), "--artefacts", str(manifest)]
    command = [python_with_cdktn, "-m", "infra.app", *arguments]
    subprocess.run(
        command, cwd=ROOT, env={**environment_without_credentials, **HERE}, check=True, timeout=120, capture_output=True
    )

    names = build(load_environment(name, HERE), tmp_path / "core", PACKED)

    assert {"network", "lake", "secrets", "jobs"} <= set(names)
    assert without_notes(read(tmp_path / "fork")) == without_notes(read(tmp_path / "core"))


BUILD = """
import sys
from pathlib import Path
from infra.app import build
from infra.settings.file import load_environment
build(load_environment("small", {}, folder=Path(sys.argv[1])), Path(sys.argv[2]), None)
"""
WITH_SNOWFLAKE = """
region: us-east-1
kafka:
  external: {bootstrap.servers: "b:9092", security.protocol: plaintext, registry: {url: "http://r:8081"}}
snowflake: {organization: acme, account: lake, reader_roles: [analyst], allowed_cidrs: [203.0.113.0/24]}
"""


@in_long_runs
def test_the_fork_of_the_core_writes_the_same_for_snowflake(
    tmp_path: Path, python_with_cdktn: Path, environment_without_credentials: dict[str, str]
) -> None:
    """No environment that is here names an account, so this one does."""
    (tmp_path / "small.yaml").write_text(WITH_SNOWFLAKE)
    command = [python_with_cdktn, "-c", BUILD, str(tmp_path), str(tmp_path / "fork")]
    env = environment_without_credentials
    subprocess.run(command, cwd=ROOT, env=env, check=True, timeout=120, capture_output=True)

    build(load_environment("small", {}, folder=tmp_path), tmp_path / "core", None)

    written = read(tmp_path / "core")["snowflake"]
    assert without_notes(read(tmp_path / "fork")["snowflake"]) == without_notes(written)


@pytest.mark.parametrize(("name", "backend"), KEPT)
def test_every_environment_can_be_kept_in_every_backend(name: str, backend: str, tmp_path: Path) -> None:
    settings = replace(everything(load_environment(name, HERE)), backend=BACKENDS[backend])

    names = build(settings, tmp_path, PACKED)

    blocks = {stack: document["terraform"] for stack, document in read(tmp_path).items()}
    kept = {stack: next(iter(block.get("backend", {"cloud": None}))) for stack, block in blocks.items()}
    assert kept == dict.fromkeys(names, backend)


def test_a_permissions_boundary_is_that_of_every_role(tmp_path: Path) -> None:
    boundary = "arn:aws:iam::123456789012:policy/team/bounds"
    text = (ROOT / "infra" / "environments" / "dev.yaml").read_text()
    (tmp_path / "dev.yaml").write_text(f"{text}\niam: {{permissions_boundary: {boundary}}}\n")
    settings = everything(load_environment("dev", HERE, folder=tmp_path))

    build(settings, tmp_path / "bounded", PACKED)
    build(replace(settings, permissions_boundary=None), tmp_path / "free", PACKED)

    assert set(boundaries(tmp_path / "bounded")) == {boundary}
    assert set(boundaries(tmp_path / "free")) == {None}
    assert len(boundaries(tmp_path / "bounded")) == len(boundaries(tmp_path / "free")) > 5


def boundaries(out: Path) -> list[str | None]:
    """Of each role of all stacks."""
    roles = (stack["resource"].get("aws_iam_role", {}) for stack in read(out).values())
    return [role.get("permissions_boundary") for each in roles for role in each.values()]


def test_a_key_of_the_catalog_is_used_through_glue_by_whoever_calls_glue(tmp_path: Path) -> None:
    key = "arn:aws:kms:us-east-1:123456789012:key/k"
    settings = everything(load_environment("dev", HERE))
    readers = {"bi": Reader("arn:aws:iam::123456789012:root", "an-external-id", athena=False)}
    settings = replace(settings, lake=replace(settings.lake, catalog_key=key, readers=readers))

    build(settings, tmp_path, PACKED)

    found = {}
    for stack in read(tmp_path).values():
        for policy in stack["resource"].get("aws_iam_role_policy", {}).values():
            for each in rules.statements(policy["policy"]) or ():
                if each["Resource"] == key or each["Resource"] == [key]:
                    assert each["Condition"] == {"StringEquals": {"kms:ViaService": "glue.us-east-1.amazonaws.com"}}
                    found[policy["name"]] = "kms:Encrypt" in each["Action"]
    assert found == {
        "frazil-dev-exports": True,
        "frazil-dev-job": True,
        "frazil-dev-tableflow": True,
        "frazil-dev-reader-bi": False,
        "frazil-dev-snowflake-catalog": False,
    }


def test_production_protects_what_holds_data(tmp_path: Path) -> None:
    build(replace(everything(load_environment("dev", HERE)), production=True), tmp_path, PACKED)

    bucket = next(iter(read(tmp_path)["lake"]["resource"]["aws_s3_bucket"].values()))
    assert bucket["lifecycle"]["prevent_destroy"] is True


def test_nothing_that_is_written_names_a_folder_of_this_machine(tmp_path: Path) -> None:
    app.build(everything(load_environment("dev", HERE)), tmp_path, PACKED)

    written = {file: file.read_text() for file in tmp_path.rglob("*.json")}
    assert [file for file, text in written.items() if str(ROOT) in text or str(tmp_path) in text] == []


def test_every_wildcard_that_is_allowed_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "ALLOWED_WILDCARDS", ())
    production = replace(everything(load_environment("dev", HERE)), production=True)

    refused = ""
    for settings in (production, with_schemas_in_glue(production)):
        with pytest.raises(SettingError) as caught:
            app.build(settings, tmp_path / settings.region, PACKED)
        refused += str(caught.value)

    unneeded = [each.wildcard for each in LISTED if f"allows {each.wildcard}\n" not in refused]
    assert [each for each in unneeded if each != "*"] == []
