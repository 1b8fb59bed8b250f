"""The stack of Snowflake by the real Terraform: AWS is the double, Snowflake a provider with the schema of the real.

Its users are behind it, in the double of Snowflake's login.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from cloud import REGION, Cloud

from devcloud.snowflake_double import SnowflakeDouble
from frazil.specs.load import load_tables
from infra.app import build
from infra.cdk import App
from infra.components.kafka import external
from infra.components.key_rotation import PublicKeys
from infra.guards.aspect import synthesize
from infra.reports.picture import ACCOUNT as EXAMPLE
from infra.settings.file import load_environment
from infra.settings.model import EnvironmentSettings, ExternalKafka, Snowflake
from infra.stacks.lake import LakeStack
from infra.stacks.snowflake import SnowflakeStack
from infra.terraform.prepare import prepare_for_doubles
from infra.terraform.runner import Terraform
from shared.doubles import SNOWFLAKE_URL as LOGIN
from tests.fakes.late_keys import late_key
from tests.fakes.served import served
from tests.sampling import in_long_runs

pytestmark = [
    pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed"),
    pytest.mark.timeout(600),
]

ENVIRONMENT = f"""
region: {REGION}
kafka:
  external: {{bootstrap.servers: "b:9092", security.protocol: plaintext, registry: {{url: "http://r:8081"}}}}
"""
SNOWFLAKE = replace(EXAMPLE, reader_roles=("ANALYST",), allowed_cidrs=("203.0.113.0/24",))
SNOWFLAKES_USER = "arn:aws:iam::111122223333:user/abcd0000-s"
"""Whom the stub of the provider names."""
FIRST, SECOND, THIRD = late_key(), late_key(), late_key()


class FromAFile:
    """The answer of the rotation function, which only Terraform knows."""

    def ask(self, scope: object, construct_id: str) -> PublicKeys:
        told = 'jsondecode(file("../../../reader.json"))'
        return PublicKeys(*(f'${{lookup({told}, "{slot}", null)}}' for slot in ("RSA_PUBLIC_KEY", "RSA_PUBLIC_KEY_2")))


DESTROYED = re.compile(r"^(\w+)\.(\S+): Destroying\.\.\.", re.MULTILINE)


def settings(folder: Path) -> EnvironmentSettings:
    (folder / "small.yaml").write_text(ENVIRONMENT)
    return replace(load_environment("small", {}, folder=folder), snowflake=SNOWFLAKE)


def synthesized(
    folder: Path, settings: EnvironmentSettings, tables: Sequence[str], account: Snowflake = SNOWFLAKE
) -> None:
    """Each table has a Delta log too."""
    specs = folder / "tables"
    specs.mkdir(exist_ok=True)
    for table in tables:
        (specs / f"{table}.yaml").write_text(f"topic: {table}\n")
    read = [
        replace(spec, formats=("iceberg", "delta"))
        for spec in load_tables(specs, {}, database="lake", catalog_type="glue")
    ]
    assert isinstance(settings.kafka, ExternalKafka)
    app = App(outdir=str(folder / "cdktf.out"))
    lake = LakeStack(app, settings, kafka=external(settings.kafka))
    SnowflakeStack(app, settings, account=account, lake=lake, tables=read, user_keys={"reader": FromAFile()})
    synthesize(app, production=False)


def lake_is_there(folder: Path) -> None:
    """Return the outputs that other stacks read."""
    asked = (folder / "cdktf.out" / "stacks" / "snowflake" / "cdk.tf.json").read_text()
    names = re.findall(r"cross-stack-reference-input-lake\.outputs\.([\w-]+)", asked)
    outputs = {name: {"type": "string", "value": told(name)} for name in names}
    (folder / "state").mkdir()
    state = {"version": 4, "serial": 1, "lineage": "lake", "outputs": outputs, "resources": []}
    (folder / "state" / "lake.tfstate").write_text(json.dumps(state))


def told(output: str) -> str:
    if output.endswith("account_id"):
        return "123456789012"
    return "arn:aws:s3:::lake" if output.endswith("arn") else "lake"


@dataclass(frozen=True)
class Login:
    """Snowflake's, and where it answers."""

    double: SnowflakeDouble
    address: str

    def rotate(self, *, first: str, second: str) -> None:
        """As the rotator would, twice."""
        for slot, key in (("RSA_PUBLIC_KEY_2", second), ("RSA_PUBLIC_KEY", first)):
            self.double.execute("FRAZIL_SMALL_ROTATOR", f"ALTER USER FRAZIL_SMALL_READER SET {slot} = '{key}'")


