"""The stack of Snowflake as it is written for Terraform."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from every_feature import BACKENDS
from written import KAFKA, Written, dev, write

from frazil.model.spec import MetadataColumns, TableSpec
from frazil.specs.load import load_tables
from infra.cdk import App
from infra.components.key_rotation import UserKeys
from infra.reports.picture import ACCOUNT as EXAMPLE
from infra.settings.model import ExistingWarehouse, MadeWarehouse
from infra.stacks.lake import LakeStack
from infra.stacks.snowflake import SnowflakeStack

SNOWFLAKE = replace(EXAMPLE, reader_roles=("ANALYST",), allowed_cidrs=("203.0.113.0/24",))
ACCOUNT = "{caller.account_id}"
LAKE = "${data.terraform_remote_state.cross-stack-reference-input-lake.outputs.cross-stack-output-"
LAKE_ACCOUNT = f"{LAKE}dataaws_caller_identitycalleraccount_id}}"
BUCKET = f"{LAKE}aws_s3_bucketbucket_3056591Eid}}"
BUCKET_ARN = f"{LAKE}aws_s3_bucketbucket_3056591Earn}}"
DATABASE = f"{LAKE}aws_glue_catalog_databasedatabasename}}"
KEY = f"{LAKE}aws_kms_keykeyarn}}"
SCHEMA = "{schema.fully_qualified_name}"
GRANTS = "snowflake_grant_privileges_to_account_role"


def tables(folder: Path, **readers: str) -> tuple[TableSpec, ...]:
    """Specs by the name of the table, with who reads each."""
    folder.mkdir()
    for table, who in readers.items():
        (folder / f"{table}.yaml").write_text(f"topic: {table}\nreaders: [{who}]\n")
    return load_tables(folder, {}, database="lake", catalog_type="glue")


@pytest.fixture
def orders(tmp_path: Path) -> TableSpec:
    (spec,) = tables(tmp_path / "tables", orders="snowflake")
    return spec


def snowflake(
    folder: Path,
    *specs: TableSpec,
    user_keys: Mapping[Any, UserKeys] | None = None,
    production: bool = False,
    **changes: Any,
) -> Written:
    settings = dev(production=production)

    def build(app: App) -> None:
        lake = LakeStack(app, settings, kafka=KAFKA)
        account = replace(SNOWFLAKE, **changes)
        SnowflakeStack(app, settings, account=account, lake=lake, tables=specs, user_keys=user_keys)

    folder.mkdir(exist_ok=True)
    return write(folder / "out", settings, build)["snowflake"]


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Without a table."""
    return snowflake(tmp_path_factory.mktemp("usual"))


def with_delta(spec: TableSpec) -> TableSpec:
    return replace(spec, formats=("iceberg", "delta"))


def needed(resource: Mapping[str, Any]) -> set[str]:
    """Return the dependencies that it declares explicitly, without their hashes."""
    return {re.sub(r"_[0-9A-F]{8}$", "", name) for name in resource["depends_on"]}


def granted(stack: Written) -> dict[str, tuple[Any, ...]]:
    """Every privilege on every thing, by the path of the grant."""
    found = {}
    for path, grant in stack.of(GRANTS).items():
        (where,) = (value for name, value in grant.items() if name.startswith("on_"))
        found[path] = (grant["account_role_name"], tuple(grant["privileges"]), where)
    return found


def test_the_provider_is_told_who_it_is_and_no_secret(usual: Written) -> None:
    assert usual.document["provider"]["snowflake"] == [
        {
            "organization_name": "ACME",
            "account_name": "LAKE",
            "user": "FRAZIL_DEPLOYER",
            "role": "FRAZIL_DEPLOYER",
            "authenticator": "SNOWFLAKE_JWT",
            "preview_features_enabled": [
                "snowflake_external_table_resource",
                "snowflake_iceberg_table_from_aws_glue_resource",
            ],
        }
    ]


def test_a_warehouse_sleeps_until_it_is_asked(tmp_path: Path) -> None:
    stack = snowflake(tmp_path, warehouse=MadeWarehouse("SMALL", 120))

    assert stack.one("snowflake_warehouse") == {
        "name": "FRAZIL_DEV",
        "comment": "Queries of the tables that Frazil writes",
        "warehouse_size": "SMALL",
        "auto_suspend": 120,
        "auto_resume": "true",
        "initially_suspended": True,
    }


