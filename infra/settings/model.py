"""What one environment is, as values; infra/settings/keys.py declares the keys of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from frazil.model.prices import Architecture, WorkerSize
from frazil.model.settings import GlueSource

Availability = Literal["SINGLE_ZONE", "MULTI_ZONE", "LOW", "HIGH"]
CatalogIntegration = Literal["glue", "glue_rest"]
GovernancePackage = Literal["ESSENTIALS", "ADVANCED"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
NatGateways = Literal["one", "one_per_zone"]
NatKind = Literal["gateway", "instance"]
Protocol = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
ReleaseLabel = Literal["emr-spark-8.0.0", "emr-spark-8.1.0"]
WarehouseSize = Literal["XSMALL", "SMALL", "MEDIUM", "LARGE", "XLARGE"]


@dataclass(frozen=True, slots=True)
class LocalState:
    """Terraform's state is in a folder of this checkout."""


@dataclass(frozen=True, slots=True)
class S3State:
    """Terraform's state is in a bucket, one object a stack, each locked by a second object."""

    bucket: str
    region: str


@dataclass(frozen=True, slots=True)
class HcpState:
    """HCP Terraform keeps the state and may run Terraform too: one workspace a stack."""

    organization: str
    project: str | None
    hostname: str


@dataclass(frozen=True, slots=True)
class ExistingVpc:
    """An existing network. The route tables get the route to S3; leave them empty if they have one."""

    id: str
    subnet_ids: tuple[str, ...]
    route_table_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MadeVpc:
    """A network of our own: private subnets behind NAT."""

    cidr: str
    zones: int
    nat_gateways: NatGateways
    nat: NatKind = "gateway"


@dataclass(frozen=True, slots=True)
class Egress:
    """Where brokers and registry are. AWS itself, on 443, is always open."""

    ports: tuple[int, ...]
    cidrs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PrivateLink:
    """An endpoint service for the brokers. `domain`: the private DNS domain to create, None if the service has one."""

    service: str
    domain: str | None


@dataclass(frozen=True, slots=True)
class Network:
    """`vpc` None: the job runs in EMR's own network, from where only AWS itself is reached."""

    vpc: ExistingVpc | MadeVpc | None
    egress: Egress
    privatelink: PrivateLink | None


@dataclass(frozen=True, slots=True)
class Reader:
    """Who else reads: `principal` takes a role of ours by showing `external_id`. `athena`: it also asks there."""

    principal: str
    external_id: str
    athena: bool


@dataclass(frozen=True, slots=True)
class Lake:
    """None: a name that follows from the environment, or from the Kafka cluster. `catalog` is for the job's library.

    `lake_formation`: whether AWS Lake Formation grants the roles what IAM allows them. `catalog_key`: the ARN of the
    key that encrypts the Glue Data Catalog, if it is the account's own.
    """

    bucket: str | None
    database: str | None
    version_retention_days: int
    catalog: Mapping[str, str]
    readers: Mapping[str, Reader]
    lake_formation: bool = False
    catalog_key: str | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """How a topic is made where it is missing; one that exists is never changed."""

    partitions: int
    retention: timedelta


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """How clients connect to the brokers of a cluster in Confluent Cloud. `mechanism` None: without an API key."""

    protocol: Protocol = "sasl_ssl"
    mechanism: Mechanism | None = "PLAIN"


@dataclass(frozen=True, slots=True)
class Flink:
    """A compute pool of Flink. `statements`: whether statements run there that keep the topic stock_total_trades."""

    max_cfu: int
    statements: bool


@dataclass(frozen=True, slots=True)
class ConfluentKafka:
    """A cluster that the stacks make in Confluent Cloud.

    `tableflow` are the topics that Confluent's Tableflow keeps too. `flink`: None for no compute pool.
    `topics` are made in addition to those of the table specs, or size these; `subjects` are further ones to be read.
    """

    region: str
    availability: Availability
    governance_package: GovernancePackage
    datagen: bool
    tableflow: tuple[str, ...]
    topics: Mapping[str, Topic] = field(default_factory=dict)
    subjects: tuple[str, ...] = ()
    login: BrokerLogin = BrokerLogin()
    flink: Flink | None = None

    @property
    def has_statements(self) -> bool:
        """Return whether statements of Flink run, which need an account and its key."""
        return self.flink is not None and self.flink.statements


@dataclass(frozen=True, slots=True)
class ExternalRegistry:
    """`credentials`: the secret with `registry_api_key` and `registry_api_secret`, where the registry asks for them."""

    url: str
    credentials: str | None


