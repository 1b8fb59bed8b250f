"""Snowflake's integrations with the lake, each with its own AWS role that may read only what it needs.

Snowflake's objects need the ARN of the role, and the role's trust policy needs the user and the external id that
Snowflake then shows. So Snowflake's objects come first, with an ARN built from the role's name, and the role second.
Where Snowflake accepts an external id, it is the role's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.cdk import Construct, Local, Resource
from infra.components.region import Region
from infra.components.role import Role
from infra.permissions.iam import Policy, Statement, trust_external
from infra.resources import snowflake
from infra.stacks.lake import LakeStack
from shared import naming

REST_ACTIONS = ("glue:GetCatalog", "glue:GetDatabase", "glue:GetDatabases", "glue:GetTable", "glue:GetTables")
"""What Snowflake documents as the least for the endpoint."""
REST_USER = "API_AWS_IAM_USER_ARN"
SECONDS_FOR_IAM = 20
IAM_SECONDS = "FRAZIL_IAM_SECONDS"
"""The variable for another number of seconds."""
WAIT = f"sleep $${{{IAM_SECONDS}:-{SECONDS_FOR_IAM}}}"
"""The doubled mark is Terraform's way to write one that is meant for the shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeAccess:
    """The lake to read, and the names of the environment in Snowflake."""

    environment: str
    region: Region
    lake: LakeStack

    def role_name(self, word: str) -> str:
        return naming.resource_name(self.environment, f"snowflake-{word}")

    def role_arn(self, word: str) -> str:
        """Return the ARN that the role will have."""
        return f"arn:{self.region.partition}:iam::{self.region.account_id}:role/{self.role_name(word)}"

    def name(self, word: str) -> str:
        return naming.snowflake_name(self.environment, word)


class Volume(Construct):
    """The external volume with data and metadata of all Iceberg tables."""

    def __init__(self, scope: Construct, construct_id: str, access: LakeAccess, /) -> None:
        super().__init__(scope, construct_id)
        role, lake = access.role_name("tables"), access.lake
        self.volume = snowflake.ExternalVolume(
            self,
            "volume",
            name=access.name("TABLES"),
            comment="The tables that Frazil writes, to be read",
            allow_writes="false",
            storage_location=snowflake.ExternalVolume_StorageLocation(
                storage_location_name="lake",
                storage_provider="S3",
                storage_base_url=f"{lake.warehouse}/",
                storage_aws_role_arn=access.role_arn("tables"),
                storage_aws_external_id=role,
            ),
        )
        taken_by = "describe_output[0].storage_locations[0].s3_storage_location[0].storage_aws_iam_user_arn"
        self.role = Role(
            self,
            "role",
            name=role,
            description="Snowflake reads the tables of Frazil: their files",
            trust=trust_external(self.volume.ref(taken_by), role),
            policy=Policy(lake.may_read_files(lake.folder)),
        )


class GlueCatalog(Construct):
    """The catalog integration that lists tables and snapshots by Glue's own API. Snowflake sets the external id."""

    def __init__(self, scope: Construct, construct_id: str, access: LakeAccess, /, *, refresh_seconds: int) -> None:
        super().__init__(scope, construct_id)
        role, lake = access.role_name("catalog"), access.lake
        self.integration = snowflake.CatalogIntegrationAwsGlue(
            self,
            "integration",
            name=access.name("GLUE"),
            comment="Where the tables that Frazil writes are listed",
            enabled=True,
            glue_aws_role_arn=access.role_arn("catalog"),
            glue_catalog_id=access.region.account_id,
            glue_region=access.region.name,
            catalog_namespace=lake.database_name,
            refresh_interval_seconds=refresh_seconds,
        )
        described = "describe_output[0].glue_aws_"
        look = Statement(sid="LookUp", actions=("glue:GetTable", "glue:GetTables"), resources=lake.catalog_arns)
        self.role = Role(
            self,
            "role",
            name=role,
            description="Snowflake reads the tables of Frazil: what Glue says of them",
            trust=trust_external(
                self.integration.ref(f"{described}iam_user_arn"), self.integration.ref(f"{described}external_id")
            ),
            policy=Policy((look, *lake.may_use_catalog_key("read"))),
        )
        lake.grant_tables(self, "catalog", role_arn=self.role.arn, use="read")


