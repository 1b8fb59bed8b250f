"""Roles, users and grants in Snowflake, each for one purpose."""

from __future__ import annotations

from collections.abc import Sequence

from infra.cdk import Construct, Resource
from infra.components.key_rotation import PublicKeys
from infra.resources import snowflake
from infra.resources.snowflake import AccountObject, Privilege, SchemaObjects


class Actor(Construct):
    """A role, and the one user that logs in by key pair and acts in it.

    `keys` are the current public keys from the rotation function; without them no login is possible.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        /,
        *,
        name: str,
        purpose: str,
        warehouse: str | None,
        network_policy: str | None,
        keys: PublicKeys | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.role = snowflake.AccountRole(self, "role", name=name, comment=purpose)
        self.user = snowflake.ServiceUser(
            self,
            "user",
            name=name,
            comment=purpose,
            default_role=self.role.name,
            default_secondary_roles_option="NONE",
            default_warehouse=warehouse,
            network_policy=network_policy,
            rsa_public_key=None if keys is None else keys.first,
            rsa_public_key_2=None if keys is None else keys.second,
        )
        self.acts = snowflake.GrantAccountRole(self, "acts", role_name=self.role.name, user_name=self.user.name)

    def lend(self, construct_id: str, *, to_role: str) -> snowflake.GrantAccountRole:
        """Grant this role to another one."""
        return snowflake.GrantAccountRole(self, construct_id, role_name=self.role.name, parent_role_name=to_role)

    def may(
        self, construct_id: str, kind: AccountObject, name: str, privileges: Sequence[Privilege] = ("USAGE",)
    ) -> snowflake.GrantPrivilegesToAccountRole:
        """Grant privileges on an object of the account: a database, a warehouse or a user."""
        return snowflake.GrantPrivilegesToAccountRole(
            self,
            construct_id,
            account_role_name=self.role.name,
            privileges=privileges,
            on_account_object=snowflake.GrantPrivilegesToAccountRole_OnAccountObject(
                object_type=kind, object_name=name
            ),
        )

    def may_enter(self, schema: snowflake.Schema) -> snowflake.GrantPrivilegesToAccountRole:
        return snowflake.GrantPrivilegesToAccountRole(
            self,
            "schema",
            account_role_name=self.role.name,
            privileges=["USAGE"],
            on_schema=snowflake.GrantPrivilegesToAccountRole_OnSchema(schema_name=schema.fully_qualified_name),
        )

    def may_use_stage(
        self, construct_id: str, stage: snowflake.StageExternalS3
    ) -> snowflake.GrantPrivilegesToAccountRole:
        return snowflake.GrantPrivilegesToAccountRole(
            self,
            construct_id,
            account_role_name=self.role.name,
            privileges=["USAGE"],
            on_schema_object=snowflake.GrantPrivilegesToAccountRole_OnSchemaObject(
                object_type="STAGE", object_name=stage.fully_qualified_name
            ),
        )

    def may_read_future(
        self, construct_id: str, kinds: SchemaObjects, schema: snowflake.Schema
    ) -> snowflake.GrantPrivilegesToAccountRole:
        """Grant reading of objects that are created after this grant, so tables must depend on it."""
        future = snowflake.GrantPrivilegesToAccountRole_OnSchemaObject_Future(
            object_type_plural=kinds, in_schema=schema.fully_qualified_name
        )
        return snowflake.GrantPrivilegesToAccountRole(
            self,
            construct_id,
            account_role_name=self.role.name,
            privileges=["SELECT"],
            on_schema_object=snowflake.GrantPrivilegesToAccountRole_OnSchemaObject(future=future),
        )

    def owns_future_external_tables(self, schema: snowflake.Schema, *after: Resource) -> snowflake.GrantOwnership:
        """Make this role own future external tables: only an owner may refresh one. `after`: grants needed before."""
        future = snowflake.GrantOwnership_On_Future(
            object_type_plural="EXTERNAL TABLES", in_schema=schema.fully_qualified_name
        )
        return snowflake.GrantOwnership(
            self,
            "owns-external-tables",
            account_role_name=self.role.name,
            on=snowflake.GrantOwnership_On(future=future),
            depends_on=list(after),
        )
