"""Snowflake's access to the lake: Iceberg tables by Glue, external tables by Delta logs, exports by a stage.

Nothing of it is data: the database can go, and come again, without a row lost. No key is made or kept here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from frazil.model.snowflake import iceberg_table
from frazil.model.spec import TableSpec
from infra.cdk import App, Construct, Output, Resource, Stack
from infra.components.backends import keep_state
from infra.components.key_rotation import PublicKeys
from infra.components.region import enter_region
from infra.components.snowflake_access import Actor
from infra.components.snowflake_external import DeltaTables, Exports, TableSite, read_by_its_delta_log
from infra.components.snowflake_integrations import GlueCatalog, Known, LakeAccess, RestCatalog, Storage, Volume
from infra.generate import SOURCES
from infra.resources import snowflake
from infra.resources.snowflake import Privilege
from infra.settings.model import EnvironmentSettings, ExistingWarehouse, MadeWarehouse, Snowflake
from infra.stacks.lake import EXPORTS, LakeStack
from shared import naming

Word = Literal["loader", "reader", "rotator"]

PURPOSES: Mapping[Word, str] = {
    "loader": "Tells Snowflake that external tables have changed",
    "reader": "Reads the tables",
    "rotator": "Changes the keys of these users",
}
CHANGE_KEYS: tuple[Privilege, ...] = ("MODIFY PROGRAMMATIC AUTHENTICATION METHODS",)
"""To put a key into a slot, and to remove what else lets a user in. Each user sees by itself which slot is idle."""


class AskedKeys(Protocol):
    """The source of a user's public keys (`infra.components.key_rotation.UserKeys`)."""

    def ask(self, scope: Construct, construct_id: str) -> PublicKeys: ...


def enter_snowflake(stack: Stack, settings: Snowflake) -> None:
    """Add the provider, which reads the private key of its user from SNOWFLAKE_PRIVATE_KEY."""
    snowflake.Provider(
        stack,
        "snowflake",
        organization_name=settings.organization,
        account_name=settings.account,
        user=settings.user,
        role=settings.role,
        authenticator="SNOWFLAKE_JWT",
        preview_features_enabled=[
            "snowflake_external_table_resource",
            "snowflake_iceberg_table_from_rest_resource"
            if settings.catalog_integration == "glue_rest"
            else "snowflake_iceberg_table_from_aws_glue_resource",
        ],
    )


class AbandonedSnowflakeStack(Stack):
    """The stack without its resources and without a login to Snowflake, for an account that no longer answers.

    Once Snowflake's objects are no longer in the state, an apply destroys the roles that Snowflake assumes in AWS.
    Until then `terraform init` installs Snowflake's provider, because the state names it: in the pinned version.
    """

    def __init__(self, app: App, settings: EnvironmentSettings) -> None:
        super().__init__(app, "snowflake")
        keep_state(self, settings)
        enter_region(self, settings)
        provider = SOURCES["snowflake"]
        pinned = {"source": provider.address, "version": provider.version}
        self.add_override("terraform.required_providers.snowflake", pinned)


