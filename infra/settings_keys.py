"""The keys of an environment's file, infra/environments/<environment>.yaml: each declared once, with one sentence."""

from __future__ import annotations

from typing import cast

from frazil.specs.keys import Built, Derived, Key, Refused, Required, Section, Values, WordOr
from frazil.specs.scalars import COUNT, DURATION, TABLE_NAME, TEXT, TOPIC_NAME, URL
from frazil.specs.shapes import Choice, ListOf, MapOf
from infra.settings import ExistingWarehouse, MadeWarehouse, PrivateLink, Reader, Topic, WarehouseSize
from infra.settings_scalars import (
    BOOLEAN,
    BUCKET_NAME,
    CIDR,
    DAYS,
    DOMAIN_NAME,
    EMAIL,
    EXTERNAL_ID_TEXT,
    GIGABYTES,
    LOG_DAYS,
    LOOPBACK_URL,
    PORT,
    PRINCIPAL_ARN,
    READER_NAME,
    REFRESH,
    REGION_NAME,
    RETAINED,
    SCHEDULE,
    SECONDS,
    SERVICE_NAME,
    SNOWFLAKE_NAME,
    SUBJECT_NAME,
    TAG_NAME,
    TAG_VALUE,
)

NONE = Derived("none")
OF_ENVIRONMENT = Derived("the environment's")
IN_A_VAULT = (
    "put both into a secret of AWS Secrets Manager, as kafka_api_key and kafka_api_secret, and name it: `credentials:`"
)


def _one_of(*keys: Key[object]) -> Built[Values | None]:
    return Built(Section(keys, exactly_one=tuple(key.name for key in keys)), lambda given: given)


# Terraform's state
STATE_BUCKET = Key("bucket", BUCKET_NAME, "The bucket with the states; it is there already, and versioned.", Required())
STATE_REGION = Key("region", REGION_NAME, "The region of that bucket.", OF_ENVIRONMENT)
S3 = Key("s3", Section((STATE_BUCKET, STATE_REGION)), "In a bucket: one object a stack, locked by one beside it.", NONE)
ORGANIZATION = Key("organization", TEXT, "The organization of HCP Terraform.", Required())
PROJECT = Key("project", TEXT, "The project that new workspaces are made in.", Derived("the organization's default"))
HOSTNAME = Key("hostname", TEXT, "Where HCP Terraform, or Terraform Enterprise, answers.", "app.terraform.io")
CLOUD = Key(
    "cloud",
    Section((ORGANIZATION, PROJECT, HOSTNAME)),
    "In HCP Terraform: one workspace a stack, `frazil-<environment>-<stack>`.",
    NONE,
)
BACKEND = Key(
    "backend",
    WordOr({"local": None}, _one_of(S3, CLOUD)),
    "Where Terraform keeps its state; local is `.frazil/deploy/<environment>/state/` of this checkout.",
    "local",
)

# the network
VPC_ID = Key("id", TEXT, "The VPC.", Required())
SUBNETS = Key("subnets", ListOf(TEXT, at_least_one=True), "Private subnets with a way out, such as NAT.", Required())
ROUTE_TABLES = Key(
    "route_tables",
    ListOf(TEXT),
    "Route tables of these subnets that get an endpoint for S3; none where they have one.",
    "[]",
)
EXISTING = Key("existing", Section((VPC_ID, SUBNETS, ROUTE_TABLES)), "A VPC that is there already.", NONE)
VPC_CIDR = Key("cidr", CIDR, "The addresses of the VPC: a /16 to a /24.", "10.42.0.0/16")
ZONES = Key("zones", COUNT, "In how many zones it has subnets, up to 6.", "2")
NAT_GATEWAYS = Key(
    "nat_gateways", Choice(("one", "one_per_zone")), "one costs less; one_per_zone outlives the loss of a zone.", "one"
)
NAT = Key(
    "nat",
    Choice(("gateway", "instance")),
    "instance: a t4g.nano forwards, for 7.36 USD a month rather than 36.50; if it fails, the job reaches no broker.",
    "gateway",
)
MADE = Key("made", Section((VPC_CIDR, ZONES, NAT, NAT_GATEWAYS)), "A VPC of its own: private subnets behind NAT.", NONE)
VPC = Key(
    "vpc",
    WordOr({"none": None}, _one_of(EXISTING, MADE)),
    "From where the job connects: without a VPC, EMR Serverless reaches nothing but AWS in its own region.",
    "none",
)
EGRESS_PORTS = Key("ports", ListOf(PORT, at_least_one=True), "The ports of brokers and registry.", "[443, 9092]")
EGRESS_CIDRS = Key("cidrs", ListOf(CIDR, at_least_one=True), "The addresses of these.", "[0.0.0.0/0]")
EGRESS = Key(
    "egress",
    Section((EGRESS_PORTS, EGRESS_CIDRS)),
    "What the job may connect to, besides AWS on 443.",
    "{}",
)
SERVICE = Key("service", SERVICE_NAME, "The endpoint service: com.amazonaws.vpce.us-east-1.vpce-svc-0123.", Required())
DOMAIN = Key(
    "domain",
    DOMAIN_NAME,
    "The domain of the brokers' names, us-east-1.aws.private.confluent.cloud; a private zone leads them there.",
    Derived("none: the service has private DNS names"),
)
PRIVATELINK = Key(
    "privatelink",
    Built(Section((SERVICE, DOMAIN)), lambda values: PrivateLink(values[SERVICE], values.get(DOMAIN))),
    "An endpoint in the VPC through which brokers and registry are reached.",
    NONE,
)
NETWORK = Key("network", Section((VPC, EGRESS, PRIVATELINK)), "The network of the job.", "{}")

