"""What needs a topic or a key in Confluent Cloud: the connector that makes stock trades, the rotation of the accounts'
keys and, by setting, Tableflow and statements of Flink beside us."""

from __future__ import annotations

from collections.abc import Sequence

from infra.artefacts.artefact import PREFIX as ARTEFACTS
from infra.cdk import App, Output, Resource, Stack
from infra.components.backends import keep_state
from infra.components.flink_statements import FlinkStatements
from infra.components.region import Region, enter_region
from infra.components.role import Role
from infra.permissions.iam import Policy, Statement, trust_external
from infra.resources import confluent
from infra.settings.model import ConfluentKafka, EnvironmentSettings
from infra.stacks.confluent import ConfluentStack, enter_confluent
from infra.stacks.lake import EXPORTS, QUERY_RESULTS, LakeStack
from infra.stacks.secrets import SecretsStack
from infra.wanted.topics import TRADES
from shared import naming

OTHER_FOLDERS = (ARTEFACTS, QUERY_RESULTS, EXPORTS)
"""Of ours in the bucket, beside that of the cluster."""


class ConnectorsStack(Stack):
    """The stack of connectors.

    The provider reads Tableflow's key from TABLEFLOW_API_KEY and TABLEFLOW_API_SECRET, and Flink's from FLINK_API_KEY
    and FLINK_API_SECRET.
    """

    def __init__(
        self,
        app: App,
        settings: EnvironmentSettings,
        *,
        kafka: ConfluentKafka,
        confluent: ConfluentStack,
        lake: LakeStack,
        secrets: SecretsStack,
    ) -> None:
        super().__init__(app, "connectors")
        keep_state(self, settings)
        enter_confluent(self)
        self._settings = settings
        self._confluent = confluent
        region = enter_region(self, settings)
        secrets.keep_accounts_rotating(self)
        trades = self._make_trades() if kafka.datagen else None
        if kafka.tableflow:
            self._keep_with_tableflow(kafka.tableflow, trades, lake, region)
        if kafka.has_statements:
            self._run_statements(trades)

    def _name(self, word: str) -> str:
        return naming.resource_name(self._settings.environment, word)

    def _make_trades(self) -> confluent.Connector:
        """Create the Datagen connector, which acts as its service account and needs no key."""
        connector = confluent.Connector(
            self,
            "trades",
            environment=confluent.Connector_Environment(id=self._confluent.environment_id),
            kafka_cluster=confluent.Connector_KafkaCluster(id=self._confluent.cluster_id),
            config_sensitive={},
            config_nonsensitive={
                "connector.class": "DatagenSource",
                "name": self._name("stock-trades"),
                "kafka.auth.mode": "SERVICE_ACCOUNT",
                "kafka.service.account.id": self._confluent.accounts["connector"].id,
                "kafka.topic": TRADES,
                "output.data.format": "AVRO",
                "quickstart": "STOCK_TRADES",
                "tasks.max": "1",
            },
        )
        Output(self, "connector_id", value=connector.id)
        return connector

    def _run_statements(self, trades: confluent.Connector | None) -> None:
        """Run the statements after the connector: Flink knows no columns of a topic without a schema."""
        statements = FlinkStatements(
            self,
            "flink",
            environment=self._settings.environment,
            catalog=self._confluent.display_name,
            database=self._confluent.display_name,
            ready=[*filter(None, [trades])],
        )
        Output(self, "flink_statement", value=statements.name)

    def _keep_with_tableflow(
        self, topics: Sequence[str], trades: confluent.Connector | None, lake: LakeStack, region: Region
    ) -> None:
        """Create the role after Confluent's integration, which states the principal and external id that assume it.

        The role's ARN is put together from its name, which leaves no circle.
        """
        name = self._name("tableflow")
        integration = confluent.ProviderIntegration(
            self,
            "integration",
            display_name=name,
            environment=confluent.ProviderIntegration_Environment(id=self._confluent.environment_id),
            aws=confluent.ProviderIntegration_Aws(customer_role_arn=_role_arn(region, name)),
        )
        role = Role(
            self,
            "tableflow",
            name=name,
            description="Confluent's Tableflow writes its tables and lists them in Glue",
            trust=trust_external(integration.ref("aws[0].iam_role_arn"), integration.ref("aws[0].external_id")),
            policy=_tableflow_policy(lake, region, database=self._confluent.cluster_id),
        )
        assigner = confluent.RoleBinding(
            self,
            "assigner",
            principal=self._confluent.accounts["tableflow"].principal,
            role_name="Assigner",
            crn_pattern=f"{self._confluent.environment_name}/provider-integration={integration.id}",
        )
        ready = [*filter(None, [trades]), role.role, role.policy, assigner]
        paths = {topic: self._tableflow_table(topic, integration, lake, ready) for topic in topics}
        self._tableflow_catalog(integration, ready)
        Output(self, "tableflow_table_paths", value=paths)

    def _tableflow_table(
        self, topic: str, integration: confluent.ProviderIntegration, lake: LakeStack, ready: Sequence[Resource]
    ) -> str:
        """Return the location of the topic's table. Needs the connector first: a topic without a schema is refused."""
        table = confluent.TableflowTopic(
            self,
            f"table-{topic}",
            display_name=topic,
            environment=confluent.TableflowTopic_Environment(id=self._confluent.environment_id),
            kafka_cluster=confluent.TableflowTopic_KafkaCluster(id=self._confluent.cluster_id),
            table_formats=["ICEBERG"],
            byob_aws=confluent.TableflowTopic_ByobAws(
                bucket_name=lake.bucket_name, provider_integration_id=integration.id
            ),
            depends_on=ready,
        )
        return table.table_path

    def _tableflow_catalog(
        self, integration: confluent.ProviderIntegration, ready: Sequence[Resource]
    ) -> confluent.CatalogIntegration:
        return confluent.CatalogIntegration(
            self,
            "catalog",
            display_name=self._name("glue"),
            environment=confluent.CatalogIntegration_Environment(id=self._confluent.environment_id),
            kafka_cluster=confluent.CatalogIntegration_KafkaCluster(id=self._confluent.cluster_id),
            aws_glue=confluent.CatalogIntegration_AwsGlue(provider_integration_id=integration.id),
            depends_on=ready,
        )


