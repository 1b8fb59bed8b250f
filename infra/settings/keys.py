"""The keys of an environment's file (infra/environments/<environment>.yaml), each with its type and description."""

from __future__ import annotations

from frazil.specs.keys import Built, Derived, Key, Refused, Required, Section, Values, WordOr
from frazil.specs.scalars import COUNT, DURATION, TABLE_NAME, TEXT, TOPIC_NAME, URL
from frazil.specs.settings_keys import REGISTRY_NAME
from frazil.specs.shapes import Choice, ListOf, MapOf
from infra.settings.export_keys import EXPORTS
from infra.settings.flink_keys import FLINK
from infra.settings.model import PrivateLink, Reader, Topic
from infra.settings.policy_keys import POLICIES
from infra.settings.scalars import (
    BOOLEAN,
    BUCKET_NAME,
    CIDR,
    DAYS,
    DOMAIN_NAME,
    EMAIL,
    EXTERNAL_ID_TEXT,
    GIGABYTES,
    KMS_KEY_ARN,
    LOG_DAYS,
    POLICY_ARN,
    PORT,
    PRINCIPAL_ARN,
    READER_NAME,
    REGION_NAME,
    RETAINED,
    SCHEDULE,
    SERVICE_NAME,
    SUBJECT_NAME,
    TAG_NAME,
    TAG_VALUE,
)
from infra.settings.schedule_keys import MAINTAIN, TIME_ZONE, VERIFY
from infra.settings.snowflake_keys import NONE, SNOWFLAKE

OF_ENVIRONMENT = Derived("the environment's")
IN_A_VAULT = (
    "store both in an AWS Secrets Manager secret, as kafka_api_key and kafka_api_secret, and put its name into "
    "`credentials`"
)


def _one_of(*keys: Key[object]) -> Built[Values | None]:
    return Built(Section(keys, exactly_one=tuple(key.name for key in keys)), lambda given: given)


# Terraform's state
STATE_BUCKET = Key("bucket", BUCKET_NAME, "An existing, versioned bucket for the state files.", Required())
STATE_REGION = Key("region", REGION_NAME, "The region of that bucket.", OF_ENVIRONMENT)
S3 = Key(
    "s3",
    Section((STATE_BUCKET, STATE_REGION)),
    "Keep the state in an S3 bucket, one object per stack, with a lock file.",
    NONE,
)
ORGANIZATION = Key("organization", TEXT, "The HCP Terraform organization.", Required())
PROJECT = Key("project", TEXT, "The project for new workspaces.", Derived("the organization's default"))
HOSTNAME = Key("hostname", TEXT, "The host name of HCP Terraform or Terraform Enterprise.", "app.terraform.io")
CLOUD = Key(
    "cloud",
    Section((ORGANIZATION, PROJECT, HOSTNAME)),
    "Keep the state in HCP Terraform, one workspace per stack: `frazil-<environment>-<stack>`.",
    NONE,
)

BACKEND = Key(
    "backend",
    WordOr({"local": None}, _one_of(S3, CLOUD)),
    "Where Terraform keeps its state; `local` is `.frazil/deploy/<environment>/state/` in this checkout.",
    "local",
)