# the lake
BUCKET = Key("bucket", BUCKET_NAME, "The bucket.", Derived("frazil-<environment>-<account>-<region>"))
DATABASE = Key("database", TABLE_NAME, "The database in Glue.", Derived("the Kafka cluster's id, or its name"))
VERSION_RETENTION = Key("version_retention", DAYS, "How long overwritten and deleted objects can be restored.", "7d")
CATALOG = Key(
    "catalog",
    Section((), handed_on=("glue.", "s3.", "client.")),
    "Further settings for the catalog library, handed to every job as in frazil.yaml.",
    "{}",
)
PRINCIPAL = Key("principal", PRINCIPAL_ARN, "The ARN of who takes it: a role, a user, an account.", Required())
EXTERNAL_ID = Key("external_id", EXTERNAL_ID_TEXT, "What must be shown when taking it.", Required())
ATHENA = Key("athena", BOOLEAN, "Whether it may also ask Athena, in the environment's workgroup.", "false")
READERS = Key(
    "readers",
    MapOf(
        READER_NAME,
        Built(
            Section((PRINCIPAL, EXTERNAL_ID, ATHENA)),
            lambda values: Reader(values[PRINCIPAL], values[EXTERNAL_ID], values[ATHENA]),
        ),
    ),
    "Who else reads the tables: each gets the role `frazil-<environment>-reader-<name>`.",
    "{}",
)
LAKE_FORMATION = Key(
    "lake_formation",
    BOOLEAN,
    "Whether the job, the readers and Snowflake get their rights in Glue from AWS Lake Formation, too.",
    "false",
)
LAKE = Key(
    "lake",
    Section((BUCKET, DATABASE, VERSION_RETENTION, CATALOG, READERS, LAKE_FORMATION)),
    "Where tables and artefacts lie.",
    "{}",
)

