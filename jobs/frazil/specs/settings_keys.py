"""The keys of `frazil.yaml`."""

from __future__ import annotations

from frazil.specs.kafka_keys import KAFKA
from frazil.specs.keys import Derived, Key, Refused, Required, Section
from frazil.specs.scalars import TABLE_NAME, TEXT, URL
from frazil.specs.shapes import Choice, FilePath, NotYet, SecretText
from frazil.specs.snowflake_keys import SNOWFLAKE

NONE = Derived("none")

REGISTRY_URL = Key("url", URL, "Where the registry answers; one that speaks Confluent's interface.", Required())
REGISTRY_KEYS: tuple[Key[object], ...] = (
    REGISTRY_URL,
    Key("basic.auth.user.info", SecretText(), "User and password with a colon between, or API key and secret.", NONE),
    Key("ssl.ca.location", FilePath(), "The authorities that sign the registry's certificate, in PEM.",
        Derived("the system's")),
    Key("ssl.certificate.location", FilePath(), "The client's certificate, in PEM.", NONE),
    Key("ssl.key.location", FilePath(), "The client's private key, in PEM.", NONE),
    Key("ssl.key.password", SecretText(), "What the private key is encrypted with.", NONE),
)  # fmt: skip
REGISTRY = Section(
    REGISTRY_KEYS,
    refused=(
        Refused("bearer.auth.*", "bearer tokens are not there yet", "use basic.auth.user.info"),
        Refused("basic.auth.credentials.source", "there is one way only", "remove the key; basic.auth.user.info does"),
        Refused("ssl.truststore.*", "this is a setting of Java clients", "give ssl.ca.location, in PEM"),
    ),
)

CATALOG_TYPE = Key(
    "type",
    Choice(("jdbc", "glue"), not_yet=(NotYet("rest", "there are jdbc (embedded) and glue"),)),
    "Which Iceberg catalog lists the tables: jdbc is embedded (SQLite, for one machine), glue is AWS Glue.",
    "jdbc",
)
WAREHOUSE = Key(
    "warehouse",
    TEXT,
    "Where the tables are stored: a folder for jdbc (its SQLite file lies in it), s3://bucket/prefix for glue.",
    Derived(".frazil/warehouse for jdbc; must be given for glue"),
)
CATALOG = Section((CATALOG_TYPE, WAREHOUSE), handed_on=("glue.", "s3.", "client."))

KAFKA_KEY = Key("kafka", KAFKA, "The Kafka cluster, in librdkafka's own words.", Required())
REGISTRY_KEY = Key("schema_registry", REGISTRY, "Where writer schemas are looked up.", Required())
CATALOG_KEY = Key("catalog", CATALOG, "The Iceberg catalog.", "{}")
DATABASE = Key("database", TABLE_NAME, "Where tables go unless they say otherwise.", "lake")
TABLES = Key("tables", TEXT, "The folder with one YAML file per table, from the folder of frazil.yaml.", "tables/")

SNOWFLAKE_KEY = Key("snowflake", SNOWFLAKE, "An account of Snowflake that reads the tables.", Derived("there is none"))

SETTINGS = Section(
    (KAFKA_KEY, REGISTRY_KEY, CATALOG_KEY, DATABASE, TABLES, SNOWFLAKE_KEY),
    refused=(
        Refused("topics", "topics are not listed here", "write one file per table in the folder that `tables:` names"),
        Refused("aws_msk_iam", "this belongs to the brokers", "move the key under `kafka:`"),
    ),
)