def test_a_warehouse_that_is_there_is_used_and_left_alone(tmp_path: Path) -> None:
    stack = snowflake(tmp_path, warehouse=ExistingWarehouse("COMPUTE_WH"))

    assert "snowflake_warehouse" not in stack.types()
    used = {"object_type": "WAREHOUSE", "object_name": "COMPUTE_WH"}
    assert [stack.of(GRANTS)[f"{word}/warehouse"]["on_account_object"] for word in ("loader", "reader")] == [used, used]
    assert stack.outputs["warehouse_name"] == "COMPUTE_WH"


def test_the_database_keeps_nothing_that_is_dropped_and_its_schema_is_governed_by_its_owner(tmp_path: Path) -> None:
    stack = snowflake(tmp_path, database="TRADES", schema="RAW")

    assert stack.one("snowflake_database") == {
        "name": "TRADES",
        "comment": "The tables that Frazil writes",
        "data_retention_time_in_days": 0,
        "drop_public_schema_on_creation": True,
        "depends_on": [
            "snowflake_external_volume.volume_99453A5B",
            "snowflake_catalog_integration_aws_glue.catalog_integration_CAB3BBC0",
        ],
    }
    assert stack.one("snowflake_schema") == {
        "database": "{database.name}",
        "name": "RAW",
        "with_managed_access": "true",
    }


def test_each_role_has_the_least_that_it_needs(tmp_path: Path, orders: TableSpec) -> None:
    def account(kind: str, name: str) -> dict[str, str]:
        return {"object_type": kind, "object_name": name}

    def future(kinds: str) -> dict[str, Any]:
        return {"future": {"object_type_plural": kinds, "in_schema": SCHEMA}}

    def stage(path: str) -> dict[str, str]:
        return {"object_type": "STAGE", "object_name": f"{{{path}.fully_qualified_name}}"}

    loader, reader, rotator = (f"{{{word}/role.name}}" for word in ("loader", "reader", "rotator"))
    use, read, rotate = ("USAGE",), ("SELECT",), ("MODIFY PROGRAMMATIC AUTHENTICATION METHODS",)
    assert granted(snowflake(tmp_path, with_delta(orders))) == {
        "loader/warehouse": (loader, use, account("WAREHOUSE", "{warehouse.name}")),
        "loader/database": (loader, use, account("DATABASE", "{database.name}")),
        "loader/schema": (loader, use, {"schema_name": SCHEMA}),
        "loader/stage-exports": (loader, use, stage("exports/stage")),
        "loader/stage-tables": (loader, use, stage("delta/stage")),
        "reader/warehouse": (reader, use, account("WAREHOUSE", "{warehouse.name}")),
        "reader/database": (reader, use, account("DATABASE", "{database.name}")),
        "reader/schema": (reader, use, {"schema_name": SCHEMA}),
        "reader/stage-exports": (reader, use, stage("exports/stage")),
        "reader/iceberg-tables": (reader, read, future("ICEBERG TABLES")),
        "reader/external-tables": (reader, read, future("EXTERNAL TABLES")),
        "rotator/keys-of-loader": (rotator, rotate, account("USER", "{loader/user.name}")),
        "rotator/keys-of-reader": (rotator, rotate, account("USER", "{reader/user.name}")),
        "rotator/keys-of-rotator": (rotator, rotate, account("USER", "{rotator/user.name}")),
    }


def test_the_loader_owns_external_tables_for_it_alone_may_refresh_them(usual: Written) -> None:
    grant = usual.one("snowflake_grant_ownership")

    assert {name: value for name, value in grant.items() if name != "depends_on"} == {
        "account_role_name": "{loader/role.name}",
        "on": {"future": {"object_type_plural": "EXTERNAL TABLES", "in_schema": SCHEMA}},
    }


def test_each_user_acts_in_its_role_and_the_deployer_inherits_from_the_owner_of_tables(tmp_path: Path) -> None:
    assert snowflake(tmp_path, reader_roles=("ANALYST", "FINANCE")).of("snowflake_grant_account_role") == {
        **{
            f"{word}/acts": {"role_name": f"{{{word}/role.name}}", "user_name": f"{{{word}/user.name}}"}
            for word in ("loader", "reader", "rotator")
        },
        "loader/lent-to-deployer": {"role_name": "{loader/role.name}", "parent_role_name": "FRAZIL_DEPLOYER"},
        "reader/lent-to-ANALYST": {"role_name": "{reader/role.name}", "parent_role_name": "ANALYST"},
        "reader/lent-to-FINANCE": {"role_name": "{reader/role.name}", "parent_role_name": "FINANCE"},
    }