# the network
VPC_ID = Key("id", TEXT, "The id of the VPC.", Required())
SUBNETS = Key(
    "subnets",
    ListOf(TEXT, at_least_one=True),
    "Private subnets with outbound internet access, such as NAT.",
    Required(),
)
ROUTE_TABLES = Key(
    "route_tables",
    ListOf(TEXT),
    "Route tables of these subnets that get an S3 gateway endpoint; leave empty if they have one.",
    "[]",
)
EXISTING = Key("existing", Section((VPC_ID, SUBNETS, ROUTE_TABLES)), "Use an existing VPC.", NONE)
VPC_CIDR = Key("cidr", CIDR, "The address range of the VPC, /16 to /24.", "10.42.0.0/16")
ZONES = Key("zones", COUNT, "The number of availability zones with subnets, up to 6.", "2")
NAT_GATEWAYS = Key(
    "nat_gateways",
    Choice(("one", "one_per_zone")),
    "`one` costs less; `one_per_zone` survives the loss of a zone.",
    "one",
)
NAT = Key(
    "nat",
    Choice(("gateway", "instance")),
    "`instance`: a t4g.nano for 7.36 USD a month instead of 36.50; if it fails, the job cannot reach the brokers.",
    "gateway",
)
MADE = Key("made", Section((VPC_CIDR, ZONES, NAT, NAT_GATEWAYS)), "Create a VPC with private subnets behind NAT.", NONE)
VPC = Key(
    "vpc",
    WordOr({"none": None}, _one_of(EXISTING, MADE)),
    "The VPC that the job runs in. Without one, EMR Serverless reaches only AWS services in its own region.",
    "none",
)
EGRESS_PORTS = Key(
    "ports", ListOf(PORT, at_least_one=True), "The ports of the brokers and the registry.", "[443, 9092]"
)
EGRESS_CIDRS = Key(
    "cidrs", ListOf(CIDR, at_least_one=True), "The address ranges of the brokers and the registry.", "[0.0.0.0/0]"
)
EGRESS = Key(
    "egress",
    Section((EGRESS_PORTS, EGRESS_CIDRS)),
    "Allowed outbound connections of the job, in addition to AWS on port 443.",
    "{}",
)
SERVICE = Key("service", SERVICE_NAME, "The endpoint service: com.amazonaws.vpce.us-east-1.vpce-svc-0123.", Required())
DOMAIN = Key(
    "domain",
    DOMAIN_NAME,
    "The domain of the broker names, such as us-east-1.aws.private.confluent.cloud; a private zone resolves it.",
    Derived("none: the service has private DNS names"),
)
PRIVATELINK = Key(
    "privatelink",
    Built(Section((SERVICE, DOMAIN)), lambda values: PrivateLink(values[SERVICE], values.get(DOMAIN))),
    "A VPC endpoint for the brokers and the registry.",
    NONE,
)
NETWORK = Key("network", Section((VPC, EGRESS, PRIVATELINK)), "The network of the job.", "{}")

# the lake
BUCKET = Key("bucket", BUCKET_NAME, "The name of the bucket.", Derived("frazil-<environment>-<account>-<region>"))
DATABASE = Key("database", TABLE_NAME, "The Glue database.", Derived("the Kafka cluster's id, or its name"))
VERSION_RETENTION = Key("version_retention", DAYS, "How long overwritten and deleted objects can be restored.", "7d")
CATALOG = Key(
    "catalog",
    Section((), handed_on=("glue.", "s3.", "client.")),
    "Additional catalog settings, passed to every job as in frazil.yaml.",
    "{}",
)
PRINCIPAL = Key(
    "principal", PRINCIPAL_ARN, "The ARN of the role, user or account that may assume the reader role.", Required()
)
EXTERNAL_ID = Key("external_id", EXTERNAL_ID_TEXT, "The external id required to assume the role.", Required())
ATHENA = Key("athena", BOOLEAN, "Whether the role may also use Athena, in the environment's workgroup.", "false")
READERS = Key(
    "readers",
    MapOf(
        READER_NAME,
        Built(
            Section((PRINCIPAL, EXTERNAL_ID, ATHENA)),
            lambda values: Reader(values[PRINCIPAL], values[EXTERNAL_ID], values[ATHENA]),
        ),
    ),
    "Other readers of the tables; each gets an IAM role `frazil-<environment>-reader-<name>`.",
    "{}",
)
LAKE_FORMATION = Key(
    "lake_formation",
    BOOLEAN,
    "Whether AWS Lake Formation also grants the job, the readers and Snowflake their permissions in Glue; not with "
    "`tableflow`.",
    "false",
)
CATALOG_KEY = Key(
    "catalog_key",
    KMS_KEY_ARN,
    "The KMS key of your own that encrypts the account's Glue Data Catalog: the roles may then use it through Glue.",
    NONE,
)
LAKE = Key(
    "lake",
    Section((BUCKET, DATABASE, VERSION_RETENTION, CATALOG, READERS, LAKE_FORMATION, CATALOG_KEY)),
    "Storage of tables and artefacts.",
    "{}",
)

