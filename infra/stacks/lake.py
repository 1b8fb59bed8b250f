"""The lake: a bucket with a folder for the Kafka cluster, a Glue database, a KMS key, and roles of other readers."""

from __future__ import annotations

from infra.cdk import App, Construct, Fn, Output, Stack, Token
from infra.components.backends import keep_state
from infra.components.bucket import CLOUDFRONT, Bucket, Served
from infra.components.kafka import Kafka
from infra.components.lake_formation import Use, grant_tables
from infra.components.region import enter_region
from infra.components.role import Role
from infra.permissions.iam import Policy, Principal, Statement, trust_external
from infra.resources import aws
from infra.settings.model import EnvironmentSettings, Reader
from shared import naming

QUERY_RESULTS = "athena-results"
EXPORTS = "exports"
QUERY_RESULT_DAYS = 7
UNFINISHED_UPLOAD_DAYS = 3
SHORTEST_KEY_DELETION_DAYS = 7
LONGEST_KEY_DELETION_DAYS = 30


class LakeStack(Stack):
    """The stack of the lake. In production, Terraform refuses to destroy resources that hold data.

    `links`: whether CloudFront serves exported files to those who have a link.
    """

    def __init__(self, app: App, settings: EnvironmentSettings, *, kafka: Kafka, links: bool = False) -> None:
        super().__init__(app, "lake")
        self._links = links
        keep_state(self, settings)
        self._settings = settings
        self._kafka = kafka
        self._region = enter_region(self, settings)
        self.key_arn = self._key()
        bucket = self._bucket()
        self.bucket_name = bucket.name
        self.bucket_arn = bucket.arn
        self.bucket_domain = bucket.bucket.bucket_regional_domain_name
        self.warehouse = naming.table_location(self.bucket_name, kafka.name)
        self.database_name = self._database()
        self.workgroup_name = self._workgroup()
        for name, reader in settings.lake.readers.items():
            self._reader(name, reader)
        self._outputs()

    def table_location(self, table: str) -> str:
        """The location of the database, below which every catalog puts the data and metadata of a table."""
        return f"{self.warehouse}/{table}"

    @property
    def folder(self) -> str:
        """The folder of the bucket with all tables."""
        return self._kafka.name

    @property
    def data_arn(self) -> str:
        """The objects of all tables."""
        return f"{self.bucket_arn}/{self.folder}/*"

    @property
    def catalog_arns(self) -> tuple[str, ...]:
        """The ARNs that Glue checks for a call on a table: catalog, database and tables."""
        parts = ("catalog", f"database/{self.database_name}", f"table/{self.database_name}/*")
        return tuple(self._region.arn("glue", part) for part in parts)

    def grant_tables(self, scope: Construct, word: str, *, role_arn: str, use: Use) -> None:
        """Grant the tables to a role in Lake Formation, if the settings use it."""
        if self._settings.lake.lake_formation:
            grant_tables(scope, word, role_arn=role_arn, database=self.database_name, use=use)

    def may_use_catalog_key(self, use: Use) -> tuple[Statement, ...]:
        """Return the additional permissions for a Data Catalog that is encrypted with a key of the account."""
        key = self._settings.lake.catalog_key
        if key is None:
            return ()
        actions = ("kms:Decrypt",) if use == "read" else ("kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey")
        through = self._region.through("glue")
        return (Statement(sid="CatalogKey", actions=actions, resources=(key,), conditions=through),)

    def may_read(self) -> tuple[Statement, ...]:
        """Return the permissions to read the tables."""
        catalog = Statement(
            sid="ReadCatalog",
            actions=("glue:GetDatabase", "glue:GetTable", "glue:GetTables"),
            resources=self.catalog_arns,
        )
        return (*self.may_read_files(self.folder), catalog, *self.may_use_catalog_key("read"))

    def may_read_files(self, *folders: str) -> tuple[Statement, ...]:
        """Return the permissions to read all objects in some folders of the bucket."""
        return (
            Statement(
                sid="ReadObjects",
                actions=("s3:GetObject", "s3:GetObjectVersion"),
                resources=tuple(f"{self.bucket_arn}/{folder}/*" for folder in folders),
            ),
            Statement(
                sid="ListObjects",
                actions=("s3:ListBucket",),
                resources=(self.bucket_arn,),
                conditions={"StringLike": {"s3:prefix": tuple(f"{folder}/*" for folder in folders)}},
            ),
            Statement(sid="FindBucket", actions=("s3:GetBucketLocation",), resources=(self.bucket_arn,)),
            self._may_use_key("ReadKey", "kms:Decrypt"),
        )

    def _key(self) -> str:
        name = naming.resource_name(self._settings.environment, "lake")
        production = self._settings.production
        key = aws.KmsKey(
            self,
            "key",
            description=f"Tables, secrets, logs and alarms of Frazil in {self._settings.environment}",
            enable_key_rotation=True,
            deletion_window_in_days=LONGEST_KEY_DELETION_DAYS if production else SHORTEST_KEY_DELETION_DAYS,
            policy=self._key_policy().json,
            tags={"Name": name},
            prevent_destroy=production,
        )
        aws.KmsAlias(self, "key-alias", name=f"alias/{name}", target_key_id=key.id)
        return key.arn

    def _key_policy(self) -> Policy:
        """Return the key's policy for services that act without a role; roles use the key by their own policies."""
        environment = self._settings.environment
        groups = (
            f"log-group:/aws/lambda/{naming.resource_name(environment, '*')}",
            f"log-group:{naming.log_group_name(environment, '*')}",
        )
        log_groups = tuple(self._region.arn("logs", group) for group in groups)
        return Policy(
            (
                Statement(
                    sid="AccountByIam",
                    principal=Principal(arns=(self._region.root,)),
                    actions=("kms:*",),
                    resources=("*",),
                ),
                Statement(
                    sid="LogsOfOurs",
                    principal=Principal(services=(self._region.logs_principal,)),
                    actions=(
                        "kms:Encrypt",
                        "kms:Decrypt",
                        "kms:ReEncryptFrom",
                        "kms:ReEncryptTo",
                        "kms:GenerateDataKey",
                        "kms:DescribeKey",
                    ),
                    resources=("*",),
                    conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": log_groups}},
                ),
                Statement(
                    sid="AlarmsOfOurs",
                    principal=Principal(services=("cloudwatch.amazonaws.com",)),
                    actions=("kms:Decrypt", "kms:GenerateDataKey"),
                    resources=("*",),
                    conditions={"StringEquals": {"aws:SourceAccount": self._region.account_id}},
                ),
                *self._may_be_served(),
            )
        )

    def _bucket(self) -> Bucket:
        settings = self._settings
        usual = naming.bucket_name(settings.environment, account_id=self._region.account_id, region=settings.region)
        return Bucket(
            self,
            "bucket",
            name=settings.lake.bucket or usual,
            key_arn=self.key_arn,
            production=settings.production,
            lifecycle=_lifecycle(settings.lake.version_retention_days),
            served=Served(EXPORTS, self._distributions) if self._links else None,
        )

    @property
    def _distributions(self) -> str:
        """The ARNs of all distributions of this account: that of the exports is made after the lake."""
        return f"arn:{self._region.partition}:cloudfront::{self._region.account_id}:distribution/*"

    def _may_be_served(self) -> tuple[Statement, ...]:
        """Let CloudFront open the exported files that it serves."""
        served = {"ArnLike": {"aws:SourceArn": self._distributions}}
        serving = Statement(
            sid="LinksOfOurs", principal=CLOUDFRONT, actions=("kms:Decrypt",), resources=("*",), conditions=served
        )
        return (serving,) if self._links else ()

    def _database(self) -> str:
        database = aws.GlueCatalogDatabase(
            self,
            "database",
            name=self._settings.lake.database or _database_of(self._kafka.name),
            description="Tables that Frazil writes",
            location_uri=self.warehouse,
            prevent_destroy=self._settings.production,
        )
        return database.name

    def _workgroup(self) -> str:
        """Create a workgroup whose query results are always encrypted and stay in the bucket for a week."""
        encrypted = aws.AthenaWorkgroup_Configuration_ResultConfiguration_EncryptionConfiguration(
            encryption_option="SSE_KMS", kms_key_arn=self.key_arn
        )
        results = aws.AthenaWorkgroup_Configuration_ResultConfiguration(
            output_location=f"s3://{self.bucket_name}/{QUERY_RESULTS}/", encryption_configuration=encrypted
        )
        workgroup = aws.AthenaWorkgroup(
            self,
            "workgroup",
            name=naming.resource_name(self._settings.environment, "lake"),
            description="Queries of the tables that Frazil writes",
            configuration=aws.AthenaWorkgroup_Configuration(
                enforce_workgroup_configuration=True,
                publish_cloudwatch_metrics_enabled=True,
                result_configuration=results,
            ),
            force_destroy=True,
        )
        return workgroup.name

    def _reader(self, name: str, reader: Reader) -> None:
        role = Role(
            self,
            f"reader-{name}",
            name=naming.resource_name(self._settings.environment, f"reader-{name}"),
            description=f"Reads the tables of Frazil: {name}",
            trust=trust_external(reader.principal, reader.external_id),
            policy=Policy((*self.may_read(), *(self._may_query() if reader.athena else ()))),
        )
        self.grant_tables(self, f"reader-{name}", role_arn=role.arn, use="read")
        Output(self, f"reader_{name}_role", value=role.arn)

    def _may_query(self) -> tuple[Statement, ...]:
        """Allow queries: Athena always reads the database `default`, and writes results with the caller's role."""
        workgroup = self._region.arn("athena", f"workgroup/{self.workgroup_name}")
        return (
            Statement(
                sid="Query",
                actions=(
                    "athena:GetQueryExecution",
                    "athena:GetQueryResults",
                    "athena:GetWorkGroup",
                    "athena:StartQueryExecution",
                    "athena:StopQueryExecution",
                ),
                resources=(workgroup,),
            ),
            Statement(
                sid="DefaultDatabase",
                actions=("glue:GetDatabase",),
                resources=(self._region.arn("glue", "database/default"),),
            ),
            Statement(
                sid="KeepResults",
                actions=("s3:AbortMultipartUpload", "s3:GetObject", "s3:ListMultipartUploadParts", "s3:PutObject"),
                resources=(f"{self.bucket_arn}/{QUERY_RESULTS}/*",),
            ),
            Statement(
                sid="ListResults",
                actions=("s3:ListBucket",),
                resources=(self.bucket_arn,),
                conditions={"StringLike": {"s3:prefix": f"{QUERY_RESULTS}/*"}},
            ),
            Statement(sid="ListUploads", actions=("s3:ListBucketMultipartUploads",), resources=(self.bucket_arn,)),
            self._may_use_key("ResultsKey", "kms:GenerateDataKey"),
        )

    def _may_use_key(self, sid: str, action: str) -> Statement:
        """Allow use of the key through S3 only, so that it cannot decrypt secrets."""
        through = self._region.through("s3")
        return Statement(sid=sid, actions=(action,), resources=(self.key_arn,), conditions=through)

    def _outputs(self) -> None:
        Output(self, "bucket_name", value=self.bucket_name)
        Output(self, "key_arn", value=self.key_arn)
        Output(self, "warehouse", value=self.warehouse, description="The folder that holds a folder for each table")
        Output(self, "database_name", value=self.database_name)
        Output(self, "workgroup_name", value=self.workgroup_name)