@pytest.fixture
def login() -> Iterator[Login]:
    double = SnowflakeDouble("ACME-LAKE")
    with served(double) as server:
        yield Login(double, server.address)


def terraform(cloud: Cloud, folder: Path, login: Login, provider: Mapping[str, str]) -> Terraform:
    directory = folder / "cdktf.out" / "stacks" / "snowflake"
    nobody = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_ENDPOINT_URL": cloud.endpoint_url}
    at_once = {"FRAZIL_IAM_SECONDS": "0"}
    here = {**nobody, **at_once, **provider, LOGIN: login.address}
    env = {**os.environ, **here, **prepare_for_doubles(directory, folder)}
    ready = Terraform("snowflake", directory, env, folder / "log", lambda _: None)
    ready.init()
    return ready


def trusted(cloud: Cloud, word: str) -> tuple[Any, Any]:
    """Who takes a role, and what must be shown."""
    role = cloud.client("iam").get_role(RoleName=f"frazil-small-snowflake-{word}")["Role"]
    takes: Mapping[str, Any] = role["AssumeRolePolicyDocument"]["Statement"][0]
    return takes["Principal"]["AWS"], takes["Condition"]["StringEquals"]["sts:ExternalId"]


def test_the_stack_is_applied_in_one_pass_planned_empty_after_a_rotation_and_destroyed_in_order(
    cloud: Cloud, tmp_path: Path, login: Login, aws_provider: Mapping[str, str]
) -> None:
    synthesized(tmp_path, settings(tmp_path), ["orders", "clicks"])
    lake_is_there(tmp_path)
    told = tmp_path / "reader.json"
    told.write_text(json.dumps({"RSA_PUBLIC_KEY": FIRST.body}))
    stack = terraform(cloud, tmp_path, login, aws_provider)

    stack.apply()

    assert stack.outputs()["iceberg_tables"] == {"orders": "ORDERS", "clicks": "CLICKS"}
    assert stack.outputs()["delta_tables"] == {"orders": "ORDERS__DELTA", "clicks": "CLICKS__DELTA"}
    assert trusted(cloud, "tables") == (SNOWFLAKES_USER, "frazil-small-snowflake-tables")
    assert trusted(cloud, "stages") == (SNOWFLAKES_USER, "frazil-small-snowflake-stages")
    user, external_id = trusted(cloud, "catalog")
    assert (user, external_id.startswith("ACME_SFCRole=")) == (SNOWFLAKES_USER, True)
    assert set(login.double.users) == {"FRAZIL_SMALL_LOADER", "FRAZIL_SMALL_READER", "FRAZIL_SMALL_ROTATOR"}
    assert login.double.users["FRAZIL_SMALL_READER"].keys == {"RSA_PUBLIC_KEY": FIRST.body}
    login.rotate(second=SECOND.body, first=THIRD.body)
    told.write_text(json.dumps({"RSA_PUBLIC_KEY": THIRD.body, "RSA_PUBLIC_KEY_2": SECOND.body}))
    assert stack.plan() is False, (tmp_path / "log").read_text()
    told.write_text(json.dumps({"RSA_PUBLIC_KEY": FIRST.body}))  # as of a secret that was made again
    stack.apply()
    assert login.double.users["FRAZIL_SMALL_READER"].keys == {"RSA_PUBLIC_KEY": FIRST.body}
    login.double.users.drop("FRAZIL_SMALL_READER")
    stack.apply()
    assert login.double.users["FRAZIL_SMALL_READER"].keys == {"RSA_PUBLIC_KEY": FIRST.body}

    stack.destroy()

    assert stack.resources() == []
    assert login.double.users == {}
    gone = [kind for kind, _ in DESTROYED.findall((tmp_path / "log").read_text())]
    assert gone.count("snowflake_iceberg_table_from_aws_glue") == 2
    assert_before(gone, "snowflake_iceberg_table_from_aws_glue", "snowflake_external_volume")
    assert_before(gone, "snowflake_iceberg_table_from_aws_glue", "snowflake_catalog_integration_aws_glue")
    assert_before(gone, "snowflake_iceberg_table_from_aws_glue", "aws_iam_role")
    assert_before(gone, "snowflake_external_table", "snowflake_grant_ownership")
    assert_before(gone, "snowflake_external_table", "snowflake_stage_external_s3")
    assert_before(gone, "snowflake_stage_external_s3", "snowflake_storage_integration_aws")
    assert_before(gone, "snowflake_service_user", "snowflake_network_policy")
    assert_before(gone, "snowflake_schema", "snowflake_database")
    assert_before(gone, "snowflake_database", "snowflake_external_volume")
    assert_before(gone, "snowflake_database", "snowflake_catalog_integration_aws_glue")