def test_users_have_no_password_and_no_other_role(usual: Written) -> None:
    users = usual.of("snowflake_service_user")

    assert users["reader/user"] == {
        "name": "FRAZIL_DEV_READER",
        "comment": "Reads the tables",
        "default_role": "{reader/role.name}",
        "default_secondary_roles_option": "NONE",
        "default_warehouse": "{warehouse.name}",
        "network_policy": "{network-policy.name}",
    }
    assert {path: user.get("default_warehouse") for path, user in users.items()} == {
        "loader/user": "{warehouse.name}",
        "reader/user": "{warehouse.name}",
        "rotator/user": None,
    }


def test_a_user_has_the_keys_that_the_function_tells_at_each_plan(tmp_path: Path) -> None:
    asked = UserKeys("frazil-dev-rotate-keys", "arn:rotator")

    stack = snowflake(tmp_path, user_keys={"rotator": asked})

    users = stack.of("snowflake_service_user")
    assert {path: user.get("rsa_public_key_2") for path, user in users.items()} == {
        "loader/user": None,
        "reader/user": None,
        "rotator/user": "${one(compact([jsondecode(data.aws_lambda_invocation.keys-of-rotator-now.result)"
        ".RSA_PUBLIC_KEY_2]))}",
    }
    assert not any("lifecycle" in user for user in users.values())
    (asked_for,) = stack.document["data"]["aws_lambda_invocation"].values()
    assert json.loads(asked_for["input"]) == {"SecretId": "arn:rotator", "Step": "installedKeys"}


def test_ownership_comes_after_the_roles_that_need_it(usual: Written) -> None:
    """Who may not enter the schema refreshes nothing, and the deployer drops what the loader owns."""
    grant = usual.one("snowflake_grant_ownership")

    assert needed(grant) == {
        "snowflake_grant_account_role.loader_lent-to-deployer",
        "snowflake_grant_privileges_to_account_role.loader_schema",
    }


def test_users_may_log_in_from_anywhere_unless_addresses_are_named(tmp_path: Path) -> None:
    open_to_all = snowflake(tmp_path / "open", allowed_cidrs=())
    closed = snowflake(tmp_path / "closed")

    assert "snowflake_network_policy" not in open_to_all.types()
    assert not any("network_policy" in user for user in open_to_all.of("snowflake_service_user").values())
    assert closed.one("snowflake_network_policy") == {
        "name": "FRAZIL_DEV",
        "comment": "From where the users of Frazil may log in",
        "allowed_ip_list": ["203.0.113.0/24"],
    }


def test_the_volume_lies_over_the_tables_and_nobody_writes_through_it(usual: Written) -> None:
    assert usual.one("snowflake_external_volume") == {
        "name": "FRAZIL_DEV_TABLES",
        "comment": "The tables that Frazil writes, to be read",
        "allow_writes": "false",
        "storage_location": {
            "storage_location_name": "lake",
            "storage_provider": "S3",
            "storage_base_url": f"s3://{BUCKET}/lkc-1y3y5/",
            "storage_aws_role_arn": f"arn:aws:iam::{ACCOUNT}:role/frazil-dev-snowflake-tables",
            "storage_aws_external_id": "frazil-dev-snowflake-tables",
        },
    }


def test_the_catalog_integration_looks_into_our_database_as_often_as_it_is_told(tmp_path: Path) -> None:
    assert snowflake(tmp_path, refresh_seconds=300).one("snowflake_catalog_integration_aws_glue") == {
        "name": "FRAZIL_DEV_GLUE",
        "comment": "Where the tables that Frazil writes are listed",
        "enabled": True,
        "glue_aws_role_arn": f"arn:aws:iam::{ACCOUNT}:role/frazil-dev-snowflake-catalog",
        "glue_catalog_id": ACCOUNT,
        "glue_region": "us-east-1",
        "catalog_namespace": DATABASE,
        "refresh_interval_seconds": 300,
    }


