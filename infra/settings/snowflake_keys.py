"""The keys of the section `snowflake` of an environment's file."""

from __future__ import annotations

from typing import cast

from frazil.specs.keys import Built, Derived, Key, Required, Section
from frazil.specs.shapes import Choice, ListOf
from infra.settings.model import ExistingWarehouse, MadeWarehouse, WarehouseSize
from infra.settings.scalars import CIDR, LOOPBACK_URL, REFRESH, SECONDS, SNOWFLAKE_NAME

NONE = Derived("none")

SNOWFLAKE_ORGANIZATION = Key("organization", SNOWFLAKE_NAME, "The organization of the account.", Required())
SNOWFLAKE_ACCOUNT = Key("account", SNOWFLAKE_NAME, "The account's name in its organization.", Required())
SNOWFLAKE_USER = Key(
    "user", SNOWFLAKE_NAME, "The user that Terraform logs in as, with key-pair authentication.", "FRAZIL_DEPLOYER"
)
SNOWFLAKE_ROLE = Key(
    "role", SNOWFLAKE_NAME, "The role that Terraform uses; it owns all created objects.", "FRAZIL_DEPLOYER"
)
WAREHOUSE_NAME = Key("existing", SNOWFLAKE_NAME, "An existing warehouse.", NONE)
WAREHOUSE_SIZE = Key(
    "size", Choice(("XSMALL", "SMALL", "MEDIUM", "LARGE", "XLARGE")), "The size of the warehouse.", "XSMALL"
)
WAREHOUSE_IDLE = Key(
    "auto_suspend", SECONDS, "The idle time before the warehouse suspends; idle time is billed.", "60s"
)
MADE_WAREHOUSE = Key(
    "made",
    Built(
        Section((WAREHOUSE_SIZE, WAREHOUSE_IDLE)),
        lambda values: MadeWarehouse(cast("WarehouseSize", values[WAREHOUSE_SIZE]), values[WAREHOUSE_IDLE]),
    ),
    "Create the warehouse `FRAZIL_<ENVIRONMENT>`.",
    NONE,
)
WAREHOUSE = Key(
    "warehouse",
    Built(
        Section((WAREHOUSE_NAME, MADE_WAREHOUSE), exactly_one=("existing", "made")),
        lambda values: (
            ExistingWarehouse(values[WAREHOUSE_NAME]) if values.is_given(WAREHOUSE_NAME) else values[MADE_WAREHOUSE]
        ),
    ),
    "The warehouse for queries of the users that Frazil creates.",
    "{made: {}}",
)
SNOWFLAKE_DATABASE = Key("database", SNOWFLAKE_NAME, "The database to create.", Derived("FRAZIL_<ENVIRONMENT>"))
SNOWFLAKE_SCHEMA = Key("schema", SNOWFLAKE_NAME, "The schema for the tables.", "LAKE")
REFRESH_EVERY = Key("refresh_every", REFRESH, "How often Snowflake polls Glue for new snapshots.", "30s")
CATALOG_INTEGRATION = Key(
    "catalog_integration",
    Choice(("glue", "glue_rest")),
    "How Snowflake looks up tables: Glue's own API, or Glue's Iceberg REST endpoint, which Snowflake recommends.",
    "glue",
)
READER_ROLES = Key("reader_roles", ListOf(SNOWFLAKE_NAME), "Existing roles that may read the tables.", "[]")
ALLOWED_CIDRS = Key(
    "allowed_cidrs",
    ListOf(CIDR),
    "Addresses that Frazil's users may log in from, including the rotation function; empty allows all.",
    "[]",
)
SNOWFLAKE_STAND_IN = Key(
    "stand_in", LOOPBACK_URL, "For --profile=local only: the address of the local double of Snowflake's login.", NONE
)
SNOWFLAKE = Key(
    "snowflake",
    Section(
        (
            *(SNOWFLAKE_ORGANIZATION, SNOWFLAKE_ACCOUNT, SNOWFLAKE_USER, SNOWFLAKE_ROLE, WAREHOUSE),
            *(SNOWFLAKE_DATABASE, SNOWFLAKE_SCHEMA, CATALOG_INTEGRATION, REFRESH_EVERY, READER_ROLES),
            *(ALLOWED_CIDRS, SNOWFLAKE_STAND_IN),
        )
    ),
    "A Snowflake account that reads the tables.",
    NONE,
)