class SnowflakeStack(Stack):
    """The stack of `snowflake`, applied after the tables are in Glue: Snowflake reads them when it attaches them.

    `user_keys` asks for the public keys of the users; one without a key cannot log in.
    """

    def __init__(
        self,
        app: App,
        settings: EnvironmentSettings,
        *,
        account: Snowflake,
        lake: LakeStack,
        tables: Sequence[TableSpec],
        user_keys: Mapping[Word, AskedKeys] | None = None,
    ) -> None:
        super().__init__(app, "snowflake")
        keep_state(self, settings)
        self._environment = settings.environment
        self._account = account
        self._lake = lake
        self._user_keys = user_keys or {}
        enter_snowflake(self, account)
        self.warehouse_name = self._warehouse(account.warehouse)
        access = LakeAccess(environment=settings.environment, region=enter_region(self, settings), lake=lake)
        volume = Volume(self, "volume", access)
        of_tables = RestCatalog if self._is_rest else GlueCatalog
        catalog = of_tables(self, "catalog", access, refresh_seconds=account.refresh_seconds)
        self._database = self._make_database(volume, catalog)
        self._schema = self._make_schema()
        self.database_name = self._database.name
        self.schema_name = self._schema.name
        self._entered: dict[Word, Resource] = {}
        self.actors = self._make_actors()
        read = [spec for spec in tables if "snowflake" in spec.readers]
        delta = [spec for spec in tables if read_by_its_delta_log(spec)]
        storage = Storage(self, "storage", access, folders=(EXPORTS, *((lake.folder,) if delta else ())))
        known = Known(self, "known", volume.role, catalog.role, storage.role)
        self.iceberg_tables = self._attach(read, volume, catalog, known)
        place = self._place(storage, known)
        self.exports = Exports(self, "exports", place=place, lake=lake).names
        self.delta_tables = DeltaTables(self, "delta", place=place, lake=lake, tables=delta).names if delta else {}
        self._outputs()

    @property
    def _is_rest(self) -> bool:
        return self._account.catalog_integration == "glue_rest"

    def _name(self, *words: str) -> str:
        return naming.snowflake_name(self._environment, *words)

    def _warehouse(self, warehouse: ExistingWarehouse | MadeWarehouse) -> str:
        if isinstance(warehouse, ExistingWarehouse):
            return warehouse.name
        made = snowflake.Warehouse(
            self,
            "warehouse",
            name=self._name(),
            comment="Queries of the tables that Frazil writes",
            warehouse_size=warehouse.size,
            auto_suspend=warehouse.idle_seconds,
            auto_resume="true",
            initially_suspended=True,
        )
        return made.name

    def _make_database(self, volume: Volume, catalog: GlueCatalog | RestCatalog) -> snowflake.Database:
        """Create the database without retention: restorable tables would keep the integrations from being dropped."""
        return snowflake.Database(
            self,
            "database",
            name=self._account.database or self._name(),
            comment="The tables that Frazil writes",
            data_retention_time_in_days=0,
            drop_public_schema_on_creation=True,
            depends_on=[volume.volume, catalog.integration],
        )

    def _make_schema(self) -> snowflake.Schema:
        """Create the schema with managed access: only its owner grants privileges, not the owners of tables."""
        return snowflake.Schema(
            self,
            "schema",
            database=self._database.name,
            name=self._account.schema,
            with_managed_access="true",
        )

    def _make_actors(self) -> dict[Word, Actor]:
        policy = self._network_policy()
        actors: dict[Word, Actor] = {
            word: Actor(
                self,
                word,
                name=self._name(word),
                purpose=purpose,
                warehouse=None if word == "rotator" else self.warehouse_name,
                network_policy=policy,
                keys=self._user_keys[word].ask(self, f"keys-of-{word}-now") if word in self._user_keys else None,
            )
            for word, purpose in PURPOSES.items()
        }
        for word, actor in actors.items():
            actors["rotator"].may(f"keys-of-{word}", "USER", actor.user.name, CHANGE_KEYS)
        for word in ("loader", "reader"):
            actors[word].may("warehouse", "WAREHOUSE", self.warehouse_name)
            actors[word].may("database", "DATABASE", self._database.name)
            self._entered[word] = actors[word].may_enter(self._schema)
        for role in self._account.reader_roles:
            actors["reader"].lend(f"lent-to-{role}", to_role=role)
        return actors

    def _network_policy(self) -> str | None:
        if not self._account.allowed_cidrs:
            return None
        policy = snowflake.NetworkPolicy(
            self,
            "network-policy",
            name=self._name(),
            comment="From where the users of Frazil may log in",
            allowed_ip_list=self._account.allowed_cidrs,
        )
        return policy.name

    def _attach(
        self, tables: Sequence[TableSpec], volume: Volume, catalog: GlueCatalog | RestCatalog, known: Known
    ) -> dict[str, str]:
        """Attach the Iceberg tables. Snowflake reads their metadata then, so its roles must be known."""
        attached = snowflake.IcebergTableFromRest if self._is_rest else snowflake.IcebergTableFromAwsGlue
        readable = self.actors["reader"].may_read_future("iceberg-tables", "ICEBERG TABLES", self._schema)
        return {
            spec.table: attached(
                self,
                f"iceberg-{spec.table}",
                database=self._database.name,
                schema=self._schema.name,
                name=iceberg_table(spec),
                comment=f"Made of {', '.join(spec.topics)}",
                external_volume=volume.volume.name,
                catalog=catalog.integration.name,
                catalog_namespace=self._lake.database_name,
                catalog_table_name=spec.table,
                auto_refresh="true",
                depends_on=[known, readable],
            ).name
            for spec in tables
        }

    def _place(self, storage: Storage, known: Known) -> TableSite:
        loader, reader = self.actors["loader"], self.actors["reader"]
        lent = loader.lend("lent-to-deployer", to_role=self._account.role)
        ready = (
            known,
            lent,
            loader.owns_future_external_tables(self._schema, lent, self._entered["loader"]),
            reader.may_read_future("external-tables", "EXTERNAL TABLES", self._schema),
        )
        return TableSite(schema=self._schema, storage=storage, loader=loader, reader=reader, ready=ready)

    def _outputs(self) -> None:
        """Add the outputs, for people and for `frazil status`."""
        for name, value in {
            "account_name": self._account.identifier,
            "warehouse_name": self.warehouse_name,
            "database_name": self.database_name,
            "schema_name": self.schema_name,
            "user_names": {word: actor.user.name for word, actor in self.actors.items()},
            "iceberg_tables": self.iceberg_tables,
            "delta_tables": self.delta_tables,
        }.items():
            Output(self, name, value=value)