def test_the_storage_integration_reaches_tables_only_where_one_has_a_delta_log(
    tmp_path: Path, orders: TableSpec
) -> None:
    without = snowflake(tmp_path / "without", orders).one("snowflake_storage_integration_aws")
    with_one = snowflake(tmp_path / "with", with_delta(orders)).one("snowflake_storage_integration_aws")

    assert without == {
        "name": "FRAZIL_DEV_STAGES",
        "comment": "Folders of the lake, to be read",
        "enabled": True,
        "storage_provider": "S3",
        "storage_allowed_locations": [f"s3://{BUCKET}/exports/"],
        "storage_aws_role_arn": f"arn:aws:iam::{ACCOUNT}:role/frazil-dev-snowflake-stages",
        "storage_aws_external_id": "frazil-dev-snowflake-stages",
    }
    assert with_one["storage_allowed_locations"] == [f"s3://{BUCKET}/exports/", f"s3://{BUCKET}/lkc-1y3y5/"]


VOLUME_USER = "{volume/volume.describe_output[0].storage_locations[0].s3_storage_location[0].storage_aws_iam_user_arn}"


@pytest.mark.parametrize(
    ("door", "user", "external_id"),
    [
        ("volume", VOLUME_USER, "frazil-dev-snowflake-tables"),
        (
            "catalog",
            "{catalog/integration.describe_output[0].glue_aws_iam_user_arn}",
            "{catalog/integration.describe_output[0].glue_aws_external_id}",
        ),
        ("storage", "{storage/integration.describe_output[0].iam_user_arn}", "frazil-dev-snowflake-stages"),
    ],
)
def test_each_role_is_taken_by_whom_snowflake_names_with_one_external_id(
    usual: Written, door: str, user: str, external_id: str
) -> None:
    assert usual.policy("aws_iam_role", f"{door}/role/role", "assume_role_policy") == [
        {
            "Effect": "Allow",
            "Principal": {"AWS": user},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Condition": {"StringEquals": {"sts:ExternalId": external_id}},
        },
    ]


def may_read(*folders: str) -> list[dict[str, Any]]:
    """The policy of a role that reads folders of the bucket, and can do nothing else."""

    def one_or_many(values: list[str]) -> object:
        return values[0] if len(values) == 1 else values

    return [
        {
            "Sid": "ReadObjects",
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:GetObjectVersion"],
            "Resource": one_or_many([f"{BUCKET_ARN}/{folder}/*" for folder in folders]),
        },
        {
            "Sid": "ListObjects",
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": BUCKET_ARN,
            "Condition": {"StringLike": {"s3:prefix": one_or_many([f"{folder}/*" for folder in folders])}},
        },
        {"Sid": "FindBucket", "Effect": "Allow", "Action": "s3:GetBucketLocation", "Resource": BUCKET_ARN},
        {
            "Sid": "ReadKey",
            "Effect": "Allow",
            "Action": "kms:Decrypt",
            "Resource": KEY,
            "Condition": {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}},
        },
    ]


def test_each_role_can_read_what_it_is_for_and_write_nothing(tmp_path: Path, orders: TableSpec) -> None:
    stack = snowflake(tmp_path, with_delta(orders))

    policies = {path: stack.policy("aws_iam_role_policy", path) for path in stack.of("aws_iam_role_policy")}
    glue = f"arn:aws:glue:us-east-1:{LAKE_ACCOUNT}:"
    assert policies == {
        "volume/role/policy": may_read("lkc-1y3y5"),
        "storage/role/policy": may_read("exports", "lkc-1y3y5"),
        "catalog/role/policy": [
            {
                "Sid": "LookUp",
                "Effect": "Allow",
                "Action": ["glue:GetTable", "glue:GetTables"],
                "Resource": [f"{glue}{part}" for part in ("catalog", f"database/{DATABASE}", f"table/{DATABASE}/*")],
            }
        ],
    }