@dataclass(frozen=True, slots=True)
class ExternalKafka:
    """Any other Kafka. `name` is its folder in the bucket; no topic is made that `topics` does not name.

    `credentials`: the secret with `kafka_api_key` and `kafka_api_secret`, where brokers ask for user and password.
    """

    name: str
    bootstrap_servers: str
    protocol: Protocol
    mechanism: Mechanism | None
    msk_iam: bool
    credentials: str | None
    registry: ExternalRegistry | GlueSource
    topics: Mapping[str, Topic] = field(default_factory=dict)


Worker = WorkerSize
"""The size of one worker, or of all together."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """The table is written by the one job run that never ends."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The table is written by a job run of its own whenever its time comes; `expression` is EventBridge Scheduler's."""

    expression: str


@dataclass(frozen=True, slots=True)
class Jobs:
    """`tables` names those that are treated apart; `usual` is the way of all others.

    `quota_cpu`: how many virtual processors the account may use at once in EMR Serverless.
    `verify`, `maintain`: the schedules of the runs that prove and maintain the tables, None for no such run.
    `time_zone` is that of all schedules, None for UTC.
    """

    release_label: ReleaseLabel
    architecture: Architecture
    python: str
    driver: Worker
    executor: Worker
    executors: int
    maximum_capacity: Worker
    tables: Mapping[str, Streamed | Scheduled]
    alarm_email: str | None
    usual: Streamed | Scheduled
    quota_cpu: int
    table_metrics: bool = True
    verify: str | None = None
    maintain: str | None = None
    time_zone: str | None = None

    def trigger_of(self, table: str) -> Streamed | Scheduled:
        return self.tables.get(table, self.usual)


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """A key of column policies: the id that tables record, and the name of the secret with the key."""

    id: str
    secret: str


@dataclass(frozen=True, slots=True)
class CloudExport:
    """An export in the cloud. `schedule`: an expression of EventBridge Scheduler, None if it is only run by hand.

    `time_zone`: that of the schedule, None for that of the export's window. `mail`: who gets its announcements.
    """

    schedule: str | None
    time_zone: str | None
    mail: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rotation:
    days: int
    keys_to_retain: int


@dataclass(frozen=True, slots=True)
class ExistingWarehouse:
    """An existing Snowflake warehouse."""

    name: str


@dataclass(frozen=True, slots=True)
class MadeWarehouse:
    """A warehouse of our own, which runs while it is asked and for `idle_seconds` after."""

    size: WarehouseSize
    idle_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snowflake:
    """An account of Snowflake that reads the tables. All names are in upper case, as Snowflake folds them.

    `user` and `role` are those that Terraform acts as. `database` None: a name that follows from the environment.
    `reader_roles`: further roles that may read; `allowed_cidrs`: from where these may log in, anywhere if empty.
    `catalog_integration`: whether Snowflake looks for tables by Glue's own calls or by its Iceberg REST endpoint.
    `url`: the address of a double of the login; None for Snowflake itself.
    """

    organization: str
    account: str
    user: str
    role: str
    warehouse: ExistingWarehouse | MadeWarehouse
    database: str | None
    schema: str
    refresh_seconds: int
    reader_roles: tuple[str, ...]
    allowed_cidrs: tuple[str, ...]
    catalog_integration: CatalogIntegration = "glue"
    url: str | None = None

    @property
    def identifier(self) -> str:
        """The account's identifier in URLs and connectors."""
        return f"{self.organization}-{self.account}"


@dataclass(frozen=True, slots=True)
class EnvironmentSettings:
    """One environment; its name is that of the file. `production`: what holds data is protected from deletion."""

    environment: str
    source_file: str
    region: str
    production: bool
    backend: LocalState | S3State | HcpState
    tags: Mapping[str, str]
    log_retention_days: int
    network: Network
    lake: Lake
    kafka: ConfluentKafka | ExternalKafka
    jobs: Jobs
    rotation: Rotation
    snowflake: Snowflake | None = None
    policies: Mapping[str, PolicyKey] = field(default_factory=dict)
    """The keys of column policies, by their names in `frazil.yaml`."""
    exports: Mapping[str, CloudExport] = field(default_factory=dict)
    permissions_boundary: str | None = None
    """The ARN of the policy that bounds every role."""
    account_id: str | None = None
    """The AWS account that the environment is deployed to, if recorded; no key of the file."""

    @property
    def doubles(self) -> tuple[str, ...]:
        """The services that are doubles on this machine, as messages call them."""
        has_cluster = isinstance(self.kafka, ConfluentKafka) and self.kafka.login.mechanism is None
        has_snowflake = self.snowflake is not None and self.snowflake.url is not None
        return (*(["its cluster"] if has_cluster else []), *(["its Snowflake"] if has_snowflake else []))