@in_long_runs
def test_the_stack_over_the_rest_endpoint_is_applied_in_one_pass_planned_empty_and_destroyed(
    cloud: Cloud, tmp_path: Path, login: Login, aws_provider: Mapping[str, str]
) -> None:
    by_rest = replace(SNOWFLAKE, catalog_integration="glue_rest")
    synthesized(tmp_path, settings(tmp_path), ["orders"], by_rest)
    lake_is_there(tmp_path)
    (tmp_path / "reader.json").write_text(json.dumps({"RSA_PUBLIC_KEY": FIRST.body}))
    stack = terraform(cloud, tmp_path, login, aws_provider)

    stack.apply()

    assert stack.outputs()["iceberg_tables"] == {"orders": "ORDERS"}
    assert trusted(cloud, "catalog") == (SNOWFLAKES_USER, "frazil-small-snowflake-catalog")
    assert stack.plan() is False, (tmp_path / "log").read_text()
    stack.destroy()
    destroyed = DESTROYED.findall((tmp_path / "log").read_text())
    gone = [kind for kind, name in destroyed if kind != "aws_iam_role" or name.startswith("catalog_")]
    assert_before(gone, "snowflake_iceberg_table_from_rest", "snowflake_catalog_integration_iceberg_rest")
    assert_before(gone, "aws_iam_role", "snowflake_execute")
    assert_before(gone, "snowflake_execute", "snowflake_catalog_integration_iceberg_rest")


def test_the_roles_of_an_abandoned_account_go_without_a_request_to_snowflake(
    cloud: Cloud, tmp_path: Path, login: Login, aws_provider: Mapping[str, str]
) -> None:
    ours = settings(tmp_path)
    synthesized(tmp_path, ours, ["orders"])
    lake_is_there(tmp_path)
    (tmp_path / "reader.json").write_text(json.dumps({"RSA_PUBLIC_KEY": FIRST.body}))
    before = terraform(cloud, tmp_path, login, aws_provider)
    before.apply_only([address for address in before.added("aws_iam_role_policy", []) if ".storage" in address])
    assert trusted(cloud, "stages") == (SNOWFLAKES_USER, "frazil-small-snowflake-stages")

    build(replace(ours, snowflake=None), tmp_path / "cdktf.out", None, purpose="abandon-snowflake")
    after = terraform(cloud, tmp_path, replace(login, address="http://127.0.0.1:1"), aws_provider)
    after.forget([address for address in after.resources() if address.startswith("snowflake_")])
    after.apply()

    assert "Finding latest version" not in after.log.read_text()
    roles = [role["RoleName"] for role in cloud.client("iam").list_roles()["Roles"]]
    assert not [name for name in roles if name.startswith("frazil-small-snowflake-")]


def assert_before(gone: Sequence[str], first: str, then: str) -> None:
    """The last of one kind goes before the first of the other."""
    assert max(place for place, kind in enumerate(gone) if kind == first) < gone.index(then), (first, then)