def _role_arn(region: Region, name: str) -> str:
    return f"arn:{region.partition}:iam::{region.account_id}:role/{name}"


def _tableflow_policy(lake: LakeStack, region: Region, *, database: str) -> Policy:
    """Return Tableflow's policy. It chooses its own folders, so it may write anywhere in the bucket except to Frazil's.

    Its database in Glue has the cluster's name. Ours has the same name by default, with _ for -, so they do not clash.
    """
    ours = (lake.data_arn, *(f"{lake.bucket_arn}/{folder}/*" for folder in OTHER_FOLDERS))
    glue = ("catalog", f"database/{database}", f"table/{database}/*", f"userDefinedFunction/{database}/*")
    return Policy(
        (
            Statement(sid="ListBuckets", actions=("s3:ListAllMyBuckets",), resources=("*",)),
            Statement(
                sid="FindBucket",
                actions=("s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"),
                resources=(lake.bucket_arn,),
            ),
            Statement(
                sid="KeepTables",
                actions=(
                    "s3:PutObject",
                    "s3:PutObjectTagging",
                    "s3:GetObject",
                    "s3:DeleteObject",
                    "s3:AbortMultipartUpload",
                    "s3:ListMultipartUploadParts",
                ),
                resources=(f"{lake.bucket_arn}/*",),
            ),
            Statement(sid="NotOurs", effect="Deny", actions=("s3:*",), resources=ours),
            Statement(
                sid="ListTables",
                actions=tuple(
                    f"glue:{verb}{what}"
                    for what in ("Database", "Table")
                    for verb in ("Get", "Create", "Update", "Delete")
                ),
                resources=tuple(region.arn("glue", part) for part in glue),
            ),
            Statement(sid="UseKey", actions=("kms:Decrypt", "kms:GenerateDataKey"), resources=(lake.key_arn,)),
            *lake.may_use_catalog_key("write"),
        )
    )