@pytest.fixture(scope="module")
def by_rest(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("rest")
    return snowflake(folder, *tables(folder / "tables", orders="snowflake"), catalog_integration="glue_rest")


def test_by_the_rest_endpoint_the_catalog_integration_signs_as_its_role(by_rest: Written) -> None:
    assert by_rest.one("snowflake_catalog_integration_iceberg_rest") == {
        "name": "FRAZIL_DEV_GLUE_REST",
        "comment": "Where the tables that Frazil writes are listed",
        "enabled": True,
        "catalog_namespace": DATABASE,
        "refresh_interval_seconds": 30,
        "rest_config": {
            "catalog_uri": "https://glue.us-east-1.amazonaws.com/iceberg",
            "catalog_api_type": "AWS_GLUE",
            "catalog_name": ACCOUNT,
            "access_delegation_mode": "EXTERNAL_VOLUME_CREDENTIALS",
        },
        "sigv4_rest_authentication": {
            "sigv4_iam_role": f"arn:aws:iam::{ACCOUNT}:role/frazil-dev-snowflake-catalog",
            "sigv4_signing_region": "us-east-1",
            "sigv4_external_id": "frazil-dev-snowflake-catalog",
        },
    }
    assert "snowflake_catalog_integration_aws_glue" not in by_rest.types()


def test_by_the_rest_endpoint_the_role_is_taken_by_whom_the_description_names(by_rest: Written) -> None:
    describe = "DESCRIBE CATALOG INTEGRATION {catalog/integration.fully_qualified_name}"
    asked = by_rest.one("snowflake_execute")
    (user,) = by_rest.document["locals"]

    assert (asked["execute"], asked["query"]) == (describe, describe)
    assert 'if row.property == "API_AWS_IAM_USER_ARN"][0]' in by_rest.document["locals"][user]
    assert by_rest.policy("aws_iam_role", "catalog/role/role", "assume_role_policy") == [
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"${{local.{user}}}"},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Condition": {"StringEquals": {"sts:ExternalId": "frazil-dev-snowflake-catalog"}},
        }
    ]
    (look,) = by_rest.policy("aws_iam_role_policy", "catalog/role/policy")
    calls = ("GetCatalog", "GetDatabase", "GetDatabases", "GetTable", "GetTables")
    assert look["Action"] == [f"glue:{call}" for call in calls]


def test_by_the_rest_endpoint_tables_are_attached_by_it_and_the_preview_is_switched_on(by_rest: Written) -> None:
    attached = by_rest.of("snowflake_iceberg_table_from_rest")["iceberg-orders"]
    (provider,) = by_rest.document["provider"]["snowflake"]

    assert (attached["catalog"], attached["catalog_namespace"]) == ("{catalog/integration.name}", DATABASE)
    assert needed(attached) == {"terraform_data.known", f"{GRANTS}.reader_iceberg-tables"}
    assert provider["preview_features_enabled"] == [
        "snowflake_external_table_resource",
        "snowflake_iceberg_table_from_rest_resource",
    ]
    assert "snowflake_iceberg_table_from_aws_glue" not in by_rest.types()


def test_each_table_that_snowflake_shall_read_is_attached_once_its_roles_are_known(tmp_path: Path) -> None:
    specs = tables(tmp_path / "tables", orders="snowflake, athena", clicks="athena", bills="snowflake")

    stack = snowflake(tmp_path, *specs)

    attached = stack.of("snowflake_iceberg_table_from_aws_glue")
    needs = {path: needed(table) for path, table in attached.items()}
    before = {"terraform_data.known", f"{GRANTS}.reader_iceberg-tables"}
    assert needs == {"iceberg-orders": before, "iceberg-bills": before}
    assert {name: value for name, value in attached["iceberg-orders"].items() if name != "depends_on"} == {
        "database": "{database.name}",
        "schema": "{schema.name}",
        "name": "ORDERS",
        "comment": "Made of orders",
        "external_volume": "{volume/volume.name}",
        "catalog": "{catalog/integration.name}",
        "catalog_namespace": DATABASE,
        "catalog_table_name": "orders",
        "auto_refresh": "true",
    }
    assert stack.outputs["iceberg_tables"] == {
        "orders": "{iceberg-orders.name}",
        "bills": "{iceberg-bills.name}",
    }


def test_a_role_is_waited_for_until_all_of_aws_knows_it_and_again_when_another_takes_it(usual: Written) -> None:
    known = dict(usual.one("terraform_data"))

    doors = ("volume", "catalog", "storage")
    assert known.pop("depends_on") is not None
    assert known == {
        "triggers_replace": [
            f"{{{door}/role/role.{part}}}" for door in doors for part in ("unique_id", "assume_role_policy")
        ],
        "provisioner": [{"local-exec": {"command": "sleep $${FRAZIL_IAM_SECONDS:-20}"}}],
    }


