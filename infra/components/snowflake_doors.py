"""Snowflake's ways into the lake: each takes a role of its own in AWS, which can read what it needs and nothing else.

Snowflake is told of a role before there is one, and says by whom and how it takes it: so the role comes second. Its
ARN is put together from its name, and where Snowflake takes an external id from us it is that name: no circle is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra import naming
from infra.cdk import Construct, Resource
from infra.components.region import Region
from infra.components.role import Role
from infra.iam import Policy, Statement, trust_external
from infra.resources import snowflake
from infra.stacks.lake import LakeStack

SECONDS_FOR_IAM = 20
WAIT = f"sleep $${{FRAZIL_IAM_SECONDS:-{SECONDS_FOR_IAM}}}"
"""The doubled mark is Terraform's way to write one that is meant for the shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doorway:
    """Between which lake and which environment's names in Snowflake."""

    environment: str
    region: Region
    lake: LakeStack

    def role_name(self, word: str) -> str:
        return naming.resource_name(self.environment, f"snowflake-{word}")

    def role_arn(self, word: str) -> str:
        """Before there is such a role."""
        return f"arn:{self.region.partition}:iam::{self.region.account_id}:role/{self.role_name(word)}"

    def name(self, word: str) -> str:
        return naming.snowflake_name(self.environment, word)


class Volume(Construct):
    """Data and metadata of all tables, for Iceberg tables."""

    def __init__(self, scope: Construct, construct_id: str, doorway: Doorway, /) -> None:
        super().__init__(scope, construct_id)
        role, lake = doorway.role_name("tables"), doorway.lake
        self.volume = snowflake.ExternalVolume(
            self,
            "volume",
            name=doorway.name("TABLES"),
            comment="The tables that Frazil writes, to be read",
            allow_writes="false",
            storage_location=snowflake.ExternalVolume_StorageLocation(
                storage_location_name="lake",
                storage_provider="S3",
                storage_base_url=f"{lake.warehouse}/",
                storage_aws_role_arn=doorway.role_arn("tables"),
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


class Catalog(Construct):
    """Which tables there are, and which snapshot of each is the newest. Here the external id is Snowflake's."""

    def __init__(self, scope: Construct, construct_id: str, doorway: Doorway, /, *, refresh_seconds: int) -> None:
        super().__init__(scope, construct_id)
        role, lake = doorway.role_name("catalog"), doorway.lake
        self.integration = snowflake.CatalogIntegrationAwsGlue(
            self,
            "integration",
            name=doorway.name("GLUE"),
            comment="Where the tables that Frazil writes are listed",
            enabled=True,
            glue_aws_role_arn=doorway.role_arn("catalog"),
            glue_catalog_id=doorway.region.account_id,
            glue_region=doorway.region.name,
            catalog_namespace=lake.database_name,
            refresh_interval_seconds=refresh_seconds,
        )
        told = "describe_output[0].glue_aws_"
        look = Statement(sid="LookUp", actions=("glue:GetTable", "glue:GetTables"), resources=lake.catalog_arns)
        self.role = Role(
            self,
            "role",
            name=role,
            description="Snowflake reads the tables of Frazil: what Glue says of them",
            trust=trust_external(
                self.integration.ref(f"{told}iam_user_arn"), self.integration.ref(f"{told}external_id")
            ),
            policy=Policy((look,)),
        )
        lake.grant_tables(self, "catalog", role_arn=self.role.arn, use="read")


class Storage(Construct):
    """Folders of the bucket, for stages and what is read through them."""

    def __init__(self, scope: Construct, construct_id: str, doorway: Doorway, /, *, folders: Sequence[str]) -> None:
        super().__init__(scope, construct_id)
        role, lake = doorway.role_name("stages"), doorway.lake
        self.integration = snowflake.StorageIntegrationAws(
            self,
            "integration",
            name=doorway.name("STAGES"),
            comment="Folders of the lake, to be read",
            enabled=True,
            storage_provider="S3",
            storage_allowed_locations=[f"s3://{lake.bucket_name}/{folder}/" for folder in folders],
            storage_aws_role_arn=doorway.role_arn("stages"),
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
    """A role is known everywhere in AWS some seconds after it is made; what uses it at once must depend on this."""

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