class RestCatalog(Construct):
    """The catalog integration for Glue's Iceberg REST endpoint: Snowflake signs requests as the role (SigV4).

    The provider does not tell as which user of AWS Snowflake takes the role, so Snowflake is asked by a statement. It
    says nothing before the integration is there, and a plan fails where it says nothing: no trust is made of that.
    """

    def __init__(self, scope: Construct, construct_id: str, access: LakeAccess, /, *, refresh_seconds: int) -> None:
        super().__init__(scope, construct_id)
        role, lake = access.role_name("catalog"), access.lake
        self.integration = snowflake.CatalogIntegrationIcebergRest(
            self,
            "integration",
            name=access.name("GLUE_REST"),
            comment="Where the tables that Frazil writes are listed",
            enabled=True,
            catalog_namespace=lake.database_name,
            refresh_interval_seconds=refresh_seconds,
            rest_config=snowflake.CatalogIntegrationIcebergRest_RestConfig(
                catalog_uri=f"https://glue.{access.region.name}.amazonaws.com/iceberg",
                catalog_api_type="AWS_GLUE",
                catalog_name=access.region.account_id,
                access_delegation_mode="EXTERNAL_VOLUME_CREDENTIALS",
            ),
            sigv4_rest_authentication=snowflake.CatalogIntegrationIcebergRest_Sigv4RestAuthentication(
                sigv4_iam_role=access.role_arn("catalog"),
                sigv4_signing_region=access.region.name,
                sigv4_external_id=role,
            ),
        )
        look = Statement(sid="LookUp", actions=REST_ACTIONS, resources=lake.catalog_arns)
        self.role = Role(
            self,
            "role",
            name=role,
            description="Snowflake reads the tables of Frazil: what Glue says of them",
            trust=trust_external(self._snowflakes_user(), role),
            policy=Policy((look, *lake.may_use_catalog_key("read"))),
        )
        lake.grant_tables(self, "catalog", role_arn=self.role.arn, use="read")

    def _snowflakes_user(self) -> str:
        """Return the ARN of Snowflake's AWS user. A new integration has another full name, so it is described again."""
        describe = f"DESCRIBE CATALOG INTEGRATION {self.integration.fully_qualified_name}"
        described = snowflake.Execute(
            self, "described", execute=describe, query=describe, revert="SHOW CATALOG INTEGRATIONS"
        )
        row = f'row.property_value if row.property == "{REST_USER}"'
        return Local(self, "user", f"${{[for row in {described.address}.query_results : {row}][0]}}").as_string


class Storage(Construct):
    """The storage integration for stages on folders of the bucket."""

    def __init__(self, scope: Construct, construct_id: str, access: LakeAccess, /, *, folders: Sequence[str]) -> None:
        super().__init__(scope, construct_id)
        role, lake = access.role_name("stages"), access.lake
        self.integration = snowflake.StorageIntegrationAws(
            self,
            "integration",
            name=access.name("STAGES"),
            comment="Folders of the lake, to be read",
            enabled=True,
            storage_provider="S3",
            storage_allowed_locations=[f"s3://{lake.bucket_name}/{folder}/" for folder in folders],
            storage_aws_role_arn=access.role_arn("stages"),
            storage_aws_external_id=role,
        )
        self.role = Role(
            self,
            "role",
            name=role,
            description="Snowflake reads exports of Frazil, and tables by their Delta logs",
            trust=trust_external(self.integration.ref("describe_output[0].iam_user_arn"), role),
            policy=Policy(lake.may_read_files(*folders)),
        )


class Known(Resource):
    """A wait until new roles are known everywhere in AWS; resources that use a role at once depend on it."""

    TYPE = "terraform_data"

    def __init__(self, scope: Construct, construct_id: str, /, *roles: Role) -> None:
        made = [part for role in roles for part in (role.role.ref("unique_id"), role.role.assume_role_policy)]
        wait = {"local-exec": {"command": WAIT}}
        super().__init__(
            scope,
            construct_id,
            {"triggers_replace": made, "provisioner": [wait]},
            depends_on=[role.policy for role in roles],
        )