# Kafka
CONFLUENT_REGION = Key("region", REGION_NAME, "The AWS region of the cluster.", OF_ENVIRONMENT)
AVAILABILITY = Key(
    "availability",
    Choice(("SINGLE_ZONE", "MULTI_ZONE", "LOW", "HIGH")),
    "The cluster's availability; LOW and HIGH are Confluent's newer terms for SINGLE_ZONE and MULTI_ZONE.",
    "SINGLE_ZONE",
)
GOVERNANCE_PACKAGE = Key(
    "governance_package", Choice(("ESSENTIALS", "ADVANCED")), "The Stream Governance package.", "ESSENTIALS"
)
PARTITIONS = Key("partitions", COUNT, "The number of partitions of a new topic.", "6")
RETENTION = Key("retention", DURATION, "How long Kafka keeps its records.", "7d")
TOPIC = Built(Section((PARTITIONS, RETENTION)), lambda values: Topic(values[PARTITIONS], values[RETENTION]))
TOPICS = Key(
    "topics",
    MapOf(TOPIC_NAME, TOPIC),
    "Additional topics, and other sizes for topics of the table specs; existing topics are not changed.",
    "{}",
)
OWN_TOPICS = Key(
    "topics", MapOf(TOPIC_NAME, TOPIC), "Topics to create if they are missing; no others are created.", "{}"
)
SUBJECTS = Key(
    "subjects",
    ListOf(SUBJECT_NAME),
    "Subjects that the tables' schemas reference, so the job may read them; a trailing * matches any suffix.",
    "[]",
)
DATAGEN = Key(
    "datagen", BOOLEAN, "Whether a Datagen connector produces sample trades to the topic stock_trades.", "true"
)
TABLEFLOW = Key(
    "tableflow",
    ListOf(TOPIC_NAME),
    "Topics that Confluent Tableflow also writes as tables, for comparison; each needs a registered schema.",
    "[]",
)
STAND_IN = Key(
    "stand_in",
    BOOLEAN,
    "For --profile=local only: use the local broker in place of the cluster, in plaintext.",
    "false",
)
CONFLUENT = Key(
    "confluent",
    Section(
        (CONFLUENT_REGION, AVAILABILITY, GOVERNANCE_PACKAGE, DATAGEN, TABLEFLOW, FLINK, TOPICS, SUBJECTS, STAND_IN)
    ),
    "Create a Standard cluster in Confluent Cloud.",
    NONE,
)
CLUSTER_NAME = Key(
    "name", TABLE_NAME, "The cluster's folder in the bucket, and the default name of the Glue database.", "kafka"
)
BOOTSTRAP = Key("bootstrap.servers", TEXT, "Bootstrap brokers, as host:port, separated by commas.", Required())
PROTOCOLS = Choice(("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"))
PROTOCOL = Key("security.protocol", PROTOCOLS, "The security protocol of the brokers.", "sasl_ssl")
MECHANISM = Key("sasl.mechanism", Choice(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")), "The SASL mechanism.", NONE)
MSK_IAM = Key(
    "aws_msk_iam", BOOLEAN, "Whether the job authenticates to MSK with its IAM role; needs sasl_ssl.", "false"
)
CREDENTIALS = Key(
    "credentials", TEXT, "The secret with the SASL user and password, as kafka_api_key and kafka_api_secret.", NONE
)
REGISTRY_URL = Key("url", URL, "The URL of a registry with Confluent's API.", Derived("required, unless glue is given"))
REGISTRY_CREDENTIALS = Key(
    "credentials", TEXT, "The secret with registry_api_key and registry_api_secret, if the registry needs them.", NONE
)
GLUE_REGION = Key("region", REGION_NAME, "The AWS region of the registry.", OF_ENVIRONMENT)
GLUE = Key(
    "glue",
    Section((REGISTRY_NAME, GLUE_REGION)),
    "A schema registry of AWS Glue in this account, which the job reads with its role.",
    Derived("required, unless url is given"),
)
REGISTRY = Key(
    "registry",
    Section((REGISTRY_URL, REGISTRY_CREDENTIALS, GLUE), exactly_one=("url", "glue")),
    "The schema registry.",
    Required(),
)
EXTERNAL = Key(
    "external",
    Section(
        (CLUSTER_NAME, BOOTSTRAP, PROTOCOL, MECHANISM, MSK_IAM, CREDENTIALS, REGISTRY, OWN_TOPICS),
        refused=(
            Refused("sasl.username", "a user name is not allowed in an environment's file", IN_A_VAULT),
            Refused("sasl.password", "a password is not allowed in an environment's file", IN_A_VAULT),
            Refused(
                "ssl.*",
                "custom certificates are not supported in this release",
                "use brokers with a certificate from a public authority",
            ),
        ),
    ),
    "Use an existing Kafka cluster, such as MSK.",
    NONE,
)
KAFKA = Key(
    "kafka",
    Section((CONFLUENT, EXTERNAL), exactly_one=("confluent", "external")),
    "The Kafka cluster that records come from.",
    Required(),
)

# the jobs
CPUS = Choice(("1", "2", "4", "8", "16"))
DRIVER_CPU = Key("cpu", CPUS, "Virtual processors.", "2")
CPU = Key("cpu", CPUS, "Virtual processors.", "4")
MEMORY = Key("memory", GIGABYTES, "Memory; the valid sizes depend on `cpu`.", Derived("4GB per processor"))
DISK = Key("disk", GIGABYTES, "Local disk, 20GB to 200GB.", "20GB")
TOTAL_CPU = Key("cpu", COUNT, "Virtual processors.", "16")
TOTAL_MEMORY = Key("memory", GIGABYTES, "Memory.", "64GB")
TOTAL_DISK = Key("disk", GIGABYTES, "Local disk.", "200GB")
RELEASE_LABEL = Key(
    "release_label", Choice(("emr-spark-8.1.0", "emr-spark-8.0.0")), "The EMR Serverless release.", "emr-spark-8.1.0"
)
ARCHITECTURE = Key(
    "architecture", Choice(("x86_64", "arm64")), "The processor architecture; arm64 costs 20% less.", "x86_64"
)
PYTHON = Key(
    "python",
    TEXT,
    "The Python interpreter in the release's image; packages are built for its version.",
    "/usr/bin/python3.11",
)
DRIVER = Key("driver", Section((DRIVER_CPU, MEMORY, DISK)), "The size of a job run's driver.", "{}")
EXECUTOR = Key("executor", Section((CPU, MEMORY, DISK)), "The size of each executor.", "{}")
EXECUTORS = Key("executors", COUNT, "The number of executors of a job run.", "1")
MAXIMUM_CAPACITY = Key(
    "maximum_capacity",
    Section((TOTAL_CPU, TOTAL_MEMORY, TOTAL_DISK)),
    "The most that all job runs may use at once; a new account has a quota of 16 virtual processors.",
    "{}",
)
QUOTA_CPU = Key(
    "quota_cpu",
    COUNT,
    "The account's quota of virtual processors in EMR Serverless; `maximum_capacity` must not exceed it.",
    "16",
)
TABLES = Key(
    "tables",
    MapOf(TABLE_NAME, SCHEDULE),
    "Exceptions from `mode` by table: an EventBridge Scheduler expression, or `streaming`.",
    "{}",
)
MODE = Key(
    "mode",
    Choice(("streaming", "scheduled")),
    "How all other tables are written: by one continuous job run, or by job runs on the schedule `rate`.",
    "streaming",
)
RATE = Key("rate", SCHEDULE, "The schedule of these tables if `mode` is scheduled.", "rate(1 hour)")
ALARM_EMAIL = Key("alarm_email", EMAIL, "The address that receives alarms; it first gets a confirmation link.", NONE)
TABLE_METRICS = Key(
    "table_metrics",
    BOOLEAN,
    "Whether job runs write metrics of tables to CloudWatch: 7 for each, which AWS bills.",
    "true",
)
JOBS = Key(
    "jobs",
    Section(
        (
            *(RELEASE_LABEL, ARCHITECTURE, PYTHON, DRIVER, EXECUTOR, EXECUTORS, MAXIMUM_CAPACITY, QUOTA_CPU),
            *(MODE, RATE, TABLES, VERIFY, MAINTAIN, TIME_ZONE, ALARM_EMAIL, TABLE_METRICS),
        ),
    ),
    "The EMR Serverless application and its job runs.",
    "{}",
)

# keys
ROTATION_DAYS = Key("days", COUNT, "The age at which a key is replaced.", "30", "days")
KEYS_TO_RETAIN = Key(
    "keys_to_retain", RETAINED, "The number of API keys per account that stay valid; older ones are deleted.", "2"
)
ROTATION = Key("rotation", Section((ROTATION_DAYS, KEYS_TO_RETAIN)), "The rotation of keys.", "{}")

# IAM
PERMISSIONS_BOUNDARY = Key(
    "permissions_boundary",
    POLICY_ARN,
    "The ARN of a policy that becomes the permissions boundary of every role, for organizations that require one.",
    NONE,
)
IAM = Key("iam", Section((PERMISSIONS_BOUNDARY,)), "What all IAM roles have in common.", "{}")

# the environment
REGION = Key("region", REGION_NAME, "The AWS region.", Required())
PRODUCTION = Key("production", BOOLEAN, "Whether resources that hold data are protected from deletion.", "false")
TAGS = Key("tags", MapOf(TAG_NAME, TAG_VALUE), "Tags for all resources, in addition to Frazil's own; at most 40.", "{}")
LOG_RETENTION = Key("log_retention", LOG_DAYS, "How long CloudWatch keeps logs.", "30d")
ENVIRONMENT = Section(
    (
        REGION,
        PRODUCTION,
        BACKEND,
        TAGS,
        IAM,
        LOG_RETENTION,
        NETWORK,
        LAKE,
        KAFKA,
        JOBS,
        EXPORTS,
        POLICIES,
        ROTATION,
        SNOWFLAKE,
    )
)
