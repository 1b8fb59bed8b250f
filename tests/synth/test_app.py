"""All stacks of an environment together."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from every_feature import BACKENDS
from kept import build
from test_all_stacks import everything
from test_jobs import ARTEFACTS
from test_snowflake import SNOWFLAKE

from frazil.model.errors import SettingError
from infra import app
from infra.artefacts.artefact import write_manifest
from infra.components.lake_formation import OF_DATABASE, OF_TABLES
from infra.deploy.deployment import open_deployment
from infra.settings.file import load_environment
from infra.settings.model import Reader
from infra.stacks.snowflake import PURPOSES
from shared.naming import state_path

ROOT = Path(__file__).parents[2]
WITH_CONFLUENT = ("network", "confluent", "lake", "secrets", "connectors", "jobs")
EXTERNAL = """
region: eu-central-1
kafka:
  external: {bootstrap.servers: "b:9092", security.protocol: plaintext, registry: {url: "http://r:8081"}}
"""


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_every_stack_is_written_in_the_order_in_which_it_finds_what_it_needs(tmp_path: Path, backend: str) -> None:
    settings = replace(load_environment("dev", {}), backend=BACKENDS[backend])

    names = build(settings, tmp_path, ARTEFACTS)

    manifest = json.loads((tmp_path / "manifest.json").read_text())["stacks"]
    needs = {name: set(each["dependencies"]) for name, each in manifest.items()}
    assert names == WITH_CONFLUENT
    assert all(needs[name] <= set(names[:place]) for place, name in enumerate(names))
    assert needs["jobs"] == {"network", "confluent", "lake", "secrets"}


@pytest.mark.parametrize("backend", ["s3", "cloud"])
def test_the_stacks_of_the_local_cloud_keep_and_read_their_states_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    shared = replace(load_environment("dev", {}), backend=BACKENDS[backend])
    monkeypatch.setattr("infra.deploy.deployment.load_environment", lambda *_: shared)

    names = build(open_deployment("dev", "local", asks=False).settings, tmp_path, ARTEFACTS)

    written = {name: json.loads((tmp_path / "stacks" / name / "cdk.tf.json").read_text()) for name in names}
    for name, stack in written.items():
        assert stack["terraform"]["backend"] == {"local": {"path": state_path(name)}}
        assert "cloud" not in stack["terraform"]
    read = [each for one in written.values() for each in one.get("data", {}).get("terraform_remote_state", {}).values()]
    assert read
    assert {each["backend"] for each in read} == {"local"}
    assert {each["config"]["path"] for each in read} <= {state_path(name) for name in names}


def test_an_abandoned_snowflake_stack_has_the_state_of_the_stack_and_nothing_of_snowflake(tmp_path: Path) -> None:
    settings = replace(load_environment("dev", {}), backend=BACKENDS["s3"])

    names = build(settings, tmp_path, ARTEFACTS, purpose="abandon-snowflake")

    written = json.loads((tmp_path / "stacks" / "snowflake" / "cdk.tf.json").read_text())
    assert names == ("snowflake",)
    assert written["terraform"]["backend"]["s3"]["key"] == "frazil/dev/snowflake.tfstate"
    assert [*written["provider"], *written.get("resource", ())] == ["aws"]
    usual = replace(settings, snowflake=SNOWFLAKE)
    build(usual, tmp_path / "usual", ARTEFACTS)
    stack = json.loads((tmp_path / "usual" / "stacks" / "snowflake" / "cdk.tf.json").read_text())
    assert written["terraform"]["required_providers"] == stack["terraform"]["required_providers"]


def test_another_kafka_needs_no_stack(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(EXTERNAL)

    names = build(load_environment("own", {}, folder=tmp_path), tmp_path / "out", ARTEFACTS)

    assert names == ("network", "lake", "secrets", "jobs")


def test_snowflake_comes_last_where_the_environment_names_an_account(tmp_path: Path) -> None:
    settings = replace(load_environment("dev", {}), snowflake=SNOWFLAKE)

    names = build(settings, tmp_path, ARTEFACTS)

    manifest = json.loads((tmp_path / "manifest.json").read_text())["stacks"]
    assert names == (*WITH_CONFLUENT, "snowflake")
    assert set(manifest["snowflake"]["dependencies"]) == {"confluent", "lake", "secrets"}


def test_users_of_snowflake_begin_with_what_the_function_answers_for_their_secrets(tmp_path: Path) -> None:
    build(replace(load_environment("dev", {}), snowflake=SNOWFLAKE), tmp_path, ARTEFACTS)

    written = json.loads((tmp_path / "stacks" / "snowflake" / "cdk.tf.json").read_text())["resource"]
    for slot in ("RSA_PUBLIC_KEY", "RSA_PUBLIC_KEY_2"):
        keys = " ".join(user[slot.lower()] for user in written["snowflake_service_user"].values())
        assert sorted(re.findall(rf"keys-of-(\w+)-now\.result\)\.{slot}\b", keys)) == [*PURPOSES]


def test_a_stack_that_is_destroyed_asks_no_function_that_may_be_gone(tmp_path: Path) -> None:
    build(replace(load_environment("dev", {}), snowflake=SNOWFLAKE), tmp_path, ARTEFACTS, purpose="destroy")

    written = json.loads((tmp_path / "stacks" / "snowflake" / "cdk.tf.json").read_text())
    assert "aws_lambda_invocation" not in written["data"]
    assert written["resource"]["snowflake_service_user"].keys()


@pytest.mark.parametrize("uses", [True, False])
def test_lake_formation_grants_the_tables_to_every_role_that_uses_them_where_the_settings_say_so(
    tmp_path: Path, uses: bool
) -> None:
    settings = replace(load_environment("dev", {}), snowflake=SNOWFLAKE)
    readers = {"bi": Reader("arn:aws:iam::111122223333:root", "frazil-1", athena=True)}
    settings = replace(settings, lake=replace(settings.lake, readers=readers, lake_formation=uses))

    build(settings, tmp_path, ARTEFACTS)

    stacks = {name: tmp_path / "stacks" / name / "cdk.tf.json" for name in ("lake", "jobs", "snowflake")}
    granted = {
        (name, *sorted(each["permissions"]))
        for name, file in stacks.items()
        for each in json.loads(file.read_text())["resource"].get("aws_lakeformation_permissions", {}).values()
    }
    expected = {
        *((stack, "DESCRIBE") for stack in ("lake", "snowflake")),
        *((stack, "DESCRIBE", "SELECT") for stack in ("lake", "snowflake")),
        ("jobs", "CREATE_TABLE", "DESCRIBE"),
        ("jobs", "ALTER", "DELETE", "DESCRIBE", "INSERT", "SELECT"),
    }
    assert granted == (expected if uses else set())


def test_exports_tag_tables_in_lake_formation_and_change_no_rows() -> None:
    assert OF_DATABASE["tag"] == ("DESCRIBE",)
    assert OF_TABLES["tag"] == ("ALTER", "DESCRIBE", "SELECT")


def test_snowflake_attaches_to_tables_that_are_in_glue_and_to_another_when_it_is(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    for table in ("orders", "clicks"):
        (tmp_path / "tables" / f"{table}.yaml").write_text(f"topic: {table}\n")
    settings = replace(load_environment("dev", {}), snowflake=SNOWFLAKE)

    def attached(*listed: str) -> set[str]:
        build(settings, tmp_path / "out", ARTEFACTS, tables=tmp_path / "tables", listed=listed)
        written = json.loads((tmp_path / "out" / "stacks" / "snowflake" / "cdk.tf.json").read_text())["resource"]
        return {table["name"] for table in written.get("snowflake_iceberg_table_from_aws_glue", {}).values()}

    assert attached("orders", "orders__dead_letters") == {"ORDERS"}
    assert attached("orders", "clicks") == {"ORDERS", "CLICKS"}
    assert attached() == set()


def test_before_anything_is_packed_the_jobs_wait(tmp_path: Path) -> None:
    assert build(load_environment("dev", {}), tmp_path, None) == WITH_CONFLUENT[:-1]


def test_two_syntheses_write_the_same_bytes_functions_included(tmp_path: Path) -> None:
    settings = everything(load_environment("dev", {}))
    for name in ("first", "second"):
        app.build(settings, tmp_path / name, ARTEFACTS)

    first, second = (
        {file.relative_to(out): file.read_bytes() for file in out.rglob("*") if file.is_file()}
        for out in (tmp_path / "first", tmp_path / "second")
    )
    assert first == second


def test_a_table_outside_the_environments_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text("topic: orders\ndatabase: elsewhere\n")

    with pytest.raises(SettingError, match="all tables are in the environment's, found elsewhere"):
        build(load_environment("dev", {}), tmp_path / "out", ARTEFACTS, tables=tmp_path)


def test_the_command_writes_what_the_function_does(
    tmp_path: Path, environment_without_credentials: dict[str, str]
) -> None:
    write_manifest(ARTEFACTS, tmp_path / "artefacts.json")
    asked = ("--environment", "dev", "--out", str(tmp_path), "--artefacts", str(tmp_path / "artefacts.json"))

    done = subprocess.run(
        [sys.executable, "-m", "infra.app", *asked],
        cwd=ROOT,
        env=environment_without_credentials,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert tuple(done.stdout.split()) == WITH_CONFLUENT
    assert (tmp_path / "stacks" / "jobs" / "cdk.tf.json").exists()
