"""Confluent Cloud: an environment with its registry, a Standard cluster, and service accounts with their roles; by
setting, a compute pool of Flink.

No API key and no topic: a key would be in Terraform's state, and a topic needs one. Separate steps create both.
"""

from __future__ import annotations

from collections.abc import Sequence

from frazil.model.spec import TableSpec
from frazil.model.transforms import TransformSpec
from infra.cdk import App, Fn, Output, Stack
from infra.components.backends import keep_state
from infra.components.flink_pool import FlinkPool
from infra.components.kafka import Kafka, KeyHolders
from infra.components.service_account import Scopes, ServiceAccount
from infra.resources import confluent
from infra.settings.model import ConfluentKafka, EnvironmentSettings
from infra.wanted.flink import refuse_other_writers
from infra.wanted.grants import grants
from infra.wanted.topics import output_topics
from shared import naming
from shared.accounts import PARTS


def enter_confluent(stack: Stack) -> None:
    """Add the provider, which reads CONFLUENT_CLOUD_API_KEY and CONFLUENT_CLOUD_API_SECRET."""
    confluent.Provider(stack, "confluent")


class ConfluentStack(Stack):
    """The stack of `kafka.confluent`. In production, Terraform deletes neither the environment nor the cluster."""

    def __init__(
        self,
        app: App,
        settings: EnvironmentSettings,
        *,
        kafka: ConfluentKafka,
        tables: Sequence[TableSpec],
        transforms: Sequence[TransformSpec] = (),
    ) -> None:
        super().__init__(app, "confluent")
        keep_state(self, settings)
        enter_confluent(self)
        self._settings = settings
        self._login = kafka.login
        self.display_name = naming.resource_name(settings.environment, "kafka")
        self._environment = self._make_environment(kafka)
        self._cluster = self._make_cluster(kafka)
        self._registry = self._find_registry()
        self.environment_id = self._environment.id
        self.environment_name = self._environment.resource_name
        self.cluster_id = self._cluster.id
        if kafka.has_statements:
            refuse_other_writers(output_topics(tables, transforms))
        self.accounts = self._make_accounts(kafka, tables, transforms)
        self._pool = self._make_pool(kafka)
        self._outputs()

    @property
    def kafka(self) -> Kafka:
        """The cluster for other stacks. The job logs in to brokers and registry with two API keys in one secret."""
        materializer = naming.secret_name(self._settings.environment, "materializer")
        login = self._login
        return Kafka(
            name=self.cluster_id,
            bootstrap_servers=self._bootstrap_servers,
            security_protocol=login.protocol,
            sasl_mechanism=login.mechanism,
            msk_iam=False,
            credentials=None if login.mechanism is None else materializer,
            registry_url=self._registry.rest_endpoint,
            registry_credentials=materializer,
            key_holders=KeyHolders(
                kafka_rest_endpoint=self._cluster.rest_endpoint,
                registry_id=self._registry.id,
                owners={account: made.id for account, made in self.accounts.items() if PARTS[account]},
                flink=self._pool.region if self._pool is not None and "flink" in self.accounts else None,
            ),
        )

    @property
    def _bootstrap_servers(self) -> str:
        """The bootstrap servers without the provider's protocol prefix: clients set the protocol separately."""
        return Fn.trimprefix(self._cluster.bootstrap_endpoint, "SASL_SSL://")

    def _make_environment(self, kafka: ConfluentKafka) -> confluent.Environment:
        return confluent.Environment(
            self,
            "environment",
            display_name=self.display_name,
            stream_governance=confluent.Environment_StreamGovernance(package=kafka.governance_package),
            prevent_destroy=self._settings.production,
        )

    def _make_cluster(self, kafka: ConfluentKafka) -> confluent.KafkaCluster:
        return confluent.KafkaCluster(
            self,
            "cluster",
            display_name=self.display_name,
            availability=kafka.availability,
            cloud="AWS",
            region=kafka.region,
            standard=confluent.KafkaCluster_Standard(),
            environment=confluent.KafkaCluster_Environment(id=self._environment.id),
            prevent_destroy=self._settings.production,
        )

    def _find_registry(self) -> confluent.DataSchemaRegistryCluster:
        """Look up the registry, which Confluent creates with the environment's first cluster."""
        return confluent.DataSchemaRegistryCluster(
            self,
            "schema_registry",
            environment=confluent.DataSchemaRegistryCluster_Environment(id=self._environment.id),
            depends_on=[self._environment, self._cluster],
        )

    def _make_accounts(
        self, kafka: ConfluentKafka, tables: Sequence[TableSpec], transforms: Sequence[TransformSpec]
    ) -> dict[naming.Account, ServiceAccount]:
        scopes = Scopes(
            self._environment.resource_name, self._cluster.rbac_crn, self._cluster.id, self._registry.resource_name
        )
        consumer_groups = naming.resource_name(self._settings.environment, "")
        return {
            account: ServiceAccount(
                self, account, environment=self._settings.environment, grants=granted, scopes=scopes
            )
            for account, granted in grants(kafka, tables, consumer_groups, transforms).items()
        }

    def _make_pool(self, kafka: ConfluentKafka) -> FlinkPool | None:
        """Create the pool in the region of the cluster: Flink reads no cluster of another region."""
        if kafka.flink is None:
            return None
        return FlinkPool(
            self,
            "flink-pool",
            name=naming.resource_name(self._settings.environment, "flink"),
            region=kafka.region,
            environment_id=self._environment.id,
            max_cfu=kafka.flink.max_cfu,
        )

    def _outputs(self) -> None:
        """Add the outputs, which people and the steps `keys` and `topics` read."""
        for name, value in {
            "environment_id": self.environment_id,
            "cluster_id": self.cluster_id,
            "bootstrap_servers": self._bootstrap_servers,
            "kafka_rest_endpoint": self._cluster.rest_endpoint,
            "registry_id": self._registry.id,
            "registry_url": self._registry.rest_endpoint,
            "service_accounts": {account: made.id for account, made in self.accounts.items()},
        }.items():
            Output(self, name, value=value)
        if self._pool is not None:
            Output(self, "flink_compute_pool_id", value=self._pool.id)
        if self._pool is not None and "flink" in self.accounts:
            Output(self, "flink_variables", value=self._pool.variables(self.accounts["flink"].id))