def test_a_table_with_a_delta_log_is_an_external_table_too_which_only_its_owner_refreshes(
    tmp_path: Path, orders: TableSpec
) -> None:
    metadata = MetadataColumns(prefix="m_", keep=("partition", "offset", "key"))

    stack = snowflake(tmp_path, replace(with_delta(orders), metadata=metadata))

    table = stack.of("snowflake_external_table")["delta/orders"]
    assert needed(table) == {
        "terraform_data.known",
        "snowflake_grant_account_role.loader_lent-to-deployer",
        "snowflake_grant_ownership.loader_owns-external-tables",
        f"{GRANTS}.reader_external-tables",
        f"{GRANTS}.loader_stage-tables",
    }
    assert {name: value for name, value in table.items() if name != "depends_on"} == {
        "database": "{schema.database}",
        "schema": "{schema.name}",
        "name": "ORDERS__DELTA",
        "comment": "Made of orders, by its Delta log",
        "location": "@{delta/stage.fully_qualified_name}/orders/",
        "table_format": "delta",
        "file_format": "TYPE = PARQUET",
        "column": [
            {"name": "M_PARTITION", "type": "NUMBER(10,0)", "as": "value:m_partition::NUMBER(10,0)"},
            {"name": "M_OFFSET", "type": "NUMBER(19,0)", "as": "value:m_offset::NUMBER(19,0)"},
        ],
        "auto_refresh": False,
        "refresh_on_create": False,
    }
    assert stack.of("snowflake_stage_external_s3")["delta/stage"] == {
        "database": "{schema.database}",
        "schema": "{schema.name}",
        "name": "TABLES",
        "url": f"s3://{BUCKET}/lkc-1y3y5/",
        "storage_integration": "{storage/integration.name}",
    }
    assert stack.outputs["delta_tables"] == {"orders": "{delta/orders.name}"}


def test_without_a_delta_log_no_stage_leads_to_files_of_tables(tmp_path: Path, orders: TableSpec) -> None:
    stack = snowflake(tmp_path, orders)

    assert set(stack.of("snowflake_external_table")) == {"exports/csv", "exports/parquet"}
    assert set(stack.of("snowflake_stage_external_s3")) == {"exports/stage"}
    assert stack.outputs["delta_tables"] == {}


def test_exports_are_read_by_a_stage_and_by_a_table_for_each_format(usual: Written) -> None:
    tables = usual.of("snowflake_external_table")
    assert {(table["name"], table["pattern"], table["file_format"]) for table in tables.values()} == {
        ("EXPORTS__CSV", ".*[.]csv([.]gz)?", """TYPE = CSV SKIP_HEADER = 1 FIELD_OPTIONALLY_ENCLOSED_BY = '"'"""),
        ("EXPORTS__PARQUET", ".*[.]parquet([.]gz)?", "TYPE = PARQUET"),
    }
    for table in tables.values():
        assert table["location"] == "@{exports/stage.fully_qualified_name}"
        assert table["column"] == [{"name": "FILE", "type": "VARCHAR", "as": "metadata$filename"}]
        assert (table["auto_refresh"], table["refresh_on_create"]) == (False, False)
    assert usual.of("snowflake_stage_external_s3")["exports/stage"]["url"] == f"s3://{BUCKET}/exports/"


def test_people_are_told_what_to_log_in_with(usual: Written) -> None:
    outputs = usual.outputs

    assert {name: outputs[name] for name in ("account_name", "database_name", "schema_name", "user_names")} == {
        "account_name": "ACME-LAKE",
        "database_name": "{database.name}",
        "schema_name": "{schema.name}",
        "user_names": {word: f"{{{word}/user.name}}" for word in ("loader", "reader", "rotator")},
    }


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_the_state_lies_where_the_environment_says(tmp_path: Path, backend: str) -> None:
    settings = dev(backend=BACKENDS[backend])

    def build(app: App) -> None:
        lake = LakeStack(app, settings, kafka=KAFKA)
        SnowflakeStack(app, settings, account=SNOWFLAKE, lake=lake, tables=())

    terraform = write(tmp_path, settings, build)["snowflake"].document["terraform"]

    assert next(iter(terraform.get("backend", {"cloud": None}))) == backend


def test_nothing_of_it_is_held_back_in_production_for_none_of_it_is_data(tmp_path: Path, orders: TableSpec) -> None:
    stack = snowflake(tmp_path, with_delta(orders), production=True)

    held_back = [
        path
        for kind in stack.types()
        for path, body in stack.of(kind).items()
        if body.get("lifecycle", {}).get("prevent_destroy")
    ]
    assert held_back == []