# Kafka
CONFLUENT_REGION = Key("region", REGION_NAME, "The cluster's region in AWS.", OF_ENVIRONMENT)
AVAILABILITY = Key(
    "availability",
    Choice(("SINGLE_ZONE", "MULTI_ZONE", "LOW", "HIGH")),
    "In how many zones the cluster lives; LOW and HIGH are Confluent's newer words.",
    "SINGLE_ZONE",
)
GOVERNANCE_PACKAGE = Key(
    "governance_package", Choice(("ESSENTIALS", "ADVANCED")), "The package of Stream Governance.", "ESSENTIALS"
)
PARTITIONS = Key("partitions", COUNT, "How many partitions it is made with.", "6")
RETENTION = Key("retention", DURATION, "How long Kafka keeps its records.", "7d")
TOPIC = Built(Section((PARTITIONS, RETENTION)), lambda values: Topic(values[PARTITIONS], values[RETENTION]))
TOPICS = Key(
    "topics",
    MapOf(TOPIC_NAME, TOPIC),
    "Topics besides those of the table specs, and those of them that need another size; what exists stays as it is.",
    "{}",
)
OWN_TOPICS = Key("topics", MapOf(TOPIC_NAME, TOPIC), "Topics to make where they are missing; no other is made.", "{}")
SUBJECTS = Key(
    "subjects",
    ListOf(SUBJECT_NAME),
    "Subjects that schemas of the tables refer to: the job may read them too. A * at the end stands for any letters.",
    "[]",
)
DATAGEN = Key("datagen", BOOLEAN, "Whether a connector makes stock trades, in the topic stock_trades.", "true")
TABLEFLOW = Key(
    "tableflow",
    ListOf(TOPIC_NAME),
    "Topics that Confluent's own Tableflow keeps too, beside ours, to compare; each needs a registered schema.",
    "[]",
)
STAND_IN = Key(
    "stand_in",
    BOOLEAN,
    "For --profile=local only: the broker on this machine plays the cluster, in plaintext.",
    "false",
)
CONFLUENT = Key(
    "confluent",
    Section((CONFLUENT_REGION, AVAILABILITY, GOVERNANCE_PACKAGE, DATAGEN, TABLEFLOW, TOPICS, SUBJECTS, STAND_IN)),
    "A Standard cluster that the stacks make in Confluent Cloud.",
    NONE,
)
CLUSTER_NAME = Key("name", TABLE_NAME, "Its folder in the bucket, and by default the database in Glue.", "kafka")
BOOTSTRAP = Key("bootstrap.servers", TEXT, "Brokers to ask first, as host:port, separated by commas.", Required())
PROTOCOLS = Choice(("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"))
PROTOCOL = Key("security.protocol", PROTOCOLS, "How to talk to the brokers.", "sasl_ssl")
MECHANISM = Key("sasl.mechanism", Choice(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")), "How to prove who asks.", NONE)
MSK_IAM = Key("aws_msk_iam", BOOLEAN, "Whether the job's role proves it, as MSK offers; sasl_ssl then.", "false")
CREDENTIALS = Key(
    "credentials", TEXT, "The secret with user and password for SASL, as kafka_api_key and kafka_api_secret.", NONE
)
REGISTRY_URL = Key("url", URL, "Where the registry answers.", Required())
REGISTRY_CREDENTIALS = Key(
    "credentials", TEXT, "The secret with registry_api_key and registry_api_secret, where it asks for them.", NONE
)
REGISTRY = Key("registry", Section((REGISTRY_URL, REGISTRY_CREDENTIALS)), "The schema registry.", Required())
EXTERNAL = Key(
    "external",
    Section(
        (CLUSTER_NAME, BOOTSTRAP, PROTOCOL, MECHANISM, MSK_IAM, CREDENTIALS, REGISTRY, OWN_TOPICS),
        refused=(
            Refused("sasl.username", "a user does not stand in an environment", IN_A_VAULT),
            Refused("sasl.password", "a password does not stand in an environment", IN_A_VAULT),
            Refused("ssl.*", "certificates of your own are not there yet", "use a public authority for the brokers"),
        ),
    ),
    "Any other Kafka: MSK, or your own.",
    NONE,
)
KAFKA = Key(
    "kafka",
    Section((CONFLUENT, EXTERNAL), exactly_one=("confluent", "external")),
    "Where records come from.",
    Required(),
)

# the jobs
CPUS = Choice(("1", "2", "4", "8", "16"))
DRIVER_CPU = Key("cpu", CPUS, "Virtual processors.", "2")
CPU = Key("cpu", CPUS, "Virtual processors.", "4")
MEMORY = Key(
    "memory", GIGABYTES, "Memory; which sizes there are depends on the processors.", Derived("4GB a processor")
)
DISK = Key("disk", GIGABYTES, "Local disk, 20GB to 200GB.", "20GB")
TOTAL_CPU = Key("cpu", COUNT, "Virtual processors.", "16")
TOTAL_MEMORY = Key("memory", GIGABYTES, "Memory.", "64GB")
TOTAL_DISK = Key("disk", GIGABYTES, "Local disk.", "200GB")
RELEASE_LABEL = Key(
    "release_label", Choice(("emr-spark-8.1.0", "emr-spark-8.0.0")), "The release of EMR Serverless.", "emr-spark-8.1.0"
)
ARCHITECTURE = Key("architecture", Choice(("x86_64", "arm64")), "The processors; arm64 costs a fifth less.", "x86_64")
PYTHON = Key(
    "python", TEXT, "The interpreter inside the release's image; packages are packed for 3.11.", "/usr/bin/python3.11"
)
DRIVER = Key("driver", Section((DRIVER_CPU, MEMORY, DISK)), "The size of the driver of a job run.", "{}")
EXECUTOR = Key("executor", Section((CPU, MEMORY, DISK)), "The size of each executor.", "{}")
EXECUTORS = Key("executors", COUNT, "How many executors a job run has.", "1")
MAXIMUM_CAPACITY = Key(
    "maximum_capacity",
    Section((TOTAL_CPU, TOTAL_MEMORY, TOTAL_DISK)),
    "What all job runs may take at once; a new account's quota is 16 virtual processors.",
    "{}",
)
QUOTA_CPU = Key(
    "quota_cpu",
    COUNT,
    "The account's quota of virtual processors in EMR Serverless; `maximum_capacity` must be within it.",
    "16",
)
TABLES = Key(
    "tables",
    MapOf(TABLE_NAME, SCHEDULE),
    "Which tables go another way than `mode` says: a schedule of EventBridge Scheduler, or `streaming`.",
    "{}",
)
MODE = Key(
    "mode",
    Choice(("streaming", "scheduled")),
    "How tables are written that `tables` does not name: by one job run that never ends, or at each `rate`.",
    "streaming",
)
RATE = Key("rate", SCHEDULE, "The schedule of all these tables, where `mode` is scheduled.", "rate(1 hour)")
ALARM_EMAIL = Key("alarm_email", EMAIL, "Who is told of alarms; the address gets a link to agree to.", NONE)
JOBS = Key(
    "jobs",
    Section(
        (
            *(RELEASE_LABEL, ARCHITECTURE, PYTHON, DRIVER, EXECUTOR, EXECUTORS, MAXIMUM_CAPACITY, QUOTA_CPU),
            *(MODE, RATE, TABLES, ALARM_EMAIL),
        ),
    ),
    "The application on EMR Serverless, and its job runs.",
    "{}",
)

# keys
ROTATION_DAYS = Key("days", COUNT, "How old a key may become before a new one replaces it.", "30", "days")
KEYS_TO_RETAIN = Key("keys_to_retain", RETAINED, "How many API keys an account has at a time: the newest.", "2")
ROTATION = Key("rotation", Section((ROTATION_DAYS, KEYS_TO_RETAIN)), "When keys are replaced.", "{}")

# Snowflake
SNOWFLAKE_ORGANIZATION = Key("organization", SNOWFLAKE_NAME, "The organization of the account.", Required())
SNOWFLAKE_ACCOUNT = Key("account", SNOWFLAKE_NAME, "The account's name in its organization.", Required())
SNOWFLAKE_USER = Key("user", SNOWFLAKE_NAME, "The user that Terraform logs in as, with a key pair.", "FRAZIL_DEPLOYER")
SNOWFLAKE_ROLE = Key(
    "role", SNOWFLAKE_NAME, "The role that Terraform acts in; what it makes belongs to it.", "FRAZIL_DEPLOYER"
)
WAREHOUSE_NAME = Key("existing", SNOWFLAKE_NAME, "A warehouse that is there already.", NONE)
WAREHOUSE_SIZE = Key("size", Choice(("XSMALL", "SMALL", "MEDIUM", "LARGE", "XLARGE")), "How large it is.", "XSMALL")
WAREHOUSE_IDLE = Key("auto_suspend", SECONDS, "How long it runs on when nobody asks it; that is paid for.", "60s")
MADE_WAREHOUSE = Key(
    "made",
    Built(
        Section((WAREHOUSE_SIZE, WAREHOUSE_IDLE)),
        lambda values: MadeWarehouse(cast("WarehouseSize", values[WAREHOUSE_SIZE]), values[WAREHOUSE_IDLE]),
    ),
    "A warehouse `FRAZIL_<ENVIRONMENT>`.",
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
    "What queries of our own users run on.",
    "{made: {}}",
)
SNOWFLAKE_DATABASE = Key("database", SNOWFLAKE_NAME, "The database that is made.", Derived("FRAZIL_<ENVIRONMENT>"))
SNOWFLAKE_SCHEMA = Key("schema", SNOWFLAKE_NAME, "The schema in it that the tables are in.", "LAKE")
REFRESH_EVERY = Key("refresh_every", REFRESH, "How often Snowflake looks for new snapshots in Glue.", "30s")
READER_ROLES = Key("reader_roles", ListOf(SNOWFLAKE_NAME), "Roles of the account that may read the tables.", "[]")
ALLOWED_CIDRS = Key(
    "allowed_cidrs",
    ListOf(CIDR),
    "From where our own users may log in, also when keys are rotated; anywhere, if none is named.",
    "[]",
)
SNOWFLAKE_STAND_IN = Key(
    "stand_in", LOOPBACK_URL, "Of the cloud on this machine: where the double of Snowflake's login answers.", NONE
)
SNOWFLAKE = Key(
    "snowflake",
    Section(
        (
            *(SNOWFLAKE_ORGANIZATION, SNOWFLAKE_ACCOUNT, SNOWFLAKE_USER, SNOWFLAKE_ROLE, WAREHOUSE),
            *(SNOWFLAKE_DATABASE, SNOWFLAKE_SCHEMA, REFRESH_EVERY, READER_ROLES, ALLOWED_CIDRS),
            SNOWFLAKE_STAND_IN,
        )
    ),
    "An account of Snowflake that reads the tables.",
    NONE,
)

# the environment
REGION = Key("region", REGION_NAME, "The region of AWS.", Required())
PRODUCTION = Key("production", BOOLEAN, "Whether what holds data is protected from deletion.", "false")
TAGS = Key("tags", MapOf(TAG_NAME, TAG_VALUE), "Tags of everything, besides Frazil's own.", "{}")
LOG_RETENTION = Key("log_retention", LOG_DAYS, "How long CloudWatch keeps logs.", "30d")
ENVIRONMENT = Section(
    (REGION, PRODUCTION, BACKEND, TAGS, LOG_RETENTION, NETWORK, LAKE, KAFKA, JOBS, ROTATION, SNOWFLAKE)
)