def _database_of(cluster: str) -> str:
    """Return the name of the database; if it is the id of a new cluster, a Terraform reference."""
    if Token.is_unresolved(cluster):
        return str(Fn.lower(Fn.replace(cluster, "-", "_")))
    return naming.database_name(cluster)


def _lifecycle(version_retention_days: int) -> tuple[aws.S3BucketLifecycleConfiguration_Rule, ...]:
    """Return the lifecycle rules. They never delete current objects of tables and artefacts.

    A table's files go when its maintenance says so; an artefact is fetched by every worker that a job run starts,
    be it months after the upload.
    """
    gone = aws.S3BucketLifecycleConfiguration_Rule_NoncurrentVersionExpiration(noncurrent_days=version_retention_days)
    gone_soon = aws.S3BucketLifecycleConfiguration_Rule_NoncurrentVersionExpiration(noncurrent_days=1)
    return (
        aws.S3BucketLifecycleConfiguration_Rule(
            id="unused-versions",
            status="Enabled",
            filter=aws.S3BucketLifecycleConfiguration_Rule_Filter(prefix=""),
            noncurrent_version_expiration=gone,
            expiration=aws.S3BucketLifecycleConfiguration_Rule_Expiration(expired_object_delete_marker=True),
            abort_incomplete_multipart_upload=aws.S3BucketLifecycleConfiguration_Rule_AbortIncompleteMultipartUpload(
                days_after_initiation=UNFINISHED_UPLOAD_DAYS
            ),
        ),
        aws.S3BucketLifecycleConfiguration_Rule(
            id="query-results",
            status="Enabled",
            filter=aws.S3BucketLifecycleConfiguration_Rule_Filter(prefix=f"{QUERY_RESULTS}/"),
            expiration=aws.S3BucketLifecycleConfiguration_Rule_Expiration(days=QUERY_RESULT_DAYS),
            noncurrent_version_expiration=gone_soon,
        ),
    )
